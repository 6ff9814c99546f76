/**
 * Flash Decode: every step of the ladder from bulk synchronous to fused. Some heads of every result are compared with float64
 * before anything is timed.
 */
import { flashDecode, type FlashDecodeVariant } from '../../src/ops/flashDecode/index.ts'
import type { CudaWorld } from '../../src/targets/cuda/world.ts'
import type { SymmetricTensor } from '../../src/world/world.ts'
import {
  cacheBytes,
  decodeLimit,
  device,
  repeatsFor,
  setsFor,
  type Cell,
  type CellResult,
  type Role,
} from './cells.ts'
import { blockRows, poison, readSome, type Pattern } from './pattern.ts'
import { expectSimilar, Stage, Wrong, type Effort } from './stage.ts'

export interface DecodeShape {
  readonly batch: number
  readonly queryHeads: number
  readonly kvHeads: number
  readonly D: number
  readonly tokens: number
}

interface DecodeContestant {
  readonly variant: FlashDecodeVariant
  readonly role: Role
}

export const ladder: readonly DecodeContestant[] = [
  { variant: 'bsp', role: 'baseline' },
  { variant: 'gather-kernel', role: 'between' },
  { variant: 'fine-grained', role: 'between' },
  { variant: 'fused-coarse', role: 'fused' },
  { variant: 'fused', role: 'fused' },
]
const numbers = { q: 0, k: 1, v: 2 } as const

/** Contestants on as many sets of inputs as it takes. */
export async function decodeStage(
  cell: Cell,
  pattern: Pattern,
  contestants: readonly DecodeContestant[],
): Promise<Stage> {
  const { ranks, dtype, multiprocessors } = cell
  const shape = cell.shape as unknown as DecodeShape
  const { batch, queryHeads, kvHeads, D } = shape
  const G = queryHeads / kvHeads
  const sets = setsFor(cacheBytes(cell))
  // Keys and values, and for each contestant inboxes of partial results: at most four parts for each multiprocessor or tile.
  const partials = 4 * ranks * 2 * 4 * (132 + batch * kvHeads) * (G * D + 2 * G)
  const heap = sets * (cacheBytes(cell) / ranks + contestants.length * 2 * partials) + 128 * 2 ** 20
  const repeats = repeatsFor(decodeLimit(cell, multiprocessors ?? device.multiprocessors / ranks))
  const stage = await Stage.open({ ranks, heap, multiprocessors, repeats })
  const { world, stream } = stage
  try {
    const inputs = decodeInputs(world, cell, pattern)
    const samples = sampleAttention(shape, ranks, pattern)
    const check = (outs: readonly SymmetricTensor[]) => decodeCheck(world, outs, samples)
    for (const { variant, role } of contestants)
      await stage.try(variant, async () => {
        const operations = inputs.map((input) =>
          flashDecode(world, { shape, dtype, variant, stream: stream.id }, input),
        )
        const compared = check(operations.map(({ outputs }) => outputs.out))
        const executions = operations.map((operation) => ({
          launches: operation.steps.length,
          launch: () => operation.launch(),
        }))
        await stage.enter(variant, role, executions, compared)
        if (role !== 'baseline') return
        // What no variant undercuts. It is right if the rest of the operation makes the result of it.
        const attentions = operations.map(({ steps: [attend] }) => ({
          launches: 1,
          launch: () => attend.launch(),
        }))
        await stage.enter('attention', 'alone', attentions, (n, run) =>
          compared(n, () => {
            run()
            for (const step of operations[n].steps.slice(1)) step.launch()
          }),
        )
      })
    return stage
  } catch (error) {
    await stage.close()
    throw error
  }
}

/** As many sets as it takes. */
export function decodeInputs(world: CudaWorld, cell: Cell, pattern: Pattern) {
  const { dtype } = cell
  const { batch, queryHeads, kvHeads, D, tokens } = cell.shape as unknown as DecodeShape
  const G = queryHeads / kvHeads
  const inputs = Array.from({ length: setsFor(cacheBytes(cell)) }, () => ({
    q: world.empty(dtype, [batch, kvHeads, G, D], { name: 'q' }),
    k: world.empty(dtype, [batch, kvHeads, tokens, D], { name: 'k' }),
    v: world.empty(dtype, [batch, kvHeads, tokens, D], { name: 'v' }),
    lengths: world.full('i32', [batch], tokens, { name: 'lengths' }),
  }))
  for (const rank of world.localRanks)
    for (const { q, k, v } of inputs) {
      // The same query on every rank.
      pattern.fill(world, q, numbers.q, rank, 0)
      pattern.fill(world, k, numbers.k, rank)
      pattern.fill(world, v, numbers.v, rank)
    }
  return inputs
}

/** Runs what writes one of the results, which were poisoned, and compares it. */
export const decodeCheck =
  (world: CudaWorld, outs: readonly SymmetricTensor[], samples: readonly AttentionSample[]) =>
  async (n: number, run: () => void): Promise<void> => {
    for (const rank of world.localRanks) poison(world, outs[n], rank)
    run()
    await world.synchronize()
    const elements = outs[n].shape.reduce((product, extent) => product * extent, 1)
    for (const rank of world.localRanks) {
      const out = readSome(world, outs[n], rank, 0, elements)
      if (out.some(Number.isNaN)) throw new Wrong(`rank ${rank}: elements were not written`)
      for (const { first, expected } of samples)
        expectSimilar(`rank ${rank}, from element ${first}`, out.subarray(first), expected)
    }
  }

export async function measureDecode(cell: Cell, pattern: Pattern, effort: Effort): Promise<CellResult> {
  const stage = await decodeStage(cell, pattern, ladder)
  try {
    const { batch, queryHeads, D } = cell.shape as unknown as DecodeShape
    const [multiprocessors] = stage.world.machine.processors
    return {
      ...cell,
      multiprocessors,
      ...(await stage.bothTimes(effort)),
      limit: decodeLimit(cell, multiprocessors),
      remoteBytes: 4 * (cell.ranks - 1) * batch * queryHeads * (D + 2),
    }
  } finally {
    await stage.close()
  }
}

interface AttentionSample {
  /** Of the output, for one head of one batch entry. */
  readonly first: number
  readonly expected: Float64Array
}

/**
 * Attention of the first and the last head, in float64. Rows of keys and values repeat together, with the block that they were
 * made from, so that each is looked at once and counted.
 */
export function sampleAttention(shape: DecodeShape, ranks: number, pattern: Pattern): AttentionSample[] {
  const { batch, queryHeads, kvHeads, D, tokens } = shape
  const G = queryHeads / kvHeads
  const heads = batch * queryHeads
  const query = pattern.elements(numbers.q, 0)
  return [0, heads - 1].map((head) => {
    const first = head * D
    const q = Float64Array.from({ length: D }, (_, d) => query(first + d) / Math.sqrt(D))
    const from = Math.floor(head / G) * tokens
    const sums = new Float64Array(D)
    let total = 0
    for (let rank = 0; rank < ranks; rank++) {
      const [keys, values] = [pattern.rows(numbers.k, rank), pattern.rows(numbers.v, rank)]
      const { values: block } = keys
      for (let token = 0; token < Math.min(tokens, blockRows); token++) {
        const count = Math.ceil((tokens - token) / blockRows)
        const [key, value] = [keys.place(from + token), values.place(from + token)]
        let score = 0
        for (let d = 0; d < D; d++) score += q[d] * block[key + d]
        // Scores are small numbers: no largest one has to be taken off.
        const weight = count * Math.exp(score)
        total += weight
        for (let d = 0; d < D; d++) sums[d] += weight * block[value + d]
      }
    }
    return { first, expected: sums.map((sum) => sum / total) }
  })
}
