/**
 * The inputs of GEMM + Reduce-Scatter that a benchmark draws on the device. src/ops/drawn.ts explains how inputs are
 * drawn.
 */
import { sampleProduct, type Drawing } from '../drawn.ts'
import type { GemmReduceScatterOptions } from './index.ts'
import { shardOf } from './reference.ts'

export const drawing: Drawing<GemmReduceScatterOptions> = {
  inputs: { a: { isShared: true }, b: {} },
  // One slice of B is larger than the L2 cache, but the next execution could still find some of B in the cache.
  sets: 2,
  samples({ ranks, layout, shape: { M, N, K } }, drawn) {
    const depth = Math.ceil(K / ranks)
    const all = Array.from({ length: ranks }, (_, rank) => rank)
    const [a, b] = ['a', 'b'].map((input) => all.map((rank) => drawn(input, rank).element))
    return all.map((owner) => {
      const shard = shardOf(owner, ranks, layout?.scatter === 'N' ? 'N' : 'M', { M, N })
      const { top, left, rows, columns } = shard
      return sampleProduct(
        { M: rows, N: columns, K },
        (row, k) => a[Math.floor(k / depth)]((top + row) * depth + (k % depth)),
        (index) => {
          const [k, column] = [Math.floor(index / columns), index % columns]
          return b[Math.floor(k / depth)]((k % depth) * N + left + column)
        },
      )
    })
  },
}
