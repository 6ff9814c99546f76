/**
 * Tests the options and the numbers of GEMM + Reduce-Scatter, and compares its results with float64 on one to eight ranks.
 * The expected values of this file come from a plain triple loop over whole matrices.
 */
import { describe, expect, it } from 'vitest'
import { rememberMeasurements } from '../../../src/operation/choice.ts'
import { elements } from '../../../src/ir/type.ts'
import { drawing } from '../../../src/ops/gemmReduceScatter/drawn.ts'
import {
  gemmReduceScatter,
  gemmReduceScatterOperation,
  type GemmReduceScatterOptions,
} from '../../../src/ops/gemmReduceScatter/index.ts'
import { blockOf } from '../../../src/ops/gemmReduceScatter/inbox.ts'
import { summersFor } from '../../../src/ops/gemmReduceScatter/summers.ts'
import { h200 } from '../../../src/targets/cuda/machines.ts'
import { oneEach, sharedOut } from '../../../src/world/machine.ts'
import { cpuMachine } from '../../../src/world/machines.ts'
import { openWorld } from '../../../src/world/open.ts'
import { expectClose, type World } from '../../../src/world/world.ts'
import { openOnCpu, unavailable } from '../../cuda/onCpu/onCpu.ts'
import { itForSome, long } from '../../long.ts'
import { realTargets } from '../../targets/differential/targets.ts'

const targets = (await realTargets()).filter((target) => target !== 'cuda')
const tiles = { BM: 4, BN: 16, BK: 8, stages: 2 }
const usual = { shape: { M: 6, N: 8, K: 10 }, dtype: 'f32', scatter: 'M', tiles } as const

/** The rows and columns of C that a rank receives: an equal share, rounded up, of the scattered axis. */
function expectedShard(
  { a, b }: { readonly a: ArrayLike<number>; readonly b: ArrayLike<number> },
  { M, N, K }: GemmReduceScatterOptions['shape'],
  scatter: 'M' | 'N',
  rank: number,
  ranks: number,
): number[] {
  const share = Math.ceil((scatter === 'M' ? M : N) / ranks)
  const shard: number[] = []
  for (let row = 0; row < M; row++)
    for (let column = 0; column < N; column++) {
      if (Math.floor((scatter === 'M' ? row : column) / share) !== rank) continue
      let sum = 0
      for (let k = 0; k < K; k++) sum += a[row * K + k] * b[k * N + column]
      shard.push(sum)
    }
  return shard
}

/** Fills the inputs, fills the output with NaN, launches twice and compares the results of every rank. */
async function expectRight(world: World, options: GemmReduceScatterOptions, atol?: number): Promise<void> {
  const operation = gemmReduceScatter(world, options)
  const contents = operation.random(7)
  operation.fill(contents)
  const { c } = operation.outputs
  for (let rank = 0; rank < world.ranks; rank++)
    world.write(c, rank, new Float32Array(elements(c.shape)).fill(NaN))
  operation.launch()
  operation.launch()
  for (let rank = 0; rank < world.ranks; rank++) {
    const expected = expectedShard(contents, options.shape, options.scatter, rank, world.ranks)
    const tolerance = { atol: atol ?? operation.tolerance }
    expectClose(await operation.result(rank), expected, tolerance)
    expectClose(operation.reference(contents, rank), expected, { atol: 1e-12 })
  }
}

const sweep = targets.flatMap((target) =>
  [1, 2, 3, 4, 5, 6, 7, 8].map((ranks) => [`${target} on ${ranks} ranks`, target, ranks] as const),
)
itForSome(sweep, ([, target, ranks]) => target === 'wasm' && ranks === 5)(
  'every variant is right on %s',
  async ([, target, ranks]) => {
    await using world = await openWorld({ target, ranks })
    for (const variant of gemmReduceScatterOperation.variants)
      for (const scatter of ['M', 'N'] as const)
        for (const shape of [
          { M: 21, N: 37, K: 45 },
          { M: 3, N: 5, K: 4 },
          { M: 16, N: 64, K: 16 },
        ])
          await expectRight(world, { shape, dtype: 'f32', tiles, variant, scatter })
  },
)

const emulated = gemmReduceScatterOperation.variants.flatMap((variant) =>
  (['M', 'N'] as const).map((scatter) => [variant, scatter] as const),
)
describe.skipIf(unavailable() !== undefined)('as emitted for a GPU and run on this CPU', () => {
  itForSome(emulated, ([variant, scatter]) => variant === 'atomic' && scatter === 'M')(
    '%s along %s is right',
    async ([variant, scatter]) => {
      await using world = openOnCpu(2)
      for (const summers of variant === 'fused' ? [0, 1] : [undefined])
        await expectRight(world, {
          ...{ shape: { M: 35, N: 70, K: 45 }, dtype: 'f32', variant, scatter },
          ...{ tiles: { BM: 16, BN: 32, BK: 16, stages: 2 }, grid: 2, summers },
        })
    },
  )
})

describe('partial sums in 16 bits', () => {
  const variants = gemmReduceScatterOperation.variants.filter((variant) => variant !== 'atomic')
  const cases = targets.flatMap((target) => variants.map((variant) => [target, variant] as const))
  itForSome(cases, ([target, variant]) => target === 'wasm' && variant === 'ring')(
    'are right on %s in %s',
    async ([target, variant]) => {
      await using world = await openWorld({ target, ranks: 3 })
      for (const dtype of ['bf16', 'f16'] as const)
        for (const scatter of ['M', 'N'] as const)
          await expectRight(world, {
            ...{ shape: { M: 21, N: 37, K: 45 }, dtype, wire: dtype, tiles, variant, scatter },
          })
    },
  )

  it('lose bits that f32 keeps', async () => {
    await using world = await openWorld({ target: 'check', ranks: 2 })
    const errorWith = async (wire: 'f32' | 'bf16') => {
      const options = { ...usual, shape: { M: 2, N: 1, K: 2 }, dtype: 'bf16', wire } as const
      const operation = gemmReduceScatter(world, { ...options, variant: 'fused', grid: 1 })
      // The first partial product is 1 + 2^-5 + 3 * 2^-14, which bf16 cannot hold. Both products add up to 3 * 2^-14.
      const row = [1 + 2 ** -7, -(1 + 2 ** -5)]
      operation.fill({ a: [...row, ...row], b: [1 + 3 * 2 ** -7, 1] })
      operation.launch()
      return Math.abs((await operation.result(0))[0] - 3 * 2 ** -14)
    }
    expect(await errorWith('f32')).toBe(0)
    expect(await errorWith('bf16')).toBe(3 * 2 ** -14)
  })
})

describe('results', () => {
  it.each(['bsp', 'push', 'ring', 'fused'] as const)(
    'of %s have the same bits in every launch',
    async (variant) => {
      await using world = await openWorld({ target: 'wasm', ranks: 3 })
      const operation = gemmReduceScatter(world, { ...usual, shape: { M: 9, N: 20, K: 100 }, variant })
      operation.fill(operation.random(1))
      operation.launch()
      const first = await operation.result(1)
      for (let launch = 0; launch < 20; launch++) operation.launch()
      expect(await operation.result(1)).toEqual(first)
    },
  )

  it('of atomic are right again after a reset', async () => {
    await using world = await openWorld({ target: 'wasm', ranks: 3 })
    const operation = gemmReduceScatter(world, { ...usual, variant: 'atomic' })
    for (const launches of [3, 1, 2]) {
      const contents = operation.random(launches)
      operation.fill(contents)
      for (let launch = 0; launch < launches; launch++) operation.launch()
      expectClose(await operation.result(2), operation.reference(contents, 2), { atol: operation.tolerance })
      await world.reset()
    }
  })
})

describe('traffic', () => {
  it.each([
    // With two ranks, each rank receives the other rank's partial sums of its own shard, 3 x 8 elements.
    ['bsp', 96, 2],
    ['push', 96, 2],
    ['atomic', 96, 1],
    ['ring', 96, 1],
    ['fused', 96, 1],
  ] as const)('of %s', async (variant, remoteBytes, launches) => {
    await using world = await openWorld({ ranks: 2 })
    const { traffic } = gemmReduceScatter(world, { ...usual, variant })
    expect(traffic).toEqual({ remoteBytes, leastRemoteBytes: 96, flops: 2 * 6 * 8 * 5, launches })
  })

  it('counts the wire dtype and the padding', async () => {
    await using world = await openWorld({ ranks: 4 })
    const { traffic } = gemmReduceScatter(world, { ...usual, dtype: 'f16', wire: 'f16', variant: 'push' })
    // Six rows make shards of two rows, of which the last is empty.
    expect(traffic).toMatchObject({ remoteBytes: 3 * 2 * 8 * 2, leastRemoteBytes: (3 * 6 * 8 * 2) / 4 })
  })
})

describe('options', () => {
  it('that are invalid are rejected', async () => {
    await using world = await openWorld({ ranks: 2 })
    const ask = (given: Partial<GemmReduceScatterOptions>) => () =>
      gemmReduceScatter(world, { ...usual, variant: 'fused', ...given })
    expect(ask({ shape: { M: 0, N: 1, K: 1 } })).toThrow(/M is 0; .* at least 1/)
    expect(ask({ variant: 'magic' as never })).toThrow(
      /no magic; choose one of bsp, push, atomic, ring, fused/,
    )
    expect(ask({ wire: 'f16' })).toThrow('wire is f16; it must be f32 or the dtype of the operands, f32')
    expect(ask({ dtype: 'bf16', wire: 'bf16', variant: 'atomic' })).toThrow('atomic needs wire f32')
    expect(ask({ summers: 2, grid: 2 })).toThrow('2 summers of 2 programs leave no program to multiply')
    expect(ask({ summers: -1 })).toThrow('summers is -1')
    expect(ask({ summers: 1, variant: 'push' })).toThrow('summers is an option of fused only, not of push')
    expect(ask({ signalsLate: true, variant: 'ring' })).toThrow(
      'signalsLate is an option of push and atomic and fused only, not of ring',
    )
  })

  it('auto chooses fused until something is measured, and never atomic with a wire dtype of 16 bits', async () => {
    await using world = await openWorld({ ranks: 2 })
    const chosen = (given: Partial<GemmReduceScatterOptions>) =>
      gemmReduceScatter(world, { ...usual, dtype: 'bf16', variant: 'auto', ...given })
    expect(chosen({})).toMatchObject({
      variant: 'fused',
      reason: expect.stringContaining('default is fused') as string,
    })
    const { shape, scatter } = usual
    const point = { operation: 'gemmReduceScatter', target: 'check', ranks: 2, dtype: 'bf16', shape }
    rememberMeasurements([{ ...point, layout: { scatter }, times: { bsp: 3, atomic: 1, ring: 2 } }])
    expect(chosen({}).variant).toBe('atomic')
    expect(chosen({ wire: 'bf16' }).variant).toBe('ring')
  })
})

describe('the blocks in which programs sum', () => {
  it('divide a tile and fit into registers', () => {
    for (const BM of [1, 6, 8, 16, 64, 128])
      for (const BN of [2, 32, 112, 224, 256]) {
        const { rows, columns } = blockOf({ BM, BN })
        expect([BM % rows, BN % columns]).toEqual([0, 0])
        expect(rows * columns).toBeLessThanOrEqual(2048)
      }
    expect(blockOf({ BM: 128, BN: 256 })).toEqual({ rows: 16, columns: 128 })
  })
})

describe('the number of summers', () => {
  const amounts = { shape: { M: 8192, N: 8192, K: 28_672 }, extents: [1024, 8192], wire: 'f32' } as const

  it('grows with the share of the time that sums take', () => {
    const on = (K: number) =>
      summersFor(oneEach(h200, 8), 8, { ...amounts, shape: { ...amounts.shape, K } }, 'resident')
    expect(on(28_672)).toBeGreaterThan(0)
    expect(on(2048)).toBeGreaterThan(on(28_672))
    expect(on(8)).toBeLessThan(h200.processors)
  })

  it('is 0 where rates are unknown, for one rank, and for one program', () => {
    expect(summersFor(cpuMachine('native', 8), 8, amounts, 'resident')).toBe(0)
    expect(summersFor(sharedOut(h200, 1), 1, amounts, 'resident')).toBe(0)
    expect(summersFor(oneEach(h200, 8), 8, amounts, 1)).toBe(0)
  })
})

it('samples of inputs that a device draws are those of the shards', () => {
  const [ranks, shape] = [2, { M: 4, N: 6, K: 8 }] as const
  const depth = shape.K / ranks
  const value = (input: string, rank: number, index: number): number =>
    Math.sin(1 + index + 100 * rank + (input === 'a' ? 0.5 : 0))
  const whole = {
    a: Array.from({ length: shape.M * shape.K }, (_, at) => {
      const [row, k] = [Math.floor(at / shape.K), at % shape.K]
      return value('a', Math.floor(k / depth), row * depth + (k % depth))
    }),
    b: Array.from({ length: shape.K * shape.N }, (_, at) => {
      const [k, column] = [Math.floor(at / shape.N), at % shape.N]
      return value('b', Math.floor(k / depth), (k % depth) * shape.N + column)
    }),
  }
  for (const scatter of ['M', 'N'] as const) {
    const samples = drawing.samples({ ranks, dtype: 'bf16', layout: { scatter }, shape }, (input, rank) => ({
      element: (index: number) => value(input, rank, index),
      ...{ values: new Float64Array(), place: () => 0, period: 1 },
    }))
    samples.forEach(({ rows, columns, expected }, rank) => {
      const shard = expectedShard(whole, shape, scatter, rank, ranks)
      const width = scatter === 'M' ? shape.N : shape.N / ranks
      const found = rows.flatMap((row) => columns.map((column) => shard[row * width + column]))
      expectClose(expected, found, { atol: 1e-12 })
    })
  }
})

it.each(targets)('default tiles are right on %s', long, async (target) => {
  await using world = await openWorld({ target, ranks: 2 })
  for (const variant of gemmReduceScatterOperation.variants)
    for (const scatter of ['M', 'N'] as const)
      await expectRight(world, { shape: { M: 150, N: 300, K: 130 }, dtype: 'f32', variant, scatter })
})
