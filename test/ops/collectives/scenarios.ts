/**
 * Defines scenarios of collectives: several launches in a row with no host barrier in between. Each launch follows a
 * kernel that overwrites its input and precedes a kernel that saves its result, so that a rank that is too early or too
 * late is detected. Results are compared bit by bit with the guaranteed order of additions, and with a float64 sum.
 */
import { expect } from 'vitest'
import { i32, kernel, scalar, tensor } from '../../../src/index.ts'
import { round } from '../../../src/ir/dtype.ts'
import {
  allGather,
  allReduce,
  allToAll,
  broadcast,
  reduceScatter,
  type AllReduceVariant,
  type CollectiveDType,
} from '../../../src/ops/collectives/index.ts'
import { expectClose, type SymmetricTensor, type World } from '../../../src/world/world.ts'

export interface Case {
  readonly dtype: CollectiveDType
  readonly elements: number
  readonly tile: number
  readonly grid: number | 'resident'
  readonly launches: number
  /** The seed of the inputs. */
  readonly seed: number
}

export const small: Case = { dtype: 'f32', elements: 5, tile: 2, grid: 2, launches: 3, seed: 1 }

/**
 * A pseudo-random number of the dtype between -4 and 4 that uses all mantissa bits. The same arguments always yield the
 * same number.
 */
function number(dtype: CollectiveDType, ...at: readonly number[]): number {
  let hash = 0x9e3779b9
  for (const one of at) hash = Math.imul(hash ^ (one + 0x7f4a7c15), 0x85ebca6b) ^ (hash >>> 13)
  return round(dtype, ((hash >>> 0) / 2 ** 32) * 8 - 4)
}

/** The data that rank `rank` has for rank `part` in launch number `launch`. */
const vector = ({ dtype, elements, seed }: Case, launch: number, rank: number, part = 0): number[] =>
  Array.from({ length: elements }, (_, i) => number(dtype, seed, launch, rank, part, i))

const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

/**
 * Kernels that copy step `step` of `all` to `one` or back, as other kernels of the stream would produce or consume
 * data.
 */
const copying = (dtype: CollectiveDType) => {
  const params = { all: tensor(dtype, 3), one: tensor(dtype, 2), step: scalar(i32) }
  return {
    produce: kernel('produce', params, (t, { all, one, step }) =>
      t.persistent(one.tiles([1, 4]), (tile, at) => t.copy(all.pick(step).tile(at, [1, 4]), tile)),
    ),
    consume: kernel('consume', params, (t, { all, one, step }) =>
      t.persistent(one.tiles([1, 4]), (tile, at) => t.copy(tile, all.pick(step).tile(at, [1, 4]))),
    ),
    produceVector: kernel('produceVector', { ...params, one: tensor(dtype, 1) }, (t, { all, one, step }) =>
      t.persistent(one.tiles([4]), (tile, at) => t.copy(all.pick(step).pick(0).tile(at, [4]), tile)),
    ),
    consumeVector: kernel('consumeVector', { ...params, one: tensor(dtype, 1) }, (t, { all, one, step }) =>
      t.persistent(one.tiles([4]), (tile, at) => t.copy(tile, all.pick(step).pick(0).tile(at, [4]))),
    ),
  }
}
const copies = { f32: copying('f32'), bf16: copying('bf16'), f16: copying('f16') }

interface Steps {
  readonly dtype: CollectiveDType
  readonly launches: number
  readonly grid: number | 'resident'
  /** The extent of the first axis of inputs and of results; 0 means a vector, which has only one axis. */
  readonly parts: { readonly input: number; readonly output: number }
  readonly elements: number
  readonly inputOf: (launch: number, rank: number) => readonly number[]
}
type Tensor = SymmetricTensor<CollectiveDType>

/** Runs `launch` repeatedly on fresh inputs. Yields the results of each rank, launch by launch. */
async function repeat(
  world: World,
  steps: Steps,
  launch: (input: Tensor, output: Tensor, step: number) => void,
): Promise<number[][][]> {
  const { dtype, launches, grid, parts, elements } = steps
  const shape = (count: number): number[] => (count === 0 ? [elements] : [count, elements])
  const stacked = (count: number): number[] => [launches, Math.max(count, 1), elements]
  const inputs = world.from(dtype, stacked(parts.input), (rank) =>
    range(launches).flatMap((step) => steps.inputOf(step, rank)),
  )
  const results = world.empty(dtype, stacked(parts.output), { name: 'results' })
  const input = world.empty(dtype, shape(parts.input), { name: 'input' })
  const inPlace = parts.output === parts.input && parts.input === 0
  const output = inPlace ? input : world.empty(dtype, shape(parts.output), { name: 'output' })
  const { produce, consume, produceVector, consumeVector } = copies[dtype]
  for (const step of range(launches)) {
    const [from, to] = [
      { all: inputs, one: input, step },
      { all: results, one: output, step },
    ]
    if (parts.input === 0) world.launch(produceVector, from, { grid })
    else world.launch(produce, from, { grid })
    launch(input, output, step)
    if (parts.output === 0) world.launch(consumeVector, to, { grid })
    else world.launch(consume, to, { grid })
  }
  const size = Math.max(parts.output, 1) * elements
  const got: number[][][] = []
  for (const rank of range(world.ranks)) {
    const all = [...(await world.read(results, rank))]
    got.push(range(launches).map((step) => all.slice(step * size, (step + 1) * size)))
  }
  return got
}

const scale = { f32: 2 ** -23, bf16: 2 ** -8, f16: 2 ** -11 }

/**
 * The sum of the terms in the given order, with each addition in f32 and one final rounding. The function also checks
 * that the result is close to the float64 sum.
 */
function sumOf(dtype: CollectiveDType, terms: readonly number[]): number {
  const total = terms.slice(1).reduce((sum, term) => Math.fround(sum + term), terms[0])
  const exact = terms.reduce((sum, term) => sum + term, 0)
  const size = terms.reduce((sum, term) => sum + Math.abs(term), 0)
  expectClose([round(dtype, total)], [exact], { atol: size * (scale[dtype] + terms.length * 2 ** -23) })
  return round(dtype, total)
}

export async function runAllReduce(world: World, variant: AllReduceVariant, one: Case): Promise<void> {
  const { dtype, elements, tile } = one
  const collective = allReduce(world, { ...one, variant, name: 'reduce' })
  const got = await repeat(
    world,
    { ...one, parts: { input: 0, output: 0 }, inputOf: (launch, rank) => vector(one, launch, rank) },
    (x) => collective.launch(x),
  )
  const shareLength = Math.ceil(elements / (tile * world.ranks)) * tile
  const ranks = range(world.ranks)
  for (const launch of range(one.launches)) {
    const all = ranks.map((rank) => vector(one, launch, rank))
    const expected = range(elements).map((i) => {
      const first = variant === 'ring' ? Math.floor(i / shareLength) : 0
      return sumOf(
        dtype,
        ranks.map((step) => all[(first + step) % world.ranks][i]),
      )
    })
    for (const rank of ranks) expectClose(got[rank][launch], expected)
  }
}

export async function runReduceScatter(world: World, one: Case): Promise<void> {
  const collective = reduceScatter(world, { ...one, name: 'reduce' })
  const ranks = range(world.ranks)
  const got = await repeat(
    world,
    {
      ...one,
      parts: { input: world.ranks, output: 0 },
      inputOf: (launch, rank) => ranks.flatMap((part) => vector(one, launch, rank, part)),
    },
    (x, out) => collective.launch(x, out),
  )
  for (const launch of range(one.launches))
    for (const rank of ranks) {
      const all = ranks.map((source) => vector(one, launch, source, rank))
      const expected = range(one.elements).map((i) =>
        sumOf(
          one.dtype,
          all.map((from) => from[i]),
        ),
      )
      expectClose(got[rank][launch], expected)
    }
}

export async function runAllGather(world: World, one: Case): Promise<void> {
  const collective = allGather(world, { ...one, name: 'gather' })
  const ranks = range(world.ranks)
  const got = await repeat(
    world,
    {
      ...one,
      parts: { input: 0, output: world.ranks },
      inputOf: (launch, rank) => vector(one, launch, rank),
    },
    (x, out) => collective.launch(x, out),
  )
  for (const launch of range(one.launches))
    for (const rank of ranks)
      expect(got[rank][launch]).toEqual(ranks.flatMap((source) => vector(one, launch, source)))
}

export async function runAllToAll(world: World, one: Case): Promise<void> {
  const collective = allToAll(world, { ...one, name: 'exchange' })
  const ranks = range(world.ranks)
  const got = await repeat(
    world,
    {
      ...one,
      parts: { input: world.ranks, output: world.ranks },
      inputOf: (launch, rank) => ranks.flatMap((part) => vector(one, launch, rank, part)),
    },
    (x, out) => collective.launch(x, out),
  )
  for (const launch of range(one.launches))
    for (const rank of ranks)
      expect(got[rank][launch]).toEqual(ranks.flatMap((source) => vector(one, launch, source, rank)))
}

export async function runBroadcast(world: World, one: Case): Promise<void> {
  const collective = broadcast(world, { ...one, name: 'cast' })
  const rootOf = (launch: number): number => (launch * 2 + one.seed) % world.ranks
  const got = await repeat(
    world,
    { ...one, parts: { input: 0, output: 0 }, inputOf: (launch, rank) => vector(one, launch, rank) },
    (x, _, step) => collective.launch(x, rootOf(step)),
  )
  for (const launch of range(one.launches))
    for (const rank of range(world.ranks))
      expect(got[rank][launch]).toEqual(vector(one, launch, rootOf(launch)))
}

/** Every collective that moves data, by name. */
export const collectives: Readonly<Record<string, (world: World, one: Case) => Promise<void>>> = {
  'all-reduce, one shot': (world, one) => runAllReduce(world, 'oneShot', one),
  'all-reduce, two shots': (world, one) => runAllReduce(world, 'twoShot', one),
  'all-reduce, ring': (world, one) => runAllReduce(world, 'ring', one),
  'reduce-scatter': runReduceScatter,
  'all-gather': runAllGather,
  'all-to-all': runAllToAll,
  broadcast: runBroadcast,
}
