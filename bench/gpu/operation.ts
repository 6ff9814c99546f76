/**
 * Measures all variants of an operation at one cell of the benchmark. All variants of an operation run interleaved with
 * the one step (such as the matrix product alone) whose time is a lower bound on the time of every variant. If this
 * step is only a matrix product, the benchmark also measures the vendor's matrix product instead of Arke's.
 */
import type { Step } from '../../src/operation/definition.ts'
import type { AnyDefinition } from '../../src/ops/operations.ts'
import { device, leastTime, operationOf, repeatsFor, type Cell, type CellResult, type Role } from './cells.ts'
import { bytesOn, expectedMachine, inputsOf, optionsOf } from './inputs.ts'
import type { Pattern } from './pattern.ts'
import { mostVendorLaunches, Stage, type Effort } from './stage.ts'
import { enterVendor } from './vendor.ts'

export interface Entered {
  readonly variant: string
  readonly role: Role
}

/** All variants of the operation, with the roles that its definition gives them. */
export const everyVariant = ({ variants, fused }: AnyDefinition): Entered[] =>
  variants.map((variant) => ({
    variant,
    role: variant === 'bsp' ? 'baseline' : fused.includes(variant) ? 'fused' : 'between',
  }))

/** The number of spare bytes that the heap has in addition to the counted allocations. */
const spareBytes = 128 * 2 ** 20

/**
 * The largest number of launches per execution, if the vendor's library computes the steps that are matrix products.
 */
const launchesOf = (steps: readonly Step[]): number =>
  steps.reduce((sum, { product }) => sum + (product ? mostVendorLaunches : 1), 0)

/** Opens the world in which a cell measures an operation, and adds the variants in `entered` as contestants. */
export async function operationStage(
  cell: Cell,
  pattern: Pattern,
  entered: readonly Entered[],
): Promise<Stage> {
  const { definition, gpu } = operationOf(cell)!
  const { ranks, multiprocessors } = cell
  const source = inputsOf(definition)
  const sets = source.sets(cell)
  let mostLaunches = 0
  const counted = bytesOn(expectedMachine(cell), ranks, (world) => {
    for (let set = 0; set < sets; set++) {
      const first = definition.make(world, optionsOf(definition, cell, entered[0].variant))
      const others = entered
        .slice(1)
        .map(({ variant }) => definition.make(world, optionsOf(definition, cell, variant), first.inputs))
      for (const { steps } of [first, ...others]) mostLaunches = Math.max(mostLaunches, launchesOf(steps))
    }
  })
  const heap = counted + (source.extraBytes?.(cell) ?? 0) + spareBytes
  const repeats = repeatsFor(leastTime(cell, multiprocessors ?? device.processors / ranks), mostLaunches)
  const stage = await Stage.open({ ranks, heap, multiprocessors, repeats })
  const { world, stream } = stage
  try {
    const prepared = source.prepare(stage, cell, pattern)
    let vendor: (() => Promise<void>) | undefined
    for (const { variant, role } of entered)
      await stage.try(variant, async () => {
        const options = { ...optionsOf(definition, cell, variant), stream: stream.id }
        const made = prepared.inputs.map((inputs) => definition.make(world, options, inputs))
        const check = prepared.check(made.map(({ outputs }) => Object.values(outputs)[0]))
        const executions = made.map((operation) => ({
          launches: operation.steps.length,
          launch: () => operation.launch(),
        }))
        await stage.enter(variant, role, executions, check)
        if (role !== 'baseline') return
        // No variant can be faster than this single step. The single step is correct if the remaining steps compute the
        // expected result from its output.
        const at = made[0].steps.findIndex(({ name }) => name === definition.limit.step)
        const alone = made.map(({ steps }) => ({ launches: 1, launch: () => steps[at].launch() }))
        await stage.enter(gpu.alone, 'alone', alone, (n, run) =>
          check(n, () => {
            run()
            for (const step of made[n].steps.slice(at + 1)) step.launch()
          }),
        )
        vendor = () => enterVendor(stage, cell, made, at, gpu.alone, check)
      })
    await vendor?.()
    return stage
  } catch (error) {
    await stage.close()
    throw error
  }
}

export async function measureOperation(cell: Cell, pattern: Pattern, effort: Effort): Promise<CellResult> {
  const { definition, gpu } = operationOf(cell)!
  const stage = await operationStage(cell, pattern, everyVariant(definition))
  try {
    const [multiprocessors] = stage.world.machine.processors
    return {
      ...cell,
      multiprocessors,
      ...(await stage.bothTimes(effort)),
      limit: leastTime(cell, multiprocessors),
      remoteBytes: gpu.remoteBytes(cell),
    }
  } finally {
    await stage.close()
  }
}
