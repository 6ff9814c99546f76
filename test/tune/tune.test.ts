/**
 * Tests tuning on real ranks, as a function and as a command. The tests check consistency of the results, whatever the
 * machine's speed.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { notesOnLaunches } from '../../src/cli/notes.ts'
import { Progress } from '../../src/cli/progress.ts'
import { tuneCommand, tuneNotes, tuneTables, type TuneCommand, type TuneResult } from '../../src/cli/tune.ts'
import { openWorld } from '../../src/index.ts'
import { interruptAt } from '../cli/interruptAt.ts'
import { allGatherGemm, allGatherGemmOperation } from '../../src/ops/allGatherGemm/index.ts'
import type { OperationDefinition } from '../../src/operation/definition.ts'
import { tune, type Tuned } from '../../src/tune/tune.ts'
import type { Launch } from '../../src/world/world.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-tune-'))
afterAll(() => rmSync(folder, { recursive: true }))
beforeEach(() => void vi.stubEnv('ARKE_CACHE', folder))
afterEach(() => void vi.unstubAllEnvs())

const now = (): number => performance.now() * 1e6
const options = { shape: { M: 8, N: 128, K: 64 }, dtype: 'f32', shard: 'K', variant: 'pull' } as const
const settings = { options, seconds: 0.02, now, spin: true, rotate: 1e5 }

describe('tuning', () => {
  const tuned = async (
    definition: typeof allGatherGemmOperation,
    onChosen?: (launches: readonly Launch[]) => void,
  ): Promise<Tuned> => {
    const world = await openWorld({ target: 'wasm', ranks: 2, heap: 1 << 24 })
    try {
      return await tune(definition, world, { ...settings, onChosen })
    } finally {
      await world.close()
    }
  }

  it('tries all candidates and returns one of them, with its time', async () => {
    const found = await tuned(allGatherGemmOperation)
    expect(found.asked).toMatchObject({
      operation: 'allGatherGemm',
      variant: 'pull',
      device: 'wasm',
      ranks: 2,
    })
    expect(found.tried).toBeGreaterThan(2)
    expect(found.dropped).toEqual([])
    expect(found.fallback.time.median).toBeGreaterThan(0)
    expect(found.speedup.median).toBeGreaterThanOrEqual(1)
  })

  it('passes on the launches of an execution with the chosen tiles, from which notes on a GPU follow', async () => {
    const launched: Launch[] = []
    const { best } = await tuned(allGatherGemmOperation, (launches) => launched.push(...launches))
    const [multiply] = launched.filter(({ options }) => options.meta && 'BM' in options.meta)
    expect(multiply.options.meta).toMatchObject(best.tiles)
    expect(notesOnLaunches('cuda', launched, 2)).toEqual([
      expect.stringMatching(
        /^src\/ops\/gathered\/\w+\.ts:\d+:\d+: this product of f32 values does not use the matrix unit/,
      ),
    ])
  })

  it('drops candidates that are rejected or wrong, and says why', async () => {
    const broken: OperationDefinition<typeof options & { tiles?: Record<string, number> }, unknown> = {
      ...(allGatherGemmOperation as unknown as OperationDefinition<typeof options, unknown>),
      make(world, given, inputs) {
        const made = allGatherGemm(world, given, inputs)
        const [usual, second, third] = allGatherGemmOperation.tiling(world, options).candidates()
        expect(usual).not.toEqual(second)
        if (JSON.stringify(made.tiles) === JSON.stringify(second)) throw new RangeError('too small\nby much')
        const isLazy = JSON.stringify(made.tiles) === JSON.stringify(third)
        return { ...made, launch: isLazy ? () => undefined : made.launch } as ReturnType<typeof this.make>
      },
    }
    const found = await tuned(broken as unknown as typeof allGatherGemmOperation)
    expect(found.dropped.map(({ why }) => why)).toEqual([
      'too small',
      expect.stringMatching(/^allGatherGemm pull: element 0 of rank 0 is NaN, the reference/),
    ])
  })
})

describe('arke tune', () => {
  const usual: TuneCommand = {
    variant: 'bsp,fused',
    target: 'wasm',
    ranks: 2,
    shape: 'M=4,N=64,K=64',
    dtype: 'f32',
    seconds: 0.01,
    seed: 1,
  }
  const run = async (command: Partial<TuneCommand>, operation = 'all-gather-gemm') => {
    const printed: string[] = []
    const print = (text: string): void => void printed.push(text)
    const progress = new Progress(process.stderr)
    const result = await tuneCommand(operation, { ...usual, ...command }, '0.0.0', print, progress)
    return { result, printed: printed.join('\n') }
  }

  it('prints a table, stores the tiles, and writes a source file', async () => {
    const write = join(folder, 'table.ts')
    const { result, printed } = await run({ write, sweep: 'M=1,4' })
    expect(result.tuned.map(({ asked }) => [asked.shape.M, asked.variant])).toEqual([
      [1, 'bsp'],
      [1, 'fused'],
      [4, 'bsp'],
      [4, 'fused'],
    ])
    for (const text of ['M=4 N=64 K=64: ', 'variant', 'default', 'faster', `stored in ${result.kept}`])
      expect(printed).toContain(text)
    const kept = JSON.parse(readFileSync(join(folder, 'tuned.json'), 'utf8')) as object
    const [workers] = result.tuned.map(({ asked }) => asked.processors)
    expect(workers).toBe(Math.max(1, Math.floor(availableParallelism() / 2)))
    const settingNames = result.tuned.map(({ asked }) => `allGatherGemm ${asked.variant} K f32 2x${workers}`)
    expect(kept).toHaveProperty('wasm')
    for (const setting of settingNames) expect(readFileSync(write, 'utf8')).toContain(`'${setting}': {`)
    const world = await openWorld({ target: 'wasm', ranks: 2, heap: 1 << 24 })
    const shape = { M: 4, N: 64, K: 64 }
    const operation = allGatherGemm(world, { shape, dtype: 'f32', shard: 'K', variant: 'fused' })
    expect(operation).toMatchObject({ tiles: result.tuned[3].best.tiles, tilesFrom: 'tuned here' })
    await world.close()
  })

  it('prints the best so far when it is interrupted, and stores only complete results', async () => {
    vi.stubEnv('ARKE_CACHE', join(folder, 'interrupted'))
    // The test interrupts tuning in the first round of the second variant.
    const { progress, interrupt } = interruptAt('fused, measuring')
    const printed: string[] = []
    const result = await tuneCommand(
      'all-gather-gemm',
      usual,
      '0.0.0',
      (text) => void printed.push(text),
      progress,
      interrupt,
    ).catch((error: unknown) => error)
    expect(result).toMatchObject({ interrupted: true, tuned: [{ asked: { variant: 'bsp' } }] })
    const kept = readFileSync(join(folder, 'interrupted/tuned.json'), 'utf8')
    expect(kept).toContain('allGatherGemm bsp')
    expect(kept).not.toContain('allGatherGemm fused')
    expect(printed.join('\n')).toContain(`stored in ${(result as TuneResult).kept}`)
  })

  it('throws when it is interrupted before it has measured', async () => {
    const { progress, interrupt } = interruptAt('bsp, comparing')
    const tuned = tuneCommand('all-gather-gemm', usual, '0.0.0', () => undefined, progress, interrupt)
    await expect(tuned).rejects.toThrow('interrupted while')
  })

  it('prints one JSON document', async () => {
    const { printed } = await run(
      { json: true, variant: 'fused', shape: 'q=2,kvHeads=1,D=16,KV=64' },
      'flash-decode',
    )
    const { tuned, target, kept } = JSON.parse(printed) as TuneResult
    expect([target, kept]).toEqual(['wasm', join(folder, 'tuned.json')])
    expect(tuned[0].best.tiles).toHaveProperty('splits')
  })

  it('prints the speed-up of the best tiles, within 100 columns', () => {
    const quantity = (median: number) => ({ median, interval: [median, median] as const, samples: 9 })
    const tiles = { BM: 128, BN: 256, BK: 128, stages: 10 }
    const asked = { operation: 'product', variant: 'pull', dtype: 'bf16', ranks: 8, processors: 16 }
    const point: Tuned = {
      asked: { ...asked, device: 'a GPU', shape: { M: 1, N: 2 } },
      fallback: { tiles, time: quantity(200e3) },
      best: { tiles: { ...tiles, BN: 64 }, time: quantity(160e3) },
      speedup: quantity(1.25),
      tried: 9,
      dropped: [{ tiles, why: 'too many registers' }],
    }
    const lines = tuneTables([point])
    expect(lines[1]).toBe('M=1 N=2: 9 candidates')
    expect(lines[3]).toMatch(/^ {2}pull +BM=128 BN=256 BK=128 stages=10 +200 µs +BM=128 BN=64 /)
    expect(lines[3]).toMatch(/ BK=128 stages=10 +160 µs +1\.25 ±0%$/)
    expect(lines[4]).toBe('  BM=128 BN=256 BK=128 stages=10 was dropped: too many registers')
    expect(tuneNotes([{ ...point, notes: ['gemm.ts:1:2: slow'] }])).toEqual([
      'note: pull, M=1 N=2, BM=128 BN=64 BK=128 stages=10: gemm.ts:1:2: slow',
    ])
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(100)
  })

  it('rejects invalid options before it measures', async () => {
    await expect(run({ shard: 'N' })).rejects.toThrow('--shard N: shard is K or M')
    await expect(run({ target: 'check' })).rejects.toThrow(
      '--target check: the checker has no speed to measure',
    )
    await expect(run({ target: 'abacus' })).rejects.toThrow(
      '--target abacus: there is no such target; there is native, wasm, cuda',
    )
    await expect(run({ write: 'table.json' })).rejects.toThrow(
      '--write table.json: the table is a source file',
    )
    await expect(run({ write: join(folder, 'none', 'table.ts') })).rejects.toThrow('cannot be written')
    await expect(run({}, 'gemm')).rejects.toThrow('there is no operation gemm')
  })
})
