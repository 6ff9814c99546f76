/**
 * `compareTargets` runs one kernel on several targets with the same random inputs. Before the comparison, outputs are
 * filled with a poison value. If a target differs, the error names the output, site, item and element, or the printed line.
 */
import {
  openWorld,
  type DroppedPrints,
  type OnPrint,
  type Printed,
  type SymmetricFlags,
  type SymmetricTensor,
  type World,
} from '../../../src/index.ts'
import type { StorageDType } from '../../../src/ir/dtype.ts'
import type { KernelIR } from '../../../src/ir/node.ts'
import { atStage, LAST_STAGE, specialise, usualWorld, type Shapes } from '../../../src/targets/cuda/facts.ts'
import { formatFinding } from '../../../src/targets/check/findings.ts'
import { RandomScheduler } from '../../../src/targets/check/scheduler.ts'
import { CheckWorld } from '../../../src/targets/check/world.ts'
import type { Shape } from './builder.ts'
import type { Generated } from './generator.ts'
import { accumulators, allParams, commutative, contents, signals, wideExtents, type Name } from './params.ts'

/** A number that every dtype can represent and that a kernel is unlikely to write. */
const poison = 88

type Held = Readonly<Record<Name, SymmetricTensor | SymmetricFlags>>
export interface Results {
  /** The contents of each written tensor, per rank. */
  readonly tensors: ReadonlyMap<Name, readonly Float64Array[]>
  /** The printed lines of all programs, sorted, or undefined if they cannot be attributed to a launch. */
  readonly printed: readonly string[] | undefined
}

/** The kernel runs on one world, or on two groups of one world at the same time. */
interface Opened {
  readonly worlds: readonly World[]
  readonly close: () => Promise<void>
}

/** The last IR stage for a GPU, with the facts of the tensors. */
const onGpu = (recorded: KernelIR, shapes: Shapes): KernelIR =>
  atStage(recorded, LAST_STAGE, specialise(usualWorld, shapes))
/** For each name, the compiler stage after which the checker runs the kernels. */
const stages: Readonly<Record<string, 'lowered' | typeof onGpu>> = {
  'check:lowered': 'lowered',
  'check:order': onGpu,
}

/**
 * Opens a target by name. `check:lowered` and `check:order` are the checker on kernels after later stages; `check@7` is
 * the checker with seed 7. `wasm+groups` is a pair of overlapping groups of a larger world. On cuda, the ranks of one
 * group have a constant distance, and the other group needs a table of heaps; on other targets, ranks are in any order.
 */
async function open(target: string, ranks: number, onPrint: OnPrint): Promise<Opened> {
  if (target.endsWith('+groups')) {
    const name = target.slice(0, -'+groups'.length)
    const list = (at: (rank: number) => number): number[] =>
      Array.from({ length: ranks }, (_, rank) => at(rank))
    const lists =
      name === 'cuda'
        ? [list((rank) => 2 * rank + 1), list((rank) => ranks - rank)]
        : [list((rank) => (rank + ranks) % (ranks + 1)), list((rank) => ranks - rank)]
    const world = await openWorld({ target: name, ranks: 2 * ranks, onPrint: () => {} })
    return { worlds: lists.map((members) => world.group(members)), close: () => world.close() }
  }
  const stage = stages[target]
  const world = stage
    ? new CheckWorld({ ranks, stage, scheduler: new RandomScheduler(1), onPrint })
    : await openNamed(target, ranks, onPrint)
  return { worlds: [world], close: () => world.close() }
}

function openNamed(target: string, ranks: number, onPrint: OnPrint): Promise<World> {
  const [name, seed] = target.split('@')
  return openWorld({ target: name, ranks, seed: seed === undefined ? 1 : Number(seed), onPrint })
}

/**
 * A line that a kernel prints, without the source line and the program number in it. The target decides which program
 * works on an item.
 */
const lineOf = (printed: Printed | DroppedPrints): string => {
  if ('dropped' in printed) throw new Error(printed.message)
  return `rank ${printed.rank}: ${printed.message.replace(/^.*? of generated: /, '')}`
}

function allocate(world: World, { shape, sites }: Generated, seed: number): Held {
  const { rows, columns, items, height, width } = shape
  const slots = (dtype: StorageDType): number => Math.max((sites.get(dtype)?.length ?? 0) * items, 1)
  const held: Partial<Record<Name, SymmetricTensor | SymmetricFlags>> = {}
  Object.entries(allParams).forEach(([name, param], at) => {
    if (param.kind === 'flags') {
      const signaller = name === 'go' ? ({ signaller: 'host' } as const) : {}
      held[name as Name] = world.flags([items], {
        name,
        arrivals: name === 'rounds' ? signals : 1,
        ...signaller,
      })
      return
    }
    const { dtype } = param
    const from = (extents: readonly number[], small: boolean): SymmetricTensor => {
      const count = extents.reduce((product, extent) => product * extent, 1)
      return world.from(dtype, extents, (rank) => contents(dtype, count, seed + at * 64 + rank, small), {
        name,
      })
    }
    const filled = (...extents: number[]): SymmetricTensor => world.full(dtype, extents, poison, { name })
    const [role] = name.split('_')
    const allocations: Readonly<Record<string, () => SymmetricTensor>> = {
      in: () => from([rows, columns], false),
      small: () => from([rows, columns], true),
      wide: () => from(wideExtents, false),
      accumulate: () => world.full(dtype, [commutative.length, accumulators], 5, { name }),
      out: () => filled(slots(dtype), height, width),
      mail: () => filled(items, height, width),
      post: () => filled(items, signals, 1),
    }
    held[name as Name] = (allocations[role] ?? (() => filled(items)))()
  })
  return held as Held
}

/** Sends a request for every item to every rank, polls until the kernels have answered, and returns the replies. */
async function serve(world: World, held: Held, { items }: Shape, launch: number): Promise<number[][]> {
  const [asked, reply, told] = [held.asked, held.reply, held.told] as SymmetricTensor[]
  const replies: number[][] = []
  for (const rank of world.localRanks) {
    const questions = Array.from({ length: items }, (_, item) => 1000 * (launch + 1) + 10 * rank + item)
    world.write(asked, rank, questions)
    replies[rank] = []
    for (const [item, question] of questions.entries()) {
      world.signal(held.go as SymmetricFlags, rank, [item])
      while ((await world.peek(told, rank))[item] !== question);
      replies[rank].push((await world.peek(reply, rank))[item])
    }
  }
  return replies
}

const written = /^(?:out|accumulate|mail|post|reply|told)/

/** The final contents of every tensor that the kernel writes, on one target. */
export async function resultsOn(target: string, generated: Generated, seed: number): Promise<Results> {
  const { shape, kernel } = generated
  const printed: string[] = []
  const { worlds, close } = await open(target, shape.ranks, (line) => void printed.push(lineOf(line)))
  try {
    const all = worlds.map((world) => ({ world, held: allocate(world, generated, seed) }))
    const grid = shape.communicates ? 'resident' : shape.grid
    let replies: number[][][] = []
    for (let launch = 0; launch < shape.launches; launch++) {
      for (const { world, held } of all) world.launch(kernel, held as never, { grid })
      if (shape.host) {
        replies = []
        for (const { world, held } of all) replies.push(await serve(world, held, shape, launch))
      }
      await worlds[0].barrier()
    }
    const [found, ...others] = await Promise.all(all.map(({ world, held }) => contentsOf(world, held, shape)))
    for (const world of worlds)
      if (world instanceof CheckWorld && world.findings.length > 0)
        throw new Error(world.findings.map(formatFinding).join('\n'))
    // After the stage `prints`, a kernel stores its lines to a buffer, which the checker does not read.
    const hasLines = worlds.length === 1 && stages[target] === undefined
    const results = { tensors: found, printed: hasLines ? printed.sort() : undefined }
    for (const other of others) {
      const second = { tensors: other, printed: undefined }
      const difference = differenceOf(generated, results, second, ['the first group', 'the second group'])
      if (difference !== undefined) throw new Error(`${target}: ${difference}`)
    }
    for (const [at, ofWorld] of replies.entries())
      for (const [rank, seen] of ofWorld.entries()) {
        const final = [found, ...others][at].get('reply')![rank]
        if (seen.some((value, item) => value !== final[item]))
          throw new Error(
            `${target}: the host saw the replies ${seen.join(' ')} of rank ${rank}, not ${final.join(' ')}`,
          )
      }
    return results
  } finally {
    await close()
  }
}

async function contentsOf(world: World, held: Held, { ranks }: Shape): Promise<Map<Name, Float64Array[]>> {
  const found = new Map<Name, Float64Array[]>()
  for (const name of Object.keys(allParams) as Name[]) {
    if (!written.test(name)) continue
    const all: Float64Array[] = []
    for (let rank = 0; rank < ranks; rank++) all.push(await world.read(held[name] as SymmetricTensor, rank))
    found.set(name, all)
  }
  return found
}

/** Throws an error if a target differs from the first one by more than the kernel allows. */
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
  for (const [name, ranks] of expected.tensors)
    for (const [rank, wanted] of ranks.entries()) {
      const difference = compare(generated, name, rank, wanted, actual.tensors.get(name)![rank], names)
      if (difference !== undefined) return difference
    }
  if (!expected.printed || !actual.printed) return undefined
  const at = expected.printed.findIndex((line, n) => line !== actual.printed![n])
  const first = at < 0 ? expected.printed.length : at
  const [wanted, got] = [expected, actual].map(({ printed }) => printed![first] ?? 'no line')
  return wanted === got ? undefined : `printed line ${first}: ${names[1]} has ${got}, ${names[0]} ${wanted}`
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
    // Each of the two compared targets may deviate from the exact result by `error`.
    if (Object.is(wanted[i], got[i]) || Math.abs(wanted[i] - got[i]) <= 2 * error) continue
    const item = Math.floor(i / slot) % shape.items
    return (
      `${name} of rank ${rank}, site ${site}, item ${item}, [${Math.floor((i % slot) / shape.width)}, ${i % shape.width}]: ` +
      `${target} has ${got[i]}, ${first} ${wanted[i]}${error > 0 ? `, and they may differ by ${2 * error}` : ''}`
    )
  }
  return undefined
}
