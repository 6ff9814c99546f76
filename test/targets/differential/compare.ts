/**
 * `compareTargets` runs one kernel on several targets with the same random inputs. Outputs are filled with a poison
 * value first. If a target differs, the error names the output, site, item and element.
 */
import { openWorld, type SymmetricFlags, type SymmetricTensor, type World } from '../../../src/index.ts'
import type { StorageDType } from '../../../src/ir/dtype.ts'
import { formatFinding } from '../../../src/targets/check/findings.ts'
import { RandomScheduler } from '../../../src/targets/check/scheduler.ts'
import { CheckWorld } from '../../../src/targets/check/world.ts'
import type { Generated } from './generator.ts'
import { accumulators, commutative, contents, params, type Name } from './params.ts'

/** A number that every dtype can represent and that a kernel is unlikely to write. */
const poison = 88

type Held = Readonly<Record<Name, SymmetricTensor | SymmetricFlags>>
/** The contents of each written tensor, per rank. */
export type Results = ReadonlyMap<Name, readonly Float64Array[]>

/**
 * Opens a target by name. `check:lowered` is the checker on the lowered form. `check@7` is the checker with seed 7.
 * `wasm+group` is a group of a larger world: its last rank, then its first ones.
 */
export async function open(target: string, ranks: number): Promise<World> {
  if (target.endsWith('+group')) {
    const world = await open(target.slice(0, -'+group'.length), ranks + 2)
    const others = Array.from({ length: ranks - 1 }, (_, rank) => rank)
    return Object.assign(world.group([ranks + 1, ...others]), { close: () => world.close() })
  }
  if (target === 'check:lowered')
    return new CheckWorld({ ranks, stage: 'lowered', scheduler: new RandomScheduler(1) })
  const [name, seed] = target.split('@')
  return openWorld({ target: name, ranks, seed: seed === undefined ? 1 : Number(seed) })
}

function allocate(world: World, { shape, sites }: Generated, seed: number): Held {
  const { rows, columns, items, height, width } = shape
  const slots = (dtype: StorageDType): number => Math.max((sites.get(dtype)?.length ?? 0) * items, 1)
  const held: Partial<Record<Name, SymmetricTensor | SymmetricFlags>> = {}
  Object.entries(params).forEach(([name, param], at) => {
    if (param.kind === 'flags') {
      held[name as Name] = world.flags([items], { name })
      return
    }
    const { dtype } = param
    const from = (extents: readonly number[], small: boolean): SymmetricTensor => {
      const count = extents.reduce((product, extent) => product * extent, 1)
      return world.from(dtype, extents, (rank) => contents(dtype, count, seed + at * 64 + rank, small), {
        name,
      })
    }
    const [role] = name.split('_')
    held[name as Name] =
      role === 'in' || role === 'small'
        ? from([rows, columns], role === 'small')
        : role === 'accumulate'
          ? world.full(dtype, [commutative.length, accumulators], 5, { name })
          : world.full(dtype, [role === 'mail' ? items : slots(dtype), height, width], poison, { name })
  })
  return held as Held
}

/** The final contents of every tensor that the kernel writes, on one target. */
export async function resultsOn(target: string, generated: Generated, seed: number): Promise<Results> {
  const { shape, kernel } = generated
  const world = await open(target, shape.ranks)
  try {
    const held = allocate(world, generated, seed)
    const grid = shape.communicates ? 'resident' : shape.grid
    for (let launch = 0; launch < shape.launches; launch++) {
      world.launch(kernel, held as never, { grid })
      await world.barrier()
    }
    if (world instanceof CheckWorld && world.findings.length > 0)
      throw new Error(world.findings.map(formatFinding).join('\n'))
    const results = new Map<Name, Float64Array[]>()
    for (const name of Object.keys(params) as Name[]) {
      if (!/^(out|accumulate|mail)/.test(name)) continue
      const all: Float64Array[] = []
      for (let rank = 0; rank < shape.ranks; rank++)
        all.push(await world.read(held[name] as SymmetricTensor, rank))
      results.set(name, all)
    }
    return results
  } finally {
    await world.close()
  }
}

/** Throws if a target differs from the first one by more than the kernel allows. */
export async function compareTargets(
  generated: Generated,
  targets: readonly string[],
  seed: number,
): Promise<void> {
  const [first, ...others] = targets
  const expected = await resultsOn(first, generated, seed)
  for (const target of others) {
    const actual = await resultsOn(target, generated, seed)
    const difference = differenceOf(generated, expected, actual, [first, target])
    if (difference !== undefined) throw new Error(difference)
  }
}

/** Describes the first difference between two targets that exceeds the allowed one, or returns undefined. */
export function differenceOf(
  generated: Generated,
  expected: Results,
  actual: Results,
  names: readonly [string, string],
): string | undefined {
  for (const [name, ranks] of expected)
    for (const [rank, wanted] of ranks.entries()) {
      const difference = compare(generated, name, rank, wanted, actual.get(name)![rank], names)
      if (difference !== undefined) return difference
    }
  return undefined
}

function compare(
  { shape, sites }: Generated,
  name: Name,
  rank: number,
  wanted: Float64Array,
  got: Float64Array,
  [first, target]: readonly [string, string],
): string | undefined {
  const dtype = name.replace(/^[a-z]+_/, '') as StorageDType
  const tolerances = name.startsWith('out_') ? sites.get(dtype) : undefined
  const slot = shape.height * shape.width
  for (let i = 0; i < wanted.length; i++) {
    const site = Math.floor(i / (slot * shape.items))
    const error = tolerances?.[site] ?? 0
    // Each of the two targets may deviate by `error`.
    if (Object.is(wanted[i], got[i]) || Math.abs(wanted[i] - got[i]) <= 2 * error) continue
    const item = Math.floor(i / slot) % shape.items
    return (
      `${name} of rank ${rank}, site ${site}, item ${item}, [${Math.floor((i % slot) / shape.width)}, ${i % shape.width}]: ` +
      `${target} has ${got[i]}, ${first} ${wanted[i]}${error > 0 ? `, and they may differ by ${2 * error}` : ''}`
    )
  }
  return undefined
}
