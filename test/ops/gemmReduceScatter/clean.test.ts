/** Runs GEMM + Reduce-Scatter, every variant along both axes, under the checker at small sizes. */
import { describe, it } from 'vitest'
import {
  gemmReduceScatter,
  gemmReduceScatterOperation,
  type GemmReduceScatterOptions,
} from '../../../src/ops/gemmReduceScatter/index.ts'
import { operandDTypes } from '../../../src/operation/definition.ts'
import { expectClean, repeated } from '../clean.ts'
import { itForSome, long } from '../../long.ts'

const scatters = ['M', 'N'] as const
const choices = gemmReduceScatterOperation.variants.flatMap((variant) =>
  scatters.map((scatter) => [variant, scatter] as const),
)
const tiles = { BM: 2, BN: 2, BK: 2, stages: 2 }
const shape = { M: 3, N: 3, K: 6 }

type Given = Pick<GemmReduceScatterOptions, 'variant' | 'scatter'> & Partial<GemmReduceScatterOptions>
const subject = (ranks: number, given: Given, launches = 3, residency?: number) =>
  repeated(ranks, (world) => gemmReduceScatter(world, { shape, dtype: 'f32', tiles, grid: 1, ...given }), {
    factor: 'a',
    launches,
    residency,
  })

describe.each(choices)('%s along %s', (variant, scatter) => {
  const [alongM, alongN] = [scatter === 'M', scatter === 'N']
  itForSome([1, 2, 3, 4], (ranks) => ranks === 3)('on %i ranks, three launches in a row', (ranks) =>
    expectClean(subject(ranks, { variant, scatter }), { schedules: 24 / ranks, limit: 24 / ranks }),
  )

  it('with two programs per rank', alongM ? {} : long, () =>
    expectClean(subject(2, { variant, scatter, grid: 2 })),
  )

  itForSome(operandDTypes, (dtype) => alongN && dtype === 'bf16')('in %s', (dtype) =>
    expectClean(subject(2, { variant, scatter, dtype }, 2), { schedules: 3, limit: 3 }),
  )

  const odd = [
    ['one row, and ranks without any', { M: 1, N: 3, K: 4 }, 3],
    ['one column, and ranks without any', { M: 3, N: 1, K: 4 }, 3],
    ['a K smaller than a tile', { M: 3, N: 2, K: 1 }, 2],
    ['nothing a multiple of anything', { M: 5, N: 7, K: 7 }, 3],
    ['the smallest', { M: 1, N: 1, K: 1 }, 4],
    ['shards of a multiple of a tile', { M: 8, N: 8, K: 8 }, 2],
    ['shards of several tiles, of which the last is short', { M: 11, N: 11, K: 2 }, 2],
  ] as const
  itForSome(
    odd,
    ([name]) => name === (alongM ? 'one row, and ranks without any' : 'nothing a multiple of anything'),
  )('of %s', ([, shape, ranks]) =>
    expectClean(subject(ranks, { variant, scatter, shape }, 2), { schedules: 4, limit: 4 }),
  )

  it('in blocks smaller than a tile', long, () => {
    const wide = { BM: 32, BN: 256, BK: 2, stages: 2 }
    const shape = scatter === 'M' ? { M: 37, N: 130, K: 1 } : { M: 20, N: 301, K: 1 }
    return expectClean(subject(2, { variant, scatter, shape, tiles: wide }, 2), { schedules: 1, limit: 1 })
  })

  it('on eight ranks', long, () =>
    expectClean(subject(8, { variant, scatter, shape: { M: 3, N: 9, K: 9 } }, 2), { schedules: 2, limit: 2 }),
  )

  it('with one program resident on a rank', long, () =>
    expectClean(subject(2, { variant, scatter, grid: 'resident' }, 3, 1)),
  )
})

describe.each(scatters)('fused along %s with a team of summers', (scatter) => {
  itForSome([1, 2, 3, 4], (ranks) => ranks === (scatter === 'M' ? 3 : 2))('on %i ranks', (ranks) =>
    expectClean(subject(ranks, { variant: 'fused', scatter, grid: 3, summers: 1 })),
  )
})

describe.each(['push', 'atomic', 'fused'] as const)('%s with late signals', (variant) => {
  const late = { variant, scatter: 'M', signalsLate: true } as const
  itForSome([1, 2, 3, 4], (ranks) => ranks === 3)('on %i ranks', (ranks) =>
    expectClean(subject(ranks, late), { schedules: 24 / ranks, limit: 24 / ranks }),
  )

  it('with more programs than tiles', () =>
    expectClean(subject(2, { ...late, shape: { M: 1, N: 2, K: 2 }, grid: 3 }), { schedules: 4, limit: 4 }))
})

describe.each(['bsp', 'push', 'ring', 'fused'] as const)('%s with partial sums in bf16', (variant) => {
  itForSome(scatters, (scatter) => scatter === 'M')('along %s', (scatter) =>
    expectClean(subject(3, { variant, scatter, dtype: 'bf16', wire: 'bf16' }, 2), { schedules: 3, limit: 3 }),
  )
})
