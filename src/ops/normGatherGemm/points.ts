/** The points at which LayerNorm + All-Gather + GEMM is tested and measured. The file ../points.ts defines what a point is. */
import { powers, type GpuPoints, type Points } from '../points.ts'
import type { NormGatherGemmOptions } from './index.ts'
import type { NormGatherGemmContents } from './reference.ts'

const gpu: GpuPoints<NormGatherGemmOptions> = {
  section: 'norm',
  heading: 'LayerNorm + All-Gather + GEMM, N=3584 per rank, K=8192',
  alone: 'GEMM',
  floor: 'alone',
  tuned: ['bsp', 'fused'],
  cells: (quick) =>
    (quick ? [64, 1024] : powers(8, 8192, 2)).map((M) => ({
      ...{ key: `bf16 M=${M}`, ranks: 8, dtype: 'bf16' },
      shape: { M, N: 3584, K: 8192 },
    })),
  scaling: () => [],
  // With the minimum traffic, the ranks together read every B and every row once and write every C once.
  work: ({ ranks, shape: { M, N, K } }) => ({
    bytes: 2 * (ranks * (K * N + M * N) + M * K),
    flops: ranks * 2 * M * N * K,
  }),
  remoteBytes: ({ ranks, shape: { M, K } }) => 2 * (M - Math.ceil(M / ranks)) * K,
  goal: ({ M }) => (M <= 1024 ? 'recover' : 'near alone'),
}

export const points: Points<NormGatherGemmOptions, NormGatherGemmContents> = {
  forms: () => ({
    bsp: { variant: 'bsp' },
    fused: { variant: 'fused', fetching: false },
    'fused-fetching': { variant: 'fused', fetching: true },
  }),
  usual: {
    'M=8': { M: 8, N: 1024, K: 2048 },
    'M=1000': { M: 1000, N: 1000, K: 1000 },
    'M=1024': { M: 1024, N: 1024, K: 2048 },
  },
  odd: [
    { shape: { M: 7, N: 37, K: 45 }, tiles: { BM: 4, BN: 16, BK: 8, stages: 2 } },
    { shape: { M: 1, N: 70, K: 33 }, tiles: { BM: 6, BN: 16, BK: 8, stages: 2 } },
    // In the first test, the tiles are larger than the matrices; in the second test, shards have several tiles.
    { shape: { M: 9, N: 3, K: 5 }, tiles: { BM: 16, BN: 16, BK: 8, stages: 2 } },
    { shape: { M: 300, N: 5, K: 70 }, tiles: { BM: 16, BN: 16, BK: 32, stages: 2 } },
  ],
  cpu: powers(1, 1024, 4).map((M) => ({
    name: `M=${M}`,
    options: { shape: { M, N: 1024, K: 2048 } },
    // The other ranks need the normalised rows of the late rank.
    without: (ranks) => ({ share: 1 - Math.max(0, M - (ranks - 1) * Math.ceil(M / ranks)) / M }),
  })),
  gpu,
  factor: 'b',
}
