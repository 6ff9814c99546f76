/**
 * Tests the sources of tiles: given by the caller, tuned on this machine, shipped, or the default rule. The tests also cover the file
 * that stores tuned tiles.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { format, resolveConfig } from 'prettier'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { openWorld } from '../../src/index.ts'
import { allGatherGemm, allGatherGemmOperation } from '../../src/ops/allGatherGemm/index.ts'
import { flashDecode, flashDecodeOperation } from '../../src/ops/flashDecode/index.ts'
import { remember, tunedHere } from '../../src/tune/cache.ts'
import { tilesFor, type Tiling } from '../../src/tune/configurations.ts'
import { shippedTables } from '../../src/tune/shipped.ts'
import { classOf, settingOf, tableSource, withTiles, type Tables } from '../../src/tune/tables.ts'

const asked = (M: number) => ({
  operation: 'product',
  variant: 'pull',
  layout: { shard: 'K' },
  dtype: 'bf16',
  ranks: 8,
  processors: 16,
  device: 'NVIDIA H200',
  shape: { M, N: 3584, K: 8192 },
  growing: { M: 'neighbouring' } as const,
})
type Tiles = { readonly BM: number; readonly BN: number }
/** A tiling in which tiles may not have more rows than the shape. */
const tilingOf = (M: number): Tiling<Tiles> => ({
  asked: asked(M),
  fallback: (given) => ({ BM: given?.BM ?? 1, BN: 1 }),
  isLegal: ({ BM }) => BM <= M,
  candidates: () => [],
})
const tableOf = (tiles: Readonly<Record<number, Tiles>>): Tables =>
  withTiles(
    {},
    Object.entries(tiles).map(([M, own]) => ({ asked: asked(Number(M)), tiles: own })),
  )

describe('a table', () => {
  it('distinguishes settings by all properties that times depend on', () => {
    expect(settingOf(asked(1))).toBe('product pull K bf16 8x16')
    expect(settingOf({ ...asked(1), variant: undefined, layout: undefined })).toBe('product bf16 8x16')
  })

  it('distinguishes all layout options, whatever their order', () => {
    const settingIn = (layout: Readonly<Record<string, string>>) => settingOf({ ...asked(1), layout })
    const all = ['K', 'M'].flatMap((shard) => ['K', 'M'].map((order) => settingIn({ shard, order })))
    expect(new Set(all).size).toBe(4)
    expect(settingIn({ order: 'M', shard: 'K' })).toBe(settingIn({ shard: 'K', order: 'M' }))
  })

  it('groups growing extents by the next power of two, and keeps other extents exact', () => {
    const { growing } = allGatherGemmOperation
    expect(classOf({ shape: { M: 33, N: 100, K: 7 }, growing })).toBe('M=64 N=100 K=7')
    expect(classOf({ shape: { M: 64, N: 100, K: 7 }, growing })).toBe('M=64 N=100 K=7')
    expect(classOf({ shape: { M: 33, N: 100, K: 7 } })).toBe('M=33 N=100 K=7')
    const decode = flashDecodeOperation.growing
    expect(classOf({ shape: { batch: 3, queryHeads: 96, D: 128, tokens: 5000 }, growing: decode })).toBe(
      'batch=4 queryHeads=96 D=128 tokens=8192',
    )
    expect(classOf({ shape: { batch: 3, tokens: 5000 }, growing: decode }, -1)).toBe('batch=4 tokens=4096')
  })

  it('is sorted, with numbers by value, and replaces existing entries', () => {
    const tables = withTiles(tableOf({ 16: { BM: 1, BN: 1 }, 2: { BM: 2, BN: 1 } }), [
      { asked: asked(16), tiles: { BM: 3, BN: 3 } },
    ])
    expect(Object.entries(tables['NVIDIA H200']['product pull K bf16 8x16'])).toEqual([
      ['M=2 N=3584 K=8192', { BM: 2, BN: 1 }],
      ['M=16 N=3584 K=8192', { BM: 3, BN: 3 }],
    ])
  })

  it('is written as a formatted source file', async () => {
    const options = { ...(await resolveConfig(import.meta.filename)), parser: 'typescript' }
    const [table] = Object.values(tableOf({ 16: { BM: 1, BN: 1 }, 2: { BM: 2, BN: 1 } }))
    for (const source of [tableSource('h200', 'NVIDIA H200', table), tableSource('none', 'none', {})])
      expect(await format(source, options)).toBe(source)
  })

  it('for H200 is shipped in the written form', () => {
    const path = new URL('../../src/tune/h200.ts', import.meta.url)
    expect(readFileSync(path, 'utf8')).toBe(
      tableSource('h200', 'NVIDIA H200', withTiles(shippedTables, [])['NVIDIA H200'] ?? {}),
    )
  })
})

describe('tiles', () => {
  const here = tableOf({ 16: { BM: 16, BN: 2 } })
  const shipped = tableOf({ 16: { BM: 16, BN: 3 }, 256: { BM: 64, BN: 3 } })
  const find = (M: number, given?: Partial<Tiles>) => tilesFor(tilingOf(M), given, here, shipped)

  it('are those given by the caller, completed by the rule', () => {
    expect(find(16, { BM: 5 })).toEqual({ tiles: { BM: 5, BN: 1 }, tilesFrom: 'given' })
  })
  it('are otherwise those tuned here, before those shipped', () => {
    expect(find(16)).toEqual({ tiles: { BM: 16, BN: 2 }, tilesFrom: 'tuned here' })
    expect(find(256)).toEqual({ tiles: { BM: 64, BN: 3 }, tilesFrom: 'shipped for NVIDIA H200' })
  })
  it('are those of the nearest class, up to two doublings away, if they are legal', () => {
    expect(find(17).tiles).toEqual({ BM: 16, BN: 2 })
    expect(find(64).tiles).toEqual({ BM: 16, BN: 2 })
    expect(find(1000).tiles).toEqual({ BM: 64, BN: 3 })
    expect(find(8).tilesFrom).toBe('default')
    expect(find(2000).tilesFrom).toBe('default')
  })
  it('are those of another dtype of the same size if nothing was measured for the requested dtype', () => {
    const f16 = { ...tilingOf(16), asked: { ...asked(16), dtype: 'f16' } }
    expect(tilesFor(f16, {}, here, shipped)).toEqual(find(16))
    const f32 = { ...tilingOf(16), asked: { ...asked(16), dtype: 'f32' } }
    expect(tilesFor(f32, {}, here, shipped).tilesFrom).toBe('default')
  })
  it('follow the rule on another device, with other ranks, and if a table entry is incomplete', () => {
    const other = { ...tilingOf(16), asked: { ...asked(16), device: 'NVIDIA H100' } }
    expect(tilesFor(other, {}, here, shipped).tilesFrom).toBe('default')
    const fewer = { ...tilingOf(16), asked: { ...asked(16), ranks: 4 } }
    expect(tilesFor(fewer, {}, here, shipped).tilesFrom).toBe('default')
    const old = withTiles({}, [{ asked: asked(16), tiles: { BM: 16 } }])
    expect(tilesFor(tilingOf(16), {}, old, {}).tilesFrom).toBe('default')
  })
  it('contain 0 only where 0 is allowed', () => {
    const none = tableOf({ 16: { BM: 16, BN: 0 } })
    expect(tilesFor(tilingOf(16), {}, none, {}).tilesFrom).toBe('default')
    const allowed = { ...tilingOf(16), mayBeZero: ['BN'] }
    expect(tilesFor(allowed, {}, none, {}).tiles).toEqual({ BM: 16, BN: 0 })
  })
})

describe('the file of tuned tiles', () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'arke-tuned-'))
    vi.stubEnv('ARKE_CACHE', folder)
  })
  afterEach(() => {
    vi.unstubAllEnvs()
    vi.restoreAllMocks()
    rmSync(folder, { recursive: true })
  })
  const path = (): string => join(folder, 'tuned.json')

  it('is empty at first, then holds remembered tiles, and other processes may add to it', () => {
    expect(tunedHere()).toEqual({})
    remember([{ asked: asked(1), tiles: { BM: 1, BN: 1 } }])
    const others = withTiles(tunedHere(), [{ asked: asked(2), tiles: { BM: 2, BN: 2 } }])
    writeFileSync(path(), JSON.stringify(others))
    expect(remember([{ asked: asked(4), tiles: { BM: 4, BN: 4 } }])).toBe(path())
    const expected = tableOf({ 1: { BM: 1, BN: 1 }, 2: { BM: 2, BN: 2 }, 4: { BM: 4, BN: 4 } })
    expect(tunedHere()).toEqual(expected)
    expect(JSON.parse(readFileSync(path(), 'utf8'))).toEqual(expected)
  })

  it('is replaced atomically, without leftover files', () => {
    remember([{ asked: asked(1), tiles: { BM: 1, BN: 1 } }])
    expect(readdirSync(folder)).toEqual(['tuned.json'])
    // If the file cannot be replaced, the temporary file is removed again.
    rmSync(path())
    mkdirSync(join(path(), 'a folder'), { recursive: true })
    expect(() => remember([{ asked: asked(1), tiles: { BM: 1, BN: 1 } }])).toThrow()
    expect(readdirSync(folder)).toEqual(['tuned.json'])
  })

  it.each(['', 'no JSON', '[]', '{"NVIDIA H200":{"setting":{"class":{"BM":"16"}}}}', '{"a":1}'])(
    'is ignored, with a warning, where the file holds %j',
    (text) => {
      const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
      writeFileSync(path(), text)
      expect(tunedHere()).toEqual({})
      expect(warn).toHaveBeenCalledOnce()
      expect(warn.mock.calls[0][0]).toContain(`${path()} is ignored because it is not a table of tiles`)
    },
  )

  it('is used by operations', async () => {
    const world = await openWorld({ ranks: 2 })
    const options = { shape: { M: 8, N: 64, K: 32 }, dtype: 'f32', shard: 'K', variant: 'pull' } as const
    const before = allGatherGemm(world, options)
    expect(before.tilesFrom).toBe('default')
    const tiles = { ...before.tiles, BN: 32 }
    remember([{ asked: allGatherGemmOperation.tiling(world, options).asked, tiles }])
    expect(allGatherGemm(world, options)).toMatchObject({ tiles, tilesFrom: 'tuned here' })
    expect(allGatherGemm(world, { ...options, tiles: { BK: 8 } })).toMatchObject({
      tiles: { ...before.tiles, BK: 8 },
      tilesFrom: 'given',
    })
    const shape = { batch: 1, queryHeads: 2, kvHeads: 1, D: 16, tokens: 8 }
    expect(flashDecode(world, { shape, dtype: 'f32', variant: 'fused' }).tilesFrom).toBe('default')
    await world.close()
  })
})
