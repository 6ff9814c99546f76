/** Flash Decode in even shares of the cache: which programs touch which tiles, and right results whatever the shape. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openWorld } from '../../../src/index.ts'
import { flashDecode, flashDecodeOperation } from '../../../src/ops/flashDecode/index.ts'
import { groupsOf, splitsOfShares } from '../../../src/ops/flashDecode/parts.ts'
import { expectClose } from '../../../src/world/world.ts'
import { expectClean, repeated } from '../clean.ts'
import { partlyFilled, withLengths } from './lengths.ts'

const numRuns = Number(process.env.ARKE_KERNELS ?? 8)

describe('parts of a tile', () => {
  const small = fc.integer({ min: 1, max: 12 })
  /** The most programs that touch one of so many tiles. */
  const touching = (tiles: number, blocks: number, programs: number): number => {
    const share = Math.ceil((tiles * blocks) / programs)
    const found = Array.from({ length: tiles }, () => new Set<number>())
    for (let block = 0; block < tiles * blocks; block++)
      found[Math.floor(block / blocks)].add(Math.floor(block / share))
    return Math.max(...found.map(({ size }) => size))
  }

  it('are as many as programs touch the one that most do, however many blocks there are', () => {
    fc.assert(
      fc.property(small, fc.integer({ min: 1, max: 40 }), small, (tiles, mostBlocks, programs) => {
        const most = splitsOfShares(tiles, mostBlocks, programs)
        for (let blocks = 1; blocks <= mostBlocks; blocks++)
          expect(touching(tiles, blocks, programs)).toBeLessThanOrEqual(most)
      }),
    )
  })

  it('are no more than that', () => {
    for (const [tiles, programs, most] of [
      ...[[3, 4, 2] as const, [1, 16, 16] as const, [2, 33, 17] as const],
      ...[[16, 11, 2] as const, [5, 1, 1] as const],
    ]) {
      expect(splitsOfShares(tiles, 64, programs)).toBe(most)
      const found = Array.from({ length: 64 }, (_, n) => touching(tiles, n + 1, programs))
      expect(Math.max(...found)).toBe(most)
    }
    expect(splitsOfShares(1, 2, 16)).toBe(2)
  })

  it('are of groups as small as can be', () => {
    expect([groupsOf(12, 16), groupsOf(192, 132), groupsOf(7, 16), groupsOf(16, 16)]).toEqual([4, 12, 1, 16])
  })
})

const setting = fc.record({
  ranks: fc.integer({ min: 1, max: 3 }),
  programs: fc.integer({ min: 1, max: 7 }),
  choice: fc.constantFrom(...flashDecodeOperation.variants.map((variant) => ({ variant })), {
    variant: 'fused',
    owners: true,
  } as const),
  batch: fc.integer({ min: 1, max: 3 }),
  kvHeads: fc.integer({ min: 1, max: 5 }),
  tokens: fc.integer({ min: 1, max: 90 }),
  BN: fc.constantFrom(1, 4, 16),
  /** Of a rank's room, by rank and batch entry. */
  filled: fc.array(fc.constantFrom(0, 0.01, 0.3, 0.9, 1), { minLength: 1, maxLength: 7 }),
})

it('is right in wasm, in every variant', async () => {
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
          expectClose(await operation.result(rank), expected, operation.tolerance)
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

it('is refused together with stealing', async () => {
  const world = await openWorld({ target: 'wasm', ranks: 2 })
  const { defaults } = flashDecodeOperation
  expect(() => flashDecode(world, { ...defaults, tiles: { splits: 0 }, stealing: true })).toThrow(
    'stealing needs a CPU, no owners and splits; here is wasm, with even shares',
  )
  await world.close()
})

it('is refused where ranks would have different numbers of programs', async () => {
  const world = await openWorld({ target: 'wasm', ranks: 2 })
  const options = { ...flashDecodeOperation.defaults, tiles: { splits: 0 }, grid: (rank: number) => rank + 1 }
  expect(() => flashDecode(world, options)).toThrow('the same number of programs on every rank')
  await world.close()
})
