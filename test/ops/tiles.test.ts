/** Tests the default tiles by target, dtype and rows: tiles that fit a GPU, and for a CPU the same tiles as before. */
import { describe, expect, it } from 'vitest'
import { defaultTiles } from '../../src/ops/gathered/tiles.ts'
import { decodeTiles, piecesOf, type CacheShape } from '../../src/ops/flashDecode/tiles.ts'
import { tileMemory, tileRows } from '../../src/ops/limits.ts'
import { gemmTiles } from '../../src/ops/tiles.ts'
import { oneEach, sharedOut } from '../../src/world/machine.ts'
import { h200 } from '../../src/targets/cuda/machines.ts'
import { cpuMachine } from '../../src/world/machines.ts'

const text = ({ BM, BN, BK, stages }: ReturnType<typeof gemmTiles>): string =>
  `${BM}x${BN}x${BK}, ${stages} stages`
const dtype = 'bf16'
/** A GPU that is not in the tables of tuned tiles. */
const gpu = (processors = 132) => oneEach({ ...h200, name: 'some GPU', processors }, 1)

describe('tiles of products', () => {
  it('on a GPU are small for few rows, and large for many rows unless multiprocessors would be idle', () => {
    const of = (m: number, n: number): string => text(gemmTiles(gpu(), { m, n, k: 8192, dtype }))
    expect([of(1, 4096), of(16, 4096)]).toEqual(['8x64x128, 8 stages', '16x64x128, 8 stages'])
    expect([of(17, 4096), of(64, 4096)]).toEqual(Array(2).fill('64x64x128, 6 stages'))
    expect([of(512, 4096), of(1024, 8192)]).toEqual(['128x128x64, 6 stages', '128x256x64, 4 stages'])
  })

  it('are wide if nearly every multiprocessor of a GPU then has one tile', () => {
    const of = (m: number, multiprocessors: number): string =>
      text(gemmTiles(gpu(multiprocessors), { m, n: 3584, k: 8192, dtype }))
    expect([of(1, 16), of(64, 16), of(128, 16)]).toEqual([
      '8x256x64, 6 stages',
      '64x256x64, 4 stages',
      '128x256x64, 4 stages',
    ])
    expect([of(1, 132), of(1, 20)]).toEqual(Array(2).fill('8x64x128, 8 stages'))
  })

  it('of few rows leave room for a second program if every multiprocessor has many tiles', () => {
    const of = (m: number, n: number): string => text(gemmTiles(gpu(16), { m, n, k: 8192, dtype }))
    expect([of(8, 28672), of(16, 7168), of(64, 28672)]).toEqual([
      '8x128x64, 6 stages',
      '16x128x64, 6 stages',
      '64x256x64, 4 stages',
    ])
  })

  it('depend on the number of multiprocessors per rank', () => {
    const shape = { m: 1024, n: 4096, k: 8192, dtype } as const
    expect(text(defaultTiles(gpu(16), shape))).toBe('128x256x64, 4 stages')
  })

  it('fit shared memory in f32 too', () => {
    for (const m of [1, 16, 64, 4096]) {
      const { BM, BN, BK, stages } = gemmTiles(gpu(), { m, n: 4096, k: 4096, dtype: 'f32' })
      expect(4 * stages * (BM * BK + BK * BN)).toBeLessThan(200 * 1024)
    }
  })

  it('have rows and leave memory free as the machine record says', () => {
    const products = { besideTiles: 100 * 1024, tileRows: [[16, 32], [32]] }
    const machine = { ...gpu(), products }
    expect([1, 16, 17, 500].map((m) => tileRows(machine, m))).toEqual([[16, 32], [16, 32], [32], [32]])
    expect(tileMemory(machine)).toBe(h200.sharedBytes - 100 * 1024)
    expect(gemmTiles(machine, { m: 1, n: 4096, k: 8192, dtype })).toMatchObject({ BM: 16, stages: 6 })
  })

  it('do not depend on the dtype on a CPU', () => {
    for (const operand of ['f32', 'bf16'] as const) {
      const shape = { m: 300, n: 1000, k: 500, dtype: operand }
      expect(text(gemmTiles(cpuMachine('native', 1), shape))).toBe('300x1008x256, 2 stages')
      expect(text(defaultTiles(cpuMachine('native', 1), shape))).toBe('128x256x256, 2 stages')
    }
  })
})

describe('tiles of a cache', () => {
  const shape = { batch: 1, queryHeads: 32, kvHeads: 8, D: 128, tokens: 65_536, dtype } as const

  it('have the fewest parts that keep the memory busy, or else all multiprocessors', () => {
    expect(decodeTiles(gpu(), shape)).toEqual({ BN: 128, stages: 2, splits: 12 })
    expect(decodeTiles(gpu(16), shape)).toEqual({ BN: 128, stages: 2, splits: 2 })
    expect(decodeTiles(gpu(), { ...shape, batch: 64 }).splits).toBe(1)
    expect(decodeTiles(gpu(), { ...shape, tokens: 300 }).splits).toBe(3)
  })

  it('are within 5 % of the fastest splits that were measured on an H200', () => {
    // The times of the variant `fused` in microseconds, for single executions behind a start gate.
    const measured = [
      { ranks: 8, kvHeads: 12, tokens: 8192, times: { 1: 96.7, 2: 103.1, 4: 102.7 } },
      { ranks: 8, kvHeads: 12, tokens: 65_536, times: { 1: 715, 2: 747, 4: 732 } },
      { ranks: 8, kvHeads: 8, tokens: 16_384, times: { 1: 148.2, 2: 129.2, 4: 130.6 } },
      { ranks: 8, kvHeads: 2, batch: 4, tokens: 16_384, times: { 1: 139.2, 2: 127.7, 4: 132.1 } },
    ]
    for (const { ranks, kvHeads, batch = 1, tokens, times } of measured) {
      const of = { ...shape, batch, kvHeads, queryHeads: 8 * kvHeads, tokens }
      const { splits } = decodeTiles(sharedOut(h200, ranks), of)
      const time = (times as Record<number, number>)[splits]
      expect(time, `${kvHeads} heads, ${tokens} tokens: ${splits} splits`).toBeLessThan(
        1.05 * Math.min(...Object.values(times)),
      )
    }
  })

  it('keep all multiprocessors busy where the bandwidth of the memory is unknown', () => {
    const { bandwidth: _, ...unknown } = gpu(16)
    expect(decodeTiles(unknown, { ...shape, kvHeads: 12, queryHeads: 96 }).splits).toBe(4)
  })

  it('are the given ones', () => {
    expect(decodeTiles(gpu(), shape, { BN: 32, splits: 5 })).toEqual({ BN: 32, stages: 3, splits: 5 })
  })

  it('have fewer tokens for wider dtypes or more heads', () => {
    expect(decodeTiles(gpu(), { ...shape, D: 256 }).BN).toBe(64)
    expect(decodeTiles(gpu(), { ...shape, dtype: 'f32' }).BN).toBe(64)
  })

  it('are fixed on a CPU', () => {
    expect(decodeTiles(cpuMachine('native', 1), shape)).toEqual({ BN: 64, stages: 2, splits: 1 })
  })

  it('end in small pieces with work stealing, but not in pieces too small to be worth sending', () => {
    const splitsOf = (given: Partial<CacheShape>): number =>
      decodeTiles(cpuMachine('native', 1), { ...shape, ...given, stealing: true }).splits
    expect([256, 1024, 2048, 65_536].map((tokens) => splitsOf({ tokens }))).toEqual([1, 2, 4, 4])
    expect(splitsOf({ tokens: 100 })).toBe(1)
    expect([splitsOf({ kvHeads: 1 }), splitsOf({ batch: 100 })]).toEqual([32, 1])
    // The example has eight tiles, of which the last two have four pieces each.
    expect(piecesOf(8, 4)).toBe(6 + 2 * 4)
    expect([piecesOf(1, 3), piecesOf(5, 1)]).toEqual([3, 5])
  })
})
