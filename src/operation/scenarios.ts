/**
 * Builds scenarios that run the variants of an operation and compare every rank with the reference, for `arke check`
 * (which needs a small shape) and for `arke run`.
 */
import { scenario, type Scenario, type ScenarioOptions } from '../world/world.ts'
import type { OperationDefinition, OperationOptions } from './definition.ts'

export interface OperationScenarioOptions<Options extends OperationOptions> extends Omit<
  ScenarioOptions,
  'tune'
> {
  /** The options that differ from the operation's defaults, such as a small shape and small tiles. */
  readonly options?: Partial<Omit<Options, 'variant'>>
  /**
   * The number of executions in a scenario; 2 by default. The contents of the inputs change between executions, so that
   * a stale buffer is found.
   */
  readonly executions?: number
}

/** Returns one scenario per variant, named after the operation and the variant. */
export function scenariosOf<Options extends OperationOptions, Contents>(
  definition: OperationDefinition<Options, Contents>,
  { options = {}, executions = 2, ...rest }: OperationScenarioOptions<Options> = {},
): readonly Scenario[] {
  return definition.variants.map((variant) =>
    scenario(`${definition.name} ${variant}`, rest, async (world) => {
      const operation = definition.make(world, { ...definition.defaults, ...options, variant } as Options)
      for (let execution = 1; execution <= executions; execution++) {
        const contents = operation.random(execution)
        operation.fill(contents)
        operation.launch()
        for (const rank of world.localRanks) {
          const found = await operation.result(rank)
          const expected = operation.reference(contents, rank)
          const wrong = found.findIndex((value, i) => !(Math.abs(value - expected[i]) <= operation.tolerance))
          if (wrong >= 0)
            throw new Error(
              `${definition.name} ${variant}: element ${wrong} of rank ${rank} is ${found[wrong]}, expected ${expected[wrong]} (atol ${operation.tolerance})`,
            )
        }
      }
      const { launches, remoteBytes } = operation.traffic
      const kernels = launches === 1 ? 'one kernel' : `${launches} kernels`
      return [`${kernels}, ${remoteBytes} bytes from other ranks, all ranks agree with the reference`]
    }),
  )
}
