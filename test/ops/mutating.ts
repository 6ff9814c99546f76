/** Simulates one error in every kernel of a host program that communicates. */
import type { Kernel, Meta, Params } from '../../src/lang/kernel.ts'
import type { LaunchArguments, LaunchOptions, World } from '../../src/world/world.ts'
import { Mutant, type Mutation } from '../targets/differential/mutant.ts'

/** Wraps a world so that kernels that wait or signal are launched as mutants. */
export function mutating(world: World, mutation: Mutation): World {
  const launch = <P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void => {
    const communicates = Object.values(kernel.params).some(({ kind }) => kind === 'flags')
    world.launch(communicates ? new Mutant(kernel, mutation) : kernel, args, options)
  }
  return new Proxy(world, {
    get(target, property) {
      if (property === 'launch') return launch
      const value: unknown = Reflect.get(target, property, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}
