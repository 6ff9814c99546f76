/**
 * Tests that the checker finds errors in the synchronisation of All-Gather + GEMM. With shards along M, the second
 * rank's shard is empty.
 */
import { describe, it } from 'vitest'
import { allGatherGemm, allGatherGemmOperation } from '../../../src/ops/allGatherGemm/index.ts'
import type { World } from '../../../src/world/world.ts'
import { repeated } from '../clean.ts'
import { expectFound } from '../mutants.ts'

const tiles = { BM: 2, BN: 2, BK: 2, stages: 2 }

describe.each(allGatherGemmOperation.variants)('%s', (variant) => {
  it.each([
    ['K', 2],
    ['M', 1],
  ] as const)('along %s', async (shard, M) => {
    const options = { shape: { M, N: 1, K: 2 }, dtype: 'f32', tiles, grid: 1, variant, shard } as const
    await expectFound(repeated(2, (world) => allGatherGemm(world, options), { factor: 'a', tolerance: 1e-5 }))
  })
})

describe.each(['push', 'fused'] as const)('%s along M, own rows first', (variant) => {
  it('on two ranks with one row each and one rank without rows', async () => {
    const options = {
      shape: { M: 2, N: 1, K: 2 },
      dtype: 'f32',
      tiles,
      grid: 1,
      variant,
      shard: 'M',
    } as const
    const make = (world: World) => allGatherGemm(world, { ...options, ownFirst: true })
    await expectFound(repeated(3, make, { factor: 'a', tolerance: 1e-5 }))
  })
})

describe('fused with a team of senders', () => {
  it.each([
    ['K', 2],
    ['M', 1],
  ] as const)('along %s', async (shard, M) => {
    const options = {
      shape: { M, N: 1, K: 2 },
      dtype: 'f32',
      tiles,
      grid: 2,
      senders: 1,
      variant: 'fused',
      shard,
    } as const
    await expectFound(repeated(2, (world) => allGatherGemm(world, options), { factor: 'a', tolerance: 1e-5 }))
  })
})
