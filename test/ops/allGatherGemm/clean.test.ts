/** Runs All-Gather + GEMM, every variant and shard, under the checker at small sizes. */
import { describe, it } from 'vitest'
import {
  allGatherGemm,
  allGatherGemmOperation,
  type AllGatherGemmOptions,
} from '../../../src/ops/allGatherGemm/index.ts'
import { operandDTypes } from '../../../src/operation/definition.ts'
import { expectClean, repeated } from '../clean.ts'
import { itForSome, long } from '../../long.ts'

const { variants } = allGatherGemmOperation
const shards = ['K', 'M'] as const
const choices = variants.flatMap((variant) => shards.map((shard) => [variant, shard] as const))
const tiles = { BM: 2, BN: 2, BK: 2, stages: 2 }
const shape = { M: 3, N: 3, K: 6 }

type Given = Pick<AllGatherGemmOptions, 'variant' | 'shard'> & Partial<AllGatherGemmOptions>
const subject = (ranks: number, given: Given, launches = 3, residency?: number) =>
  repeated(ranks, (world) => allGatherGemm(world, { shape, dtype: 'f32', tiles, grid: 1, ...given }), {
    factor: 'a',
    tolerance: { f32: 1e-5, f16: 4e-3, bf16: 3e-2 }[given.dtype ?? 'f32'],
    launches,
    residency,
  })

describe.each(choices)('%s along %s', (variant, shard) => {
  // The short tests run shards along K with two programs, and shards along M in bf16 and with odd shapes.
  const [alongK, alongM] = [shard === 'K', shard === 'M']
  itForSome([1, 2, 3, 4], (ranks) => ranks === 3)('on %i ranks, three launches in a row', async (ranks) => {
    await expectClean(subject(ranks, { variant, shard }), { schedules: 24 / ranks, limit: 24 / ranks })
  })

  it('with two programs per rank', alongK ? {} : long, async () => {
    await expectClean(subject(2, { variant, shard, grid: 2 }))
  })

  itForSome(operandDTypes, (dtype) => alongM && dtype === 'bf16')('in %s', async (dtype) => {
    await expectClean(subject(2, { variant, shard, dtype }, 2), { schedules: 3, limit: 3 })
  })

  const odd = [
    ['one row', { M: 1, N: 3, K: 4 }, 2],
    ['one row on more ranks than rows', { M: 1, N: 2, K: 3 }, 3],
    ['a K smaller than a tile', { M: 3, N: 2, K: 1 }, 2],
    ['nothing a multiple of anything', { M: 5, N: 3, K: 7 }, 3],
    ['the smallest', { M: 1, N: 1, K: 1 }, 4],
    ['shards of a multiple of a tile', { M: 8, N: 4, K: 8 }, 2],
  ] as const
  itForSome(odd, ([name]) => alongM && name === 'nothing a multiple of anything')(
    'of %s',
    async ([, shape, ranks]) => {
      await expectClean(subject(ranks, { variant, shard, shape }, 2), { schedules: 4, limit: 4 })
    },
  )

  it('on eight ranks', long, async () => {
    await expectClean(subject(8, { variant, shard, shape: { M: 3, N: 1, K: 9 } }, 2), {
      schedules: 2,
      limit: 2,
    })
  })

  it('with one program resident on a rank', long, async () => {
    await expectClean(subject(2, { variant, shard, grid: 'resident' }, 3, 1))
  })
})

describe.each(shards)('fused along %s with a team of senders', (shard) => {
  itForSome([1, 2, 3], (ranks) => ranks === 3)('on %i ranks', async (ranks) => {
    await expectClean(subject(ranks, { variant: 'fused', shard, grid: 3, senders: 1 }))
  })
})

describe.each(['push', 'fused'] as const)('%s along K, one tile after the other', (variant) => {
  const given = { variant, shard: 'K', ownFirst: false } as const

  itForSome([1, 2, 3, 4], (ranks) => ranks === 3)('on %i ranks', async (ranks) => {
    await expectClean(subject(ranks, given), { schedules: 24 / ranks, limit: 24 / ranks })
  })

  it('with two programs per rank', async () => {
    await expectClean(subject(2, { ...given, grid: 2 }))
  })
})

describe.each(['push', 'fused'] as const)('%s along M, own rows first', (variant) => {
  const wide = { BM: 4, BN: 2, BK: 4, stages: 2 }
  const given = { variant, shard: 'M', tiles: wide, ownFirst: true } as const

  itForSome([1, 2, 3, 4], (ranks) => ranks === 3)('on %i ranks, three launches in a row', async (ranks) => {
    await expectClean(subject(ranks, given), { schedules: 24 / ranks, limit: 24 / ranks })
  })

  it('with two programs per rank', async () => {
    await expectClean(subject(2, { ...given, grid: 2 }))
  })

  it.each([
    ['one row, and ranks without any', { M: 1, N: 3, K: 4 }, 3],
    ['a last shard that is short', { M: 3, N: 5, K: 6 }, 2],
    ['fewer columns than a tile', { M: 4, N: 1, K: 1 }, 2],
  ])('of %s', async (_, odd, ranks) => {
    await expectClean(subject(ranks, { ...given, shape: odd }, 2), { schedules: 8, limit: 8 })
  })

  it('in strips of a tile', long, async () => {
    const tiles = { ...wide, BN: 256 }
    await expectClean(subject(2, { ...given, tiles, shape: { M: 3, N: 600, K: 2 } }, 2), {
      schedules: 6,
      limit: 6,
    })
  })

  it('on eight ranks', long, async () => {
    await expectClean(subject(8, { ...given, shape: { M: 3, N: 1, K: 2 } }, 2), { schedules: 2, limit: 2 })
  })
})

/** Tests kernels with one flag per shard, although a shard is sent or stored in several sections. */
function expectCleanInParts(given: Parameters<typeof subject>[1]): void {
  itForSome([1, 2, 3, 4], (ranks) => ranks === 3)('on %i ranks, three launches in a row', async (ranks) => {
    await expectClean(subject(ranks, given), { schedules: 24 / ranks, limit: 24 / ranks })
  })

  itForSome(operandDTypes, (dtype) => dtype === 'bf16')('in %s', async (dtype) => {
    await expectClean(subject(2, { ...given, dtype }, 2), { schedules: 3, limit: 3 })
  })

  it.each([
    ['one row on more ranks than rows', { M: 1, N: 2, K: 3 }, 3],
    ['several parts of a shard, with two programs a rank', { M: 5, N: 3, K: 7 }, 2],
  ])('of %s', async (_, odd, ranks) => {
    await expectClean(subject(ranks, { ...given, shape: odd, grid: 2 }, 2), { schedules: 4, limit: 4 })
  })
}

describe.each([
  ['in the order of ranks', true],
  ['as they arrive', false],
])('fused along K, with one flag per shard, %s', (_, inOrder) => {
  expectCleanInParts({ variant: 'fused', shard: 'K', flagPer: 'shard', inOrder })
})

describe('pull along K, from outboxes', () => {
  const given = { variant: 'pull', shard: 'K', staged: true } as const
  expectCleanInParts(given)

  const narrow = { BM: 2, BN: 2, BK: 64, stages: 2 }
  const parts = [
    ['six parts, two a row, by two programs of four that have a tile less', 2, { M: 5, N: 3, K: 600 }, 4],
    ['parts by three programs of five', 2, { M: 5, N: 5, K: 514 }, 5],
    ['more programs than parts and tiles', 2, { M: 1, N: 1, K: 600 }, 7],
    ['one part that is full', 2, { M: 2, N: 2, K: 512 }, 1],
    ['a part of one column', 2, { M: 2, N: 2, K: 513 }, 3],
    ['a rank without columns', 3, { M: 2, N: 2, K: 4 }, 2],
  ] as const
  itForSome(parts, (_, place) => place > 2)('of %s', async ([, ranks, odd, grid]) => {
    const options = { ...given, shape: odd, grid, tiles: narrow }
    await expectClean(subject(ranks, options, 3), { schedules: 3, limit: 3 })
  })

  it('with a different number of programs on every rank', async () => {
    const options = { ...given, shape: { M: 5, N: 5, K: 12 }, grid: (rank: number) => [1, 4, 2][rank] }
    await expectClean(subject(3, { ...options, tiles: { ...narrow, BK: 2 } }, 3), { schedules: 6, limit: 6 })
  })
})
