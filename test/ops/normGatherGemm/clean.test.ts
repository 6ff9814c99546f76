/**
 * Runs LayerNorm + All-Gather + GEMM under the checker and compares it with the float64 reference. The file also tests
 * the reference itself.
 */
import { describe, expect, it } from 'vitest'
import {
  normGatherGemm,
  normGatherGemmOperation,
  type NormGatherGemmOptions,
} from '../../../src/ops/normGatherGemm/index.ts'
import { layerNorm } from '../../../src/ops/normGatherGemm/reference.ts'
import { operandDTypes } from '../../../src/operation/definition.ts'
import { openWorld } from '../../../src/world/open.ts'
import { expectClose, type Scenario } from '../../../src/world/world.ts'
import { openOnCpu, unavailable } from '../../cuda/onCpu/onCpu.ts'
import { expectClean, repeated } from '../clean.ts'
import { itForSome, long } from '../../long.ts'

const tiles = { BM: 4, BN: 4, BK: 4, stages: 2 }
const subject = (
  ranks: number,
  given: Partial<NormGatherGemmOptions> & Pick<NormGatherGemmOptions, 'variant'>,
  launches = 3,
  residency?: number,
): Scenario => {
  const options = { shape: { M: 5, N: 3, K: 6 }, dtype: 'f32', tiles, grid: 1, ...given } as const
  const make = (world: Parameters<typeof normGatherGemm>[0]) => normGatherGemm(world, options)
  return repeated(ranks, make, { factor: 'b', launches, residency })
}

describe.each(normGatherGemmOperation.variants)('%s', (variant) => {
  itForSome([1, 2, 3, 4], (ranks) => ranks === 3)('on %i ranks, launches in a row', async (ranks) => {
    await expectClean(subject(ranks, { variant }), { schedules: 16 / ranks, limit: 16 / ranks })
  })

  it('with two programs per rank', () => expectClean(subject(2, { variant, grid: 2 })))

  it('with one program resident on a rank', long, () =>
    expectClean(subject(2, { variant, grid: 'resident' }, 3, 1)),
  )

  itForSome(operandDTypes, (dtype) => dtype === 'bf16')('in %s', (dtype) =>
    expectClean(subject(2, { variant, dtype }, 2), { schedules: 3, limit: 3 }),
  )

  const odd = [
    ['one row on more ranks than rows', { M: 1, N: 2, K: 3 }, 3],
    ['the smallest', { M: 1, N: 1, K: 1 }, 4],
    ['several tiles of rows', { M: 19, N: 2, K: 3 }, 2],
    ['shards of a multiple of a tile', { M: 8, N: 4, K: 8 }, 2],
  ] as const
  itForSome(odd, ([name]) => name === 'one row on more ranks than rows')('of %s', ([, shape, ranks]) =>
    expectClean(subject(ranks, { variant, shape }, 2), { schedules: 3, limit: 3 }),
  )

  it('on eight ranks', long, () =>
    expectClean(subject(8, { variant, shape: { M: 3, N: 1, K: 9 } }, 2), { schedules: 2, limit: 2 }),
  )
})

it('fused, with shards of several tiles that never span two ranks', () =>
  // With 128 or more rows per rank, the kernel computes the matrix product shard by shard.
  expectClean(
    subject(2, { variant: 'fused', shape: { M: 257, N: 1, K: 1 }, tiles: { ...tiles, BM: 64 } }, 2),
    { schedules: 1, limit: 1 },
  ))

describe('fused, fetching from outboxes', () => {
  const fetching = { variant: 'fused', fetching: true } as const

  it('on 3 ranks, launches in a row, with two programs per rank', () =>
    expectClean(subject(3, { ...fetching, grid: 2 }), { schedules: 4, limit: 4 }))

  itForSome(
    [
      [{ M: 1, N: 2, K: 3 }, 3],
      [{ M: 19, N: 2, K: 3 }, 2],
      [{ M: 8, N: 4, K: 8 }, 2],
    ] as const,
    ([{ M }]) => M === 1,
  )('of %o', ([shape, ranks]) =>
    expectClean(subject(ranks, { ...fetching, shape }, 4), { schedules: 3, limit: 3 }),
  )

  it('is refused for bsp', async () => {
    await using world = await openWorld({ target: 'check', ranks: 2 })
    const options = { shape: { M: 4, N: 4, K: 4 }, dtype: 'f32', variant: 'bsp', fetching: true } as const
    expect(() => normGatherGemm(world, options)).toThrow(/fetching/)
  })
})

describe('the reference', () => {
  it('matches the definition of LayerNorm', () => {
    // The row in this test has mean 3 and variance 4.
    const contents = { x: [9, 9, 1, 5], gamma: [1, 2], beta: [0, 10] }
    expect([...layerNorm(contents, 2, 0, [1])]).toEqual([-1, 12])
  })

  it('maps a constant row to beta', () => {
    expect([...layerNorm({ x: [7, 7], gamma: [3, 3], beta: [1, 2] }, 2, 1e-5, [0])]).toEqual([1, 2])
  })
})

it('a large mean costs no precision', async () => {
  const world = await openWorld({ target: 'wasm', ranks: 1 })
  const shape = { M: 3, N: 4, K: 300 }
  for (const variant of normGatherGemmOperation.variants) {
    const operation = normGatherGemm(world, { shape, dtype: 'f32', variant })
    const random = operation.random(1)
    // In f32, the mean of the squares minus the square of the mean would have an error larger than the variance.
    const contents = { ...random, x: Array.from(random.x, (x) => Math.fround(x + 3000)) }
    operation.fill(contents)
    operation.launch()
    const expected = operation.reference(contents, 0)
    ;(await operation.result(0)).forEach((value, i) => expect(value).toBeCloseTo(expected[i], 1))
  }
  await world.close()
})

const why = unavailable()
it.skipIf(why !== undefined).each(normGatherGemmOperation.variants)(
  '%s, as emitted for a GPU and run on this CPU',
  async (variant) => {
    const world = openOnCpu(2)
    const shape = { M: 7, N: 37, K: 45 }
    const gpuTiles = { BM: 16, BN: 32, BK: 16, stages: 2 }
    const operation = normGatherGemm(world, { shape, dtype: 'f32', variant, grid: 2, tiles: gpuTiles })
    const contents = operation.random(3)
    operation.fill(contents)
    for (let launch = 0; launch < 2; launch++) operation.launch()
    for (let rank = 0; rank < 2; rank++)
      expectClose(await operation.result(rank), operation.reference(contents, rank), {
        atol: operation.tolerance,
      })
    await world.close()
  },
)

it('rejects an eps that is not above 0', async () => {
  const world = await openWorld({ ranks: 1 })
  const options = { ...normGatherGemmOperation.defaults, eps: 0 }
  expect(() => normGatherGemm(world, options)).toThrow(
    'normGatherGemm: eps is 0; it must be a number above 0',
  )
})
