/** The cases (points) in which GEMM + Reduce-Scatter is tested and measured. The file ../points.ts defines a point. */
import { powers, type Form, type GpuPoints, type Points, type Setting } from '../points.ts'
import { drawing } from './drawn.ts'
import type { GemmReduceScatterOptions } from './index.ts'
import type { GemmReduceScatterContents } from './reference.ts'

/** Together, the sets of options below cover every kernel: all variants along both axes, with and without a team of
 * summers, early and late signals, and both wire dtypes. */
function forms({ dtype }: Setting<GemmReduceScatterOptions>) {
  const all: Record<string, Form<GemmReduceScatterOptions>> = {}
  for (const scatter of ['M', 'N'] as const) {
    for (const variant of ['bsp', 'push', 'atomic', 'ring'] as const)
      all[`${variant}-${scatter}`] = { variant, scatter }
    all[`fused-${scatter}-summers`] = {
      ...{ variant: 'fused', scatter },
      ...{ summers: 1, grid: 3, signalsLate: true },
    }
    all[`fused-${scatter}`] = { variant: 'fused', scatter, summers: 0, signalsLate: false }
  }
  if (dtype !== 'f32')
    for (const variant of ['bsp', 'push', 'ring', 'fused'] as const)
      all[`${variant}-M-${dtype}-wire`] = {
        ...{ variant, scatter: 'M', wire: dtype },
        ...(variant === 'fused' && { summers: 0 }),
      }
  return all
}

const tiles = { BM: 4, BN: 16, BK: 8, stages: 2 }

const [rowsMost, columns, depth] = [8192, 8192, 28_672]
const gpu: GpuPoints<GemmReduceScatterOptions> = {
  section: 'scatter',
  heading: `GEMM + Reduce-Scatter, N=${columns}, K=${depth} of all ranks together`,
  alone: 'GEMM',
  floor: 'alone',
  tuned: ['bsp', 'push', 'ring', 'fused'],
  cells(quick, { scatter }) {
    const rows = quick ? [64, 1024] : powers(64, rowsMost, 2)
    return rows.map((M) => ({
      ...{ key: `bf16 ${scatter} M=${M}`, ranks: 8, dtype: 'bf16', layout: { scatter } },
      shape: { M, N: columns, K: depth },
    }))
  },
  scaling: () => [],
  // With the minimum traffic, a rank reads its slices of A and B once and writes its shard of C once.
  work: ({ shape: { M, N, K } }) => ({ bytes: 2 * (M * K + K * N + M * N), flops: 2 * M * N * K }),
  // Partial sums travel in f32.
  remoteBytes: ({ ranks, shape: { M, N } }) => (4 * (ranks - 1) * M * N) / ranks,
  goal: ({ M }) => (M <= 1024 ? 'recover' : 'near alone'),
  drawing,
}

export const points: Points<GemmReduceScatterOptions, GemmReduceScatterContents> = {
  forms,
  usual: {
    'M=8': { M: 8, N: 1024, K: 2048 },
    'M=1000': { M: 1000, N: 1000, K: 1000 },
    'M=1024': { M: 1024, N: 1024, K: 2048 },
  },
  odd: [
    { shape: { M: 21, N: 37, K: 45 }, tiles },
    // With more ranks than rows, some shards are empty.
    { shape: { M: 3, N: 70, K: 33 }, tiles },
    // The tiles are larger than the shards.
    { shape: { M: 9, N: 3, K: 5 }, tiles: { ...tiles, BM: 8 } },
  ],
  cpu: (['M', 'N'] as const).flatMap((scatter) =>
    powers(1, 1024, 4).map((M) => ({
      name: `along ${scatter}, M=${M}`,
      options: { shape: { M, N: 1024, K: 2048 }, scatter },
      // The other ranks can compute their partial products, and only the sums need data of the late rank.
      without: () => ({ share: 1 }),
    })),
  ),
  gpu,
  factor: 'a',
}
