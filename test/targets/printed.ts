/** Runs `arke emit` for a launch in the way a person would: with names and numbers on the command line. */
import { f32, kernel, tensor } from 'arke'
import type { AnyDefinition } from '../../src/ops/operations.ts'
import { operandDTypes, type OperandDType, type OperationOptions } from '../../src/operation/definition.ts'
import { emit, type EmitOptions } from '../../src/cli/emit.ts'
import { descriptions } from '../../src/targets/descriptions.ts'
import type { FactOption } from '../../src/targets/description.ts'
import type { StagedTarget } from '../../src/targets/stages.ts'
import { describedWorld, launchFacts } from '../../src/world/described.ts'
import type { Machine } from '../../src/world/machine.ts'
import type { Launch, World } from '../../src/world/world.ts'

/** The facts about a world for which kernels are specialised. */
export interface Where {
  readonly target: StagedTarget
  readonly ranks: number
  readonly record: boolean
  readonly severalDevices?: boolean
}

export function printed({ kernel, args, options }: Launch, where: Where): string {
  const { target, record, severalDevices } = where
  const { shapes, packed, hostSignals } = launchFacts({ args })
  const members = options.group?.members
  const meta = Object.entries((options.meta ?? {}) as Record<string, unknown>)
    .filter(([name]) => name in kernel.meta)
    .map(([name, value]) => `${name}=${String(value)}`)
  const facts: Pick<EmitOptions, FactOption> = {
    extents: Object.entries(shapes).map(([name, shape]) => `${name}=${shape.join('x')}`),
    packed,
    group: members,
    record,
    severalDevices,
    hostSignals,
  }
  const own = Object.entries(facts).filter(([name]) =>
    descriptions[target].options.includes(name as FactOption),
  )
  const source = { file: 'kernel.ts', kernels: [kernel], scenarios: [], operations: [] }
  const ranks = members?.length ?? where.ranks
  return emit(source, { target, ranks, meta, ...Object.fromEntries(own) }).text
}

const printing = kernel('printing', { x: tensor(f32, 1) }, (t, { x }) => {
  const row = t.load(x.tile([0], [16]))
  t.print('row', row, row.sum(), t.rank)
  t.if(t.program.eq(1), () => t.print('one', t.program))
})

/** Launches a kernel that prints. The code of a kernel that prints has additional parameters, which a stage adds. */
export const launchPrinting = (world: World): void =>
  world.launch(printing, { x: world.empty(f32, [96]) }, { grid: 2 })

/** Draws numbers below `below`; equal seeds give equal numbers. */
export function drawing(seed: number): (below: number) => number {
  let state = (seed * 2654435761) >>> 0 || 1
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}

/** The default options of an operation in each layout, with the command-line arguments that select the layout. */
export function everyLayout({ defaults, layouts = {} }: AnyDefinition): [OperationOptions, string[]][] {
  let all: [OperationOptions, string[]][] = [[defaults, []]]
  for (const [name, values] of Object.entries(layouts))
    all = all.flatMap(([options, words]) =>
      values.map((value): [OperationOptions, string[]] => [
        { ...options, [name]: value },
        [...words, `${name}=${value}`],
      ]),
    )
  return all
}

/** An operation, the number of ranks on which it runs, and the dtype of its operands. */
export interface Cell {
  readonly definition: AnyDefinition
  readonly dtype: OperandDType
  readonly ranks: number
}

export const cellsOf = (definitions: readonly AnyDefinition[]): Cell[] =>
  definitions.flatMap((definition) =>
    (definition.dtypes ?? operandDTypes).flatMap((dtype) =>
      [2, 8].map((ranks) => ({ definition, dtype, ranks })),
    ),
  )

/** The format in which the names of tests state an operation, a dtype and a number of ranks. */
export const cellName = '$definition.name, $dtype, $ranks ranks'

/**
 * The launches of an operation with all its variants and options (its forms) at every usual shape, with some of its
 * candidate tiles, on a machine that is only described. Each launch occurs once in the list.
 */
export async function launchesOf(
  { definition, dtype, ranks }: Cell,
  machine: Machine,
  isPacked: boolean,
  choose: (candidates: readonly object[]) => readonly object[],
): Promise<Launch[]> {
  const { points, make, tiling } = definition
  const found: Launch[] = []
  const known = new Map<unknown, Set<string>>()
  for (const shape of Object.values(points.usual))
    for (const form of Object.values(points.forms({ machine, ranks, dtype, shape }))) {
      const options = { ...form, shape, dtype }
      for (const tiles of choose(tiling({ ranks, machine }, options).candidates())) {
        const { world, launches } = describedWorld(machine)
        try {
          const operation = make(world, { ...options, tiles } as OperationOptions)
          if (isPacked) await operation.pack()
          operation.launch()
        } catch (error) {
          // Not every form of the operation works with all candidates of the matrix product.
          if (error instanceof RangeError) continue
          throw error
        }
        for (const launch of launches) {
          const key = JSON.stringify([launch.options.meta, launchFacts(launch)])
          const ofKernel = known.get(launch.kernel) ?? new Set()
          known.set(launch.kernel, ofKernel)
          if (!ofKernel.has(key)) found.push(launch)
          ofKernel.add(key)
        }
      }
    }
  return found
}
