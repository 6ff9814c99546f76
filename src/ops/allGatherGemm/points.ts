/** Where All-Gather + GEMM is looked at: see ../points.ts. */
import { isCached } from '../../world/machine.ts'
import { powers, type Form, type Points, type Setting } from '../points.ts'
import { mostInAnyOrder } from './fusedByShard.ts'
import type { AllGatherGemmContents, AllGatherGemmOptions } from './index.ts'

/** Every kernel: the variants in both layouts, with the options that choose among their kernels. */
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
    // Of a late rank the others need its shard, from the start.
    without: (ranks: number) => {
      const rows = shard === 'K' ? M / ranks : Math.max(0, M - (ranks - 1) * Math.ceil(M / ranks))
      return { share: 1 - rows / M }
    },
  })),
)

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
    // Tiles larger than the matrices.
    { shape: { M: 9, N: 3, K: 5 }, tiles },
  ],
  cpu: cpuPoints,
  factor: 'a',
}
