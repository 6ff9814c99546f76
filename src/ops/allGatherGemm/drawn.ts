/** The inputs of All-Gather + GEMM that a benchmark generates on the device. See ../drawn.ts. */
import { sampleProduct, type Drawing } from '../drawn.ts'
import type { AllGatherGemmOptions } from './index.ts'

export const drawing: Drawing<AllGatherGemmOptions> = {
  inputs: { a: { isShared: true }, b: {} },
  // Two sets of inputs alternate: one matrix B is larger than the L2 cache, but with one set, an execution could find
  // some of B in the cache.
  sets: 2,
  samples({ ranks, layout, shape: { M, N, K } }, drawn) {
    const isAlongK = layout?.shard !== 'M'
    const [rows, depth] = isAlongK ? [M, Math.ceil(K / ranks)] : [Math.ceil(M / ranks), K]
    const all = Array.from({ length: ranks }, (_, rank) => rank)
    const shards = all.map((rank) => drawn('a', rank).element)
    const valueOfA = (row: number, k: number): number =>
      isAlongK
        ? shards[Math.floor(k / depth)](row * depth + (k % depth))
        : shards[Math.floor(row / rows)]((row % rows) * depth + k)
    return all.map((rank) => sampleProduct({ M, N, K }, valueOfA, drawn('b', rank).element))
  },
}
