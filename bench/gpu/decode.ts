/**
 * Creates the inputs of Flash Decode on a GPU, which are the caches. Sampled heads of every result are compared with
 * float64.
 */
import type { CudaWorld } from '../../src/targets/cuda/world.ts'
import type { SymmetricTensor } from '../../src/world/world.ts'
import { operationOf, setsFor, type Cell } from './cells.ts'
import type { Inputs } from './inputs.ts'
import { blockRows, poison, readSome, type Pattern } from './pattern.ts'
import { expectSimilar, Wrong } from './stage.ts'

export interface DecodeShape {
  readonly batch: number
  readonly queryHeads: number
  readonly kvHeads: number
  readonly D: number
  readonly tokens: number
}

const numbers = { q: 0, k: 1, v: 2 } as const

/** The number of input sets, which are used in rotation. */
const setsOf = (cell: Cell): number => setsFor(operationOf(cell)!.gpu.work(cell).bytes)

function cachesOf(world: CudaWorld, cell: Cell, pattern: Pattern) {
  const { dtype } = cell
  const { batch, queryHeads, kvHeads, D, tokens } = cell.shape as unknown as DecodeShape
  const G = queryHeads / kvHeads
  const inputs = Array.from({ length: setsOf(cell) }, () => ({
    q: world.empty(dtype, [batch, kvHeads, G, D], { name: 'q' }),
    k: world.empty(dtype, [batch, kvHeads, tokens, D], { name: 'k' }),
    v: world.empty(dtype, [batch, kvHeads, tokens, D], { name: 'v' }),
    lengths: world.full('i32', [batch], tokens, { name: 'lengths' }),
  }))
  for (const rank of world.localRanks)
    for (const { q, k, v } of inputs) {
      // Every rank has the same query.
      pattern.fill(world, q, numbers.q, rank, 0)
      pattern.fill(world, k, numbers.k, rank)
      pattern.fill(world, v, numbers.v, rank)
    }
  return inputs
}

/** Poisons a result, runs the kernels that write it, and compares it with the sampled values. */
const decodeCheck =
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

export const decodeInputs: Inputs = {
  sets: setsOf,
  prepare({ world }, cell, pattern) {
    const samples = sampleAttention(cell.shape as unknown as DecodeShape, cell.ranks, pattern)
    return {
      inputs: cachesOf(world, cell, pattern),
      check: (results) => decodeCheck(world, results, samples),
    }
  },
}

interface AttentionSample {
  /** The index of the first output element of one head of one batch entry. */
  readonly first: number
  readonly expected: Float64Array
}

/**
 * Computes the attention of the first and the last head in float64. Rows of keys and values repeat, because they are
 * copies of a block. Each distinct row is therefore computed once and multiplied by its number of occurrences.
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
        // Scores are small, so the softmax does not need to subtract the maximum.
        const weight = count * Math.exp(score)
        total += weight
        for (let d = 0; d < D; d++) sums[d] += weight * block[value + d]
      }
    }
    return { first, expected: sums.map((sum) => sum / total) }
  })
}
