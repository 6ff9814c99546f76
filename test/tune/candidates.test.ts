/**
 * Tests candidate tiles: the default comes first, all are legal and accepted by the emitter, and there are no
 * duplicates.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { lower } from '../../src/targets/cuda/stages.ts'
import { flashDecodeOperation } from '../../src/ops/flashDecode/index.ts'
import { attendKernel } from '../../src/ops/flashDecode/ladder.ts'
import { allGatherGemmOperation } from '../../src/ops/allGatherGemm/index.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'
import { operandDTypes, type TilingWorld } from '../../src/operation/definition.ts'
import { gemmTiling, gemmTiles } from '../../src/ops/tiles.ts'
import { oneEach, sharedOut, type DeviceDescription } from '../../src/world/machine.ts'
import { h200 } from '../../src/targets/cuda/machines.ts'
import { cpuMachine } from '../../src/world/machines.ts'
import { emitCuda } from '../../src/targets/cuda/emit/emit.ts'
import { factsOf } from '../../src/targets/cuda/emit/recipe.ts'
import { itForSome } from '../long.ts'

const gpu: DeviceDescription = { ...h200, name: 'a GPU' }
const whole = oneEach(gpu, 1)
const worldOf = (target: string, ranks: number): TilingWorld => ({
  ranks,
  machine: target === 'cuda' ? sharedOut(gpu, ranks) : cpuMachine(target, ranks),
})
const worlds = fc.record({
  target: fc.constantFrom('cuda', 'native', 'wasm'),
  ranks: fc.constantFrom(1, 2, 8),
})
const dtypes = fc.constantFrom(...operandDTypes)
const extent = (most: number) => fc.integer({ min: 1, max: most })

describe('candidates of a product', () => {
  const points = fc.record({
    world: worlds,
    dtype: dtypes,
    shape: fc.record({ M: extent(9000), N: extent(30000), K: extent(9000) }),
    variant: fc.constantFrom(...allGatherGemmOperation.variants),
    shard: fc.constantFrom('K' as const, 'M' as const),
  })

  it('begin with the default, are legal, and are not repeated', () => {
    fc.assert(
      fc.property(points, ({ world: { target, ranks }, ...options }) => {
        const { fallback, isLegal, candidates } = allGatherGemmOperation.tiling(
          worldOf(target, ranks),
          options,
        )
        const [first, ...others] = candidates()
        expect(first).toEqual(fallback())
        for (const tiles of others) expect(isLegal(tiles), JSON.stringify(tiles)).toBe(true)
        const texts = [first, ...others].map((tiles) => JSON.stringify(tiles))
        expect(new Set(texts).size).toBe(texts.length)
        for (const number of others.flatMap((tiles) => Object.values(tiles)))
          expect(Number.isInteger(number) && number > 0).toBe(true)
      }),
      { seed: 1, numRuns: 300 },
    )
  })

  it('fit shared memory with at least two stages', () => {
    const bytes = ({ BM, BN, BK, stages }: Record<string, number>): number => 2 * stages * BK * (BM + BN)
    for (const m of [1, 32, 64, 4096])
      for (const tiles of gemmTiling(whole, { m, n: 8192, k: 8192, dtype: 'bf16' }).candidates()) {
        expect(bytes(tiles)).toBeLessThanOrEqual(212 * 1024)
        expect(tiles.stages).toBeGreaterThan(1)
      }
  })

  it('avoid a nearly empty last round of tiles if possible', () => {
    const tiles = gemmTiling(whole, { m: 128, n: 8192, k: 8192, dtype: 'bf16' }).candidates()
    // Tiles of 128 x 128 occupy 64 of 132 multiprocessors. Tiles of 64 x 128 or 128 x 64 occupy 128.
    expect(tiles.slice(1).some(({ BM, BN }) => BM === 128 && BN === 128)).toBe(false)
    expect(tiles.some(({ BM, BN }) => BM === 128 && BN === 64)).toBe(true)
  })

  itForSome([16, 24, 512], (M) => M === 16)('are emitted for %i rows', (M) => {
    const [N, K] = [3584, 8192]
    const tensors = { a: factsOf([M, K]), b: factsOf([K, N]), c: factsOf([M, N]) }
    const all = gemmTiling(sharedOut(gpu, 1, 16), { m: M, n: N, k: K, dtype: 'bf16' }).candidates()
    for (const meta of all.filter(({ BK }) => BK !== 128)) {
      const ir = lower(gemmKernel('bf16').record({ world: 1, meta }))
      expect(emitCuda(ir, { tensors }).sharedBytes).toBeLessThanOrEqual(227 * 1024)
    }
  })

  it('are not computed for a device without tuning', () => {
    expect(gemmTiles(whole, { m: 1, n: 64, k: 64, dtype: 'bf16' })).toEqual(
      gemmTiling(whole, { m: 1, n: 64, k: 64, dtype: 'bf16' }).fallback(),
    )
  })
})

describe('candidates of a cache', () => {
  const points = fc.record({
    world: worlds,
    dtype: dtypes,
    shape: fc.record({
      batch: extent(20),
      queryHeads: fc.constantFrom(8, 32, 96),
      kvHeads: fc.constantFrom(1, 4, 8),
      D: fc.constantFrom(64, 128),
      tokens: extent(1 << 20),
    }),
    variant: fc.constantFrom(...flashDecodeOperation.variants),
  })

  it('begin with the default, are legal, and are not repeated', () => {
    fc.assert(
      fc.property(points, ({ world: { target, ranks }, ...options }) => {
        const tiling = flashDecodeOperation.tiling(worldOf(target, ranks), options)
        const [first, ...others] = tiling.candidates()
        expect(first).toEqual(tiling.fallback())
        for (const tiles of others) expect(tiling.isLegal(tiles), JSON.stringify(tiles)).toBe(true)
        const texts = [first, ...others].map((tiles) => JSON.stringify(tiles))
        expect(new Set(texts).size).toBe(texts.length)
      }),
      { seed: 1, numRuns: 300 },
    )
  })

  const shape = { batch: 1, queryHeads: 96, kvHeads: 12, D: 128, tokens: 8192 }
  const candidates = flashDecodeOperation
    .tiling(worldOf('cuda', 8), { shape, dtype: 'bf16', variant: 'fused' })
    .candidates()

  it('may have more parts than multiprocessors', () => {
    expect(Math.max(...candidates.map(({ splits }) => splits * 12))).toBeGreaterThan(16)
  })

  it('are emitted', () => {
    const { batch, kvHeads, D, tokens } = shape
    for (const tiles of candidates) {
      const parts = tiles.splits * batch * kvHeads
      const [rows, cache] = [
        [batch, kvHeads, 8, D],
        [batch, kvHeads, tokens, D],
      ].map(factsOf)
      const partial = { sums: factsOf([1, parts, 8, D]), stats: factsOf([1, parts, 2, 8]) }
      const tensors = { q: rows, k: cache, v: cache, lengths: factsOf([batch]), ...partial }
      const ir = lower(attendKernel('bf16').record({ world: 8, meta: { G: 8, D, ...tiles } }))
      expect(emitCuda(ir, { tensors }).sharedBytes).toBeLessThanOrEqual(227 * 1024)
    }
  })
})
