/** Tests `arke bench`: the options that it accepts and rejects, its output, and the files that it writes. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { benchCommand, processorsText, type BenchCommand } from '../../src/cli/bench.ts'
import {
  dtypeCalled,
  layoutOf,
  operationCalled,
  shapesOf,
  skewsOf,
  variantsOf,
} from '../../src/cli/benchOptions.ts'
import { storedLine } from '../../src/cli/tunePage.ts'
import { operationDocument, operationTable } from '../../src/cli/operations.ts'
import { commandName, operations } from '../../src/ops/operations.ts'
import { Progress } from '../../src/cli/progress.ts'
import { recordingLines } from '../../src/cli/recording.ts'
import { runsPage } from '../../src/report/runs/html.ts'
import { interruptAt } from './interruptAt.ts'
import type { BenchResult } from '../../src/runs/results.ts'
import { long } from '../long.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-bench-'))
afterAll(() => rmSync(folder, { recursive: true }))

describe('what arke bench is asked for', () => {
  const products = operationCalled('all-gather-gemm')
  const decode = operationCalled('flash-decode')

  it('finds an operation by its name, however it is written', () => {
    expect(operationCalled('allGatherGemm')).toBe(products)
    expect(() => operationCalled('gemm')).toThrow(
      'there is no operation gemm; there is all-gather-gemm, flash-decode',
    )
  })

  it('lists every operation with what it takes', () => {
    const table = operationTable()
    for (const { name, title, variants } of operations)
      for (const text of [title, commandName({ name }), variants.join(', ')]) expect(table).toContain(text)
    expect(table).toContain('tokens or KV=4096')
  })

  it('describes every operation in one JSON document', () => {
    const document = JSON.parse(JSON.stringify(operationDocument('1.2.3'))) as object
    expect(document).toMatchObject({
      arke: '1.2.3',
      operations: operations.map((one) => ({
        name: commandName(one),
        variants: [...one.variants],
        shape: one.defaults.shape,
      })),
    })
    expect(document).toMatchObject({
      operations: expect.arrayContaining([
        expect.objectContaining({ name: 'all-gather-gemm', layouts: { shard: expect.any(Array) } }),
      ]),
    })
  })

  it('takes all variants, or some in the order from bulk synchronous to fused', () => {
    expect(variantsOf(products, 'all')).toEqual(['bsp', 'pull', 'push', 'fused'])
    expect(variantsOf(products, 'fused, bsp')).toEqual(['bsp', 'fused'])
    expect(() => variantsOf(products, 'fast')).toThrow(
      '--variant fast: allGatherGemm has bsp, pull, push, fused, or all',
    )
  })

  it('reads extents over the usual ones, by any of their names', () => {
    expect(shapesOf(products, 'm=3, K=5', undefined)).toEqual([{ M: 3, N: 1024, K: 5 }])
    expect(shapesOf(decode, 'KV=9,batch=2', undefined)).toEqual([
      { batch: 2, queryHeads: 32, kvHeads: 8, D: 128, tokens: 9 },
    ])
    expect(() => shapesOf(products, 'X=3', undefined)).toThrow('--shape X=3: there is no X; there is M, N, K')
    expect(() => shapesOf(products, 'M', undefined)).toThrow('write it as NAME=VALUE')
    expect(() => shapesOf(operationCalled('flash-decode'), 'M=1', undefined)).toThrow(
      'there is no M; there is batch, queryHeads or Q, kvHeads, D, tokens or KV',
    )
    expect(() => shapesOf(products, 'M=1,m=2', undefined)).toThrow('--shape M=1,m=2: M is given twice')
    expect(() => shapesOf(products, 'M=-5', undefined)).toThrow('whole numbers from 1 up')
    expect(() => shapesOf(products, 'M=0', undefined)).toThrow('whole numbers from 1 up')
    expect(() => shapesOf(products, 'M=1.5', undefined)).toThrow('whole numbers from 1 up')
  })

  it('sweeps by powers of two, with both ends, or over a list', () => {
    const rows = (sweep: string): number[] => shapesOf(products, 'N=7', sweep).map(({ M }) => M)
    expect(rows('M=1..8')).toEqual([1, 2, 4, 8])
    expect(rows('M=3..20')).toEqual([3, 6, 12, 20])
    expect(rows('M=5..5')).toEqual([5])
    expect(rows('M=1, 7,64')).toEqual([1, 7, 64])
    expect(() => rows('M=8..1')).toThrow('write the smaller number first')
    expect(() => rows('M=0..8')).toThrow('whole numbers from 1 up')
  })

  it('measures without skew first', () => {
    expect(skewsOf('0')).toEqual([0])
    expect(skewsOf('5,20')).toEqual([0, 5, 20])
    expect(() => skewsOf('fast')).toThrow('--skew fast: write percentages from 0 to 1000')
    expect(() => skewsOf('-1')).toThrow('--skew -1')
  })

  it('knows the dtypes', () => {
    expect(dtypeCalled('bf16')).toBe('bf16')
    expect(() => dtypeCalled('f64')).toThrow('--dtype f64: there is f32, f16, bf16')
  })
})

describe('the machine', () => {
  const machine = { node: '', platform: '', processor: 'AMD EPYC', bandwidth: 1, tick: 1, memories: 1 }

  it('has worker threads on logical cores, or multiprocessors', () => {
    expect(processorsText({ ...machine, threads: true, cores: 8 }, 2)).toBe(
      '8 worker threads on 2 logical cores of AMD EPYC',
    )
    expect(processorsText({ ...machine, processor: 'H200', threads: false, cores: 132 }, 2)).toBe(
      '132 multiprocessors of H200',
    )
  })
})

it('arke tune says what it has stored', () => {
  expect(storedLine('tuned.json', [true])).toBe(
    'stored in tuned.json: the default, because no candidate is significantly faster',
  )
  expect(storedLine('tuned.json', [false, false])).toBe('stored in tuned.json: the best')
  expect(storedLine('tuned.json', [false, true, true])).toBe(
    'stored in tuned.json: the best of 1 point, and the default of 2 points for which no candidate is significantly faster',
  )
})

describe('what arke bench gives', () => {
  const usual: BenchCommand = {
    variant: 'all',
    target: 'wasm',
    ranks: 2,
    shape: 'M=3,N=32,K=40',
    dtype: 'f32',
    skew: '0',
    seconds: 0.01,
    pack: true,
    seed: 1,
  }
  const run = async (command: Partial<BenchCommand>, operation = 'all-gather-gemm') => {
    const printed: string[] = []
    const print = (text: string): void => void printed.push(text)
    const result = await benchCommand(
      operation,
      { ...usual, ...command },
      '0.0.0',
      print,
      new Progress(process.stderr),
    )
    return { result, printed: printed.join('\n') }
  }

  it('prints a table and the ledger in words, and writes a page and a trace', async () => {
    const [report, trace] = [join(folder, 'page.html'), join(folder, 'trace.json')]
    const { result, printed } = await run({ report, trace })
    expect(result.points).toHaveLength(1)
    for (const variant of ['bsp', 'pull', 'push', 'fused'])
      expect(printed).toMatch(new RegExp(`^ *${variant} `, 'm'))
    expect(printed).toMatch(/^allGatherGemm .*\n {2}[\d.]+× as fast as bsp/m)
    expect(printed).toContain('Contention before the run: ')
    expect(result.points[0].contention.interval).toBeGreaterThan(0)
    expect(printed).toContain('The limit is GEMM on data already gathered')
    expect(printed).toContain(`the variants side by side: ${report}`)
    expect(readFileSync(report, 'utf8')).toMatch(/^<!doctype html>/i)
    const { traceEvents } = JSON.parse(readFileSync(trace, 'utf8')) as { traceEvents: { name: string }[] }
    expect(traceEvents.some(({ name }) => name === 'allGatherGemmFusedK')).toBe(true)
  })

  it('prints the rows so far when it is interrupted', long, async () => {
    const printed: string[] = []
    const print = (text: string): void => void printed.push(text)
    const { progress, interrupt } = interruptAt('M=4 N=32 K=40: measuring')
    const report = join(folder, 'unfinished.html')
    const command = { ...usual, sweep: 'M=2,4,8', skew: '0,50', report }
    const result = await benchCommand('all-gather-gemm', command, '0.0.0', print, progress, interrupt)
    expect(result).toMatchObject({ interrupted: true, points: [{ shape: { M: 2 } }, { shape: { M: 2 } }] })
    const text = printed.join('\n')
    expect(text).toMatch(
      /allGatherGemm M=4 N=32 K=40: incomplete, interrupted after 1 round\n +variant +median\n +bsp .* ±.*%\n/,
    )
    expect(text).not.toContain('M=8')
    expect(existsSync(report)).toBe(false)
  })

  it('prints the row so far of one variant when it is interrupted', async () => {
    const printed: string[] = []
    const { progress, interrupt } = interruptAt('M=4 N=32 K=40: measuring')
    const command = { ...usual, variant: 'bsp', sweep: 'M=2,4' }
    const print = (text: string): void => void printed.push(text)
    const result = await benchCommand('all-gather-gemm', command, '0.0.0', print, progress, interrupt)
    expect(result).toMatchObject({ interrupted: true, points: [{ shape: { M: 2 } }] })
    expect(printed.join('\n')).toMatch(
      /allGatherGemm M=4 N=32 K=40: incomplete, interrupted after 1 round\n +variant +median\n +bsp .* ±.*%\n?/,
    )
  })

  it('throws when it is interrupted before it has a row', async () => {
    const { progress, interrupt } = interruptAt('comparing')
    const printed: string[] = []
    const command = { ...usual, json: true }
    await expect(
      benchCommand(
        'all-gather-gemm',
        command,
        '0.0.0',
        (text) => void printed.push(text),
        progress,
        interrupt,
      ),
    ).rejects.toThrow('interrupted while')
    expect(printed).toEqual([])
  })

  it('prints one JSON document with a point for each value and skew', long, async () => {
    const { printed } = await run(
      { json: true, sweep: 'KV=1..4', skew: '0,50', shape: 'q=2,kvHeads=1,D=16', variant: 'bsp,fused' },
      'flash-decode',
    )
    const recording = join(folder, 'recording.json')
    writeFileSync(recording, printed)
    const { points, machine, target, date } = JSON.parse(printed) as BenchResult
    expect(target).toBe('wasm')
    expect(date).toMatch(/^\d{4}-\d\d-\d\d$/)
    expect(machine.bandwidth).toBeGreaterThan(0)
    expect(points.map(({ shape, skew }) => [shape.tokens, skew])).toEqual([
      [1, 0],
      [1, 50],
      [2, 0],
      [2, 50],
      [4, 0],
      [4, 50],
    ])
    expect(points[0].auto?.reason).toBeTypeOf('string')

    // The JSON document of `arke bench` has the format of the recording that the demo draws.
    const result = JSON.parse(readFileSync(recording, 'utf8')) as BenchResult
    const drawn = recordingLines(result).join('\n')
    const origin = drawn.slice(0, drawn.indexOf('flashDecode')).replace(/\s+/g, ' ')
    expect(origin).toContain(`target wasm, ${date}`)
    expect(origin).toContain('The ranks are threads that share one memory.')
    expect(drawn.match(/^ +fused: .*× as fast as bsp \(95 % interval .* to .*\)$/gm)).toHaveLength(6)
    expect(drawn.match(/^ +rank [01] [█·░▒ -]+$/gm)).toHaveLength(6 * 2 * 2)
    expect(runsPage(result)).toContain('<h3 id="point-5-title">flashDecode')
  })

  it('refuses before it measures', async () => {
    await expect(run({ shard: 'N' })).rejects.toThrow('--shard N: shard is K or M')
    const decode = operationCalled('flash-decode')
    expect(() => layoutOf(decode, { shard: 'M' })).toThrow(
      '--shard M: the inputs of flashDecode have only one layout',
    )
    expect(() => layoutOf(decode, { pack: false })).toThrow('has no weights to pack: leave out --no-pack')
    expect(layoutOf(decode, {})).toEqual({})
    await expect(run({ report: join(folder, 'none', 'page.html') })).rejects.toThrow('cannot be written')
    await expect(run({ trace: join(folder, 't.json'), sweep: 'M=1..2' })).rejects.toThrow(
      '--trace shows one point',
    )
    await expect(run({ target: 'check' })).rejects.toThrow(
      '--target check: this target cannot record; there is native, wasm, cuda',
    )
    await expect(run({ target: 'abacus' })).rejects.toThrow(
      '--target abacus: there is no such target; there is native, wasm, cuda',
    )
  })
})
