/** The cases (points) in which All-Gather + GEMM is tested and measured. The file ../points.ts defines a point. */
import { isCached } from '../../world/machine.ts'
import { powers, type Form, type GpuPoints, type Points, type Setting } from '../points.ts'
import { drawing } from './drawn.ts'
import { mostInAnyOrder } from './fusedByShard.ts'
import type { AllGatherGemmContents, AllGatherGemmOptions } from './index.ts'

/**
 * Together, the sets of options below cover every kernel: all variants in both layouts, with the options that select
 * among their kernels.
 */
function forms({ machine, ranks, dtype, shape }: Setting<AllGatherGemmOptions>) {
  const all: Record<string, Form<AllGatherGemmOptions>> = {}
  const inTurn = isCached(machine) ? { ownFirst: false } : {}
  for (const shard of ['K', 'M'] as const) {
    all[`bsp-${shard}`] = { variant: 'bsp', shard }
    all[`pull-${shard}`] = { variant: 'pull', shard, staged: false }
    all[`push-${shard}`] = { variant: 'push', shard, ...inTurn }
    const byTile = { variant: 'fused', shard, flagPer: 'tile', ...inTurn } as const
    all[`fused-${shard}`] = byTile
    all[`fused-${shard}-senders`] = { ...byTile, senders: 2, grid: 3 }
    if (isCached(machine) && (shard === 'K' ? dtype === 'f32' : shape.M <= 8))
      for (const variant of ['push', 'fused'] as const)
        all[`${variant}-${shard}-own-first`] = { variant, shard, ownFirst: true }
  }
  all['pull-K-staged'] = { variant: 'pull', shard: 'K', staged: true }
  all['fused-K-by-shard'] = { variant: 'fused', shard: 'K', flagPer: 'shard', inOrder: true }
  if (ranks <= mostInAnyOrder)
    all['fused-K-any-order'] = { variant: 'fused', shard: 'K', flagPer: 'shard', inOrder: false }
  return all
}

const tiles = { BM: 4, BN: 16, BK: 8, stages: 2 }

const cpuPoints = (['K', 'M'] as const).flatMap((shard) =>
  powers(1, 1024, 4).map((M) => ({
    name: `along ${shard}, M=${M}`,
    options: { shape: { M, N: 1024, K: 2048 }, shard },
    // The other ranks need only the shard of a late rank, and no other data from that rank.
    without: (ranks: number) => {
      const rows = shard === 'K' ? M / ranks : Math.max(0, M - (ranks - 1) * Math.ceil(M / ranks))
      return { share: 1 - rows / M }
    },
  })),
)

const gpu: GpuPoints<AllGatherGemmOptions> = {
  section: 'gather',
  heading: 'All-Gather + GEMM, N=3584 per rank, K=8192',
  alone: 'GEMM',
  floor: 'alone',
  tuned: ['bsp', 'pull', 'fused'],
  cells(quick, { shard }) {
    const rows = quick ? [1, 16, 64, 512] : powers(1, 8192, 2)
    return (['bf16', 'f16'] as const).slice(0, quick ? 1 : 2).flatMap((dtype) =>
      rows.map((M) => ({
        ...{ key: `${dtype} ${shard} M=${M}`, ranks: 8, dtype, layout: { shard } },
        shape: { M, N: 3584, K: 8192 },
      })),
    )
  },
  scaling: (ranks) =>
    [8, 1024].map((M) => ({
      ...{ key: `gemm M=${M} ranks=${ranks}`, ranks, dtype: 'bf16', layout: { shard: 'K' } },
      shape: { M, N: 28672 / ranks, K: 8192 },
    })),
  // With the minimum traffic, the ranks together read every B and the whole of A once and write every C once.
  work: ({ ranks, shape: { M, N, K } }) => ({
    bytes: 2 * (ranks * (K * N + M * N) + M * K),
    flops: ranks * 2 * M * N * K,
  }),
  remoteBytes: ({ ranks, layout, shape: { M, K } }) =>
    2 * (layout?.shard === 'M' ? (M - Math.ceil(M / ranks)) * K : M * (K - Math.ceil(K / ranks))),
  goal: ({ M }) => (M <= 1024 ? 'recover' : 'near alone'),
  drawing,
}

export const points: Points<AllGatherGemmOptions, AllGatherGemmContents> = {
  forms,
  usual: {
    'M=8': { M: 8, N: 1024, K: 2048 },
    'M=1000': { M: 1000, N: 1000, K: 1000 },
    'M=1024': { M: 1024, N: 1024, K: 2048 },
  },
  odd: [
    { shape: { M: 7, N: 37, K: 45 }, tiles: { ...tiles, BM: 8 } },
    { shape: { M: 1, N: 70, K: 33 }, tiles },
    // The tile sizes of this test case are larger than the matrices.
    { shape: { M: 9, N: 3, K: 5 }, tiles },
  ],
  cpu: cpuPoints,
  gpu,
  factor: 'a',
}
