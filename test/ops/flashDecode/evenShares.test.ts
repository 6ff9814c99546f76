/**
 * Flash Decode with stream-K shares of the cache: the programs that touch each tile, and correct results for any shape.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openWorld } from '../../../src/index.ts'
import { flashDecode, flashDecodeOperation } from '../../../src/ops/flashDecode/index.ts'
import { splitsOfShares } from '../../../src/ops/flashDecode/parts.ts'
import { expectClose } from '../../../src/world/world.ts'
import { expectClean, repeated } from '../clean.ts'
import { long } from '../../long.ts'
import { partlyFilled, withLengths } from './lengths.ts'

const numRuns = Number(process.env.ARKE_KERNELS ?? 8)

it('has as many parts per tile as the largest number of programs that touch a tile', () => {
  const small = fc.integer({ min: 1, max: 12 })
  fc.assert(
    fc.property(small, small, small, (tiles, blocks, programs) => {
      const share = Math.ceil((tiles * blocks) / programs)
      const touching = Array.from({ length: tiles }, () => new Set<number>())
      for (let block = 0; block < tiles * blocks; block++)
        touching[Math.floor(block / blocks)].add(Math.floor(block / share))
      const most = Math.max(...touching.map(({ size }) => size))
      expect(splitsOfShares(tiles, blocks, programs)).toBe(most)
    }),
  )
})

const setting = fc.record({
  ranks: fc.integer({ min: 1, max: 3 }),
  programs: fc.integer({ min: 1, max: 7 }),
  choice: fc.constantFrom(
    ...flashDecodeOperation.variants.map((variant) => ({ variant })),
    { variant: 'fused', owners: true } as const,
    { variant: 'fused', fetching: true } as const,
  ),
  batch: fc.integer({ min: 1, max: 3 }),
  kvHeads: fc.integer({ min: 1, max: 5 }),
  tokens: fc.integer({ min: 1, max: 90 }),
  BN: fc.constantFrom(1, 4, 16),
  /** The filled fraction of a rank's part of the KV cache, by rank and batch entry. */
  filled: fc.array(fc.constantFrom(0, 0.01, 0.3, 0.9, 1), { minLength: 1, maxLength: 7 }),
})

it('computes correct results in wasm, in every variant', long, async () => {
  await fc.assert(
    fc.asyncProperty(setting, async ({ ranks, programs, choice, BN, filled, ...extents }) => {
      const shape = { ...extents, queryHeads: 2 * extents.kvHeads, D: 8 }
      const world = await openWorld({ target: 'wasm', ranks, workers: programs })
      try {
        const tiles = { BN, splits: 0 }
        const operation = flashDecode(world, { shape, dtype: 'f32', tiles, grid: programs, ...choice })
        const contents = withLengths(operation.random(7), partlyFilled(filled, shape.tokens), shape)
        operation.fill(contents)
        for (let launch = 0; launch < 3; launch++) operation.launch()
        const expected = operation.reference(contents, 0)
        for (let rank = 0; rank < ranks; rank++)
          expectClose(await operation.result(rank), expected, { atol: operation.tolerance })
      } finally {
        await world.close()
      }
    }),
    { numRuns },
  )
})

describe('under the checker', () => {
  const shape = { batch: 1, queryHeads: 3, kvHeads: 3, D: 1, tokens: 4 }
  it.each([
    ...flashDecodeOperation.variants.map((variant) => [variant, { variant }] as const),
    ['fused, with owners', { variant: 'fused', owners: true }] as const,
    ['fused, fetching', { variant: 'fused', fetching: true }] as const,
  ])('%s is clean, with more programs than tiles', async (_, choice) => {
    const options = {
      shape,
      dtype: 'f32',
      tiles: { BN: 1, stages: 2, splits: 0 },
      grid: 4,
      ...choice,
    } as const
    const subject = repeated(2, (world) => flashDecode(world, options), {
      contents: (random) => withLengths(random, (rank) => 4 - rank, shape),
      ...{ factor: 'v', tolerance: 1e-5, launches: 2 },
    })
    await expectClean(subject, { schedules: 3, limit: 3 })
  })
})

it('is rejected together with stealing', async () => {
  const world = await openWorld({ target: 'wasm', ranks: 2 })
  const { defaults } = flashDecodeOperation
  expect(() => flashDecode(world, { ...defaults, tiles: { splits: 0 }, stealing: true })).toThrow(
    'stealing needs ranks with cheap access to the flags of other ranks (a CPU), no owners, no fetching and splits > 0; this is wasm, with even shares',
  )
  await world.close()
})

it('is rejected if ranks have different numbers of programs', async () => {
  const world = await openWorld({ target: 'wasm', ranks: 2 })
  const options = { ...flashDecodeOperation.defaults, tiles: { splits: 0 }, grid: (rank: number) => rank + 1 }
  expect(() => flashDecode(world, options)).toThrow('the same number of programs on every rank')
  await world.close()
})
