/**
 * Tests the functions of the GPU benchmark that need no GPU: plan, lower bounds, resuming, references of results, and
 * tables.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  allLayouts,
  layoutFrom,
  leastTime,
  operationOf,
  planCells,
  setsFor,
  type Cell,
  type CellResult,
  type Timing,
} from '../../bench/gpu/cells.ts'
import { judge, verdict } from '../../bench/gpu/goals.ts'
import { pageOf } from '../../bench/gpu/page.ts'
import { blockRows, Pattern, readSome } from '../../bench/gpu/pattern.ts'
import { Store } from '../../bench/gpu/store.ts'
import { asText, compare, fastestTwo, speedupOf, summaryOf, tablesOf } from '../../bench/gpu/tables.ts'
import { sampleProduct } from '../../src/ops/drawn.ts'
import { drawing as drawnCaches } from '../../src/ops/flashDecode/drawn.ts'
import { attentionOf } from '../../src/ops/flashDecode/reference.ts'
import { canCallLibraries } from '../../src/targets/cuda/node.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { expectClose } from '../../src/world/world.ts'
import { fakeDriver } from '../cuda/fakeDriver.ts'

const all = planCells({ quick: false })
const cellOf = (key: string): Cell => all.find((cell) => cell.key === key)!
const timing = (name: string, role: Timing['role'], median: number, form: Timing['form'] = ''): Timing => ({
  name,
  role,
  form,
  median,
  interval: [median - 1, median + 1],
  samples: 9,
})

/**
 * In this example, bsp takes 140 us, as a graph 150 us, and with the vendor's matrix product 130 us. The best fused
 * variant takes 113 us, and the matrix products alone take 110 and 112 us.
 */
const gathered: CellResult = {
  ...cellOf('gather bf16 K M=8'),
  timings: [
    timing('bsp', 'baseline', 140, 'launches'),
    timing('bsp', 'baseline', 150, 'graph'),
    timing('bsp, cuBLASLt', 'baseline', 130, 'launches'),
    timing('pull', 'fused', 113, 'graph'),
    timing('fused', 'fused', 120, 'launches'),
    timing('GEMM', 'alone', 112, 'launches'),
    timing('GEMM, cuBLASLt', 'alone', 110, 'launches'),
  ],
  failed: { push: 'rank 3: elements were not written' },
  limit: 107,
  remoteBytes: 114_688,
}

describe('the plan', () => {
  it('has every point once', () => {
    expect(new Set(all.map(({ key }) => key)).size).toBe(all.length)
    for (const dtype of ['bf16', 'f16'])
      for (const M of [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192])
        expect(cellOf(`gather ${dtype} K M=${M}`).shape).toEqual({ M, N: 3584, K: 8192 })
    const decode = all.filter(({ section }) => section === 'decode').map(({ shape }) => shape)
    expect(decode).toHaveLength(7 + 7 + 6 + 5)
    for (const { batch, tokens } of decode) expect(batch * tokens).toBeLessThanOrEqual(2 * 1024 * 1024)
    expect(decode.some(({ batch, tokens }) => batch === 4 && tokens === 512 * 1024)).toBe(true)
  })

  it('names the operation of each cell, even where several operations have the same extents', () => {
    const titleOf = (key: string): string | undefined => operationOf(cellOf(key))?.definition.name
    expect(titleOf('gather bf16 K M=8')).toBe('allGatherGemm')
    expect(titleOf('norm bf16 M=8')).toBe('normGatherGemm')
    expect(titleOf('attend KV=16384')).toBe('flashDecode')
    expect(titleOf('scaling decode ranks=8')).toBe('flashDecode')
    expect(titleOf('scaling gemm M=8 ranks=8')).toBe('allGatherGemm')
    // A matrix product on one rank is not an operation, although its extents have the names of an operation's extents.
    expect(titleOf('gemm M=8 N=8192 K=8192')).toBeUndefined()
    // Result files of earlier versions do not name the operation.
    expect(operationOf({ section: 'norm' })?.definition.name).toBe('normGatherGemm')
    expect(operationOf({ section: 'gemm' })).toBeUndefined()
  })

  it('has the layouts that the operations declare', () => {
    const shards = [{ shard: 'K' }, { shard: 'M' }]
    expect(allLayouts()).toEqual(
      ['M', 'N'].flatMap((scatter) => shards.map((shard) => ({ ...shard, scatter }))),
    )
    expect(layoutFrom(['shard=M'])).toEqual({ shard: 'M' })
    for (const text of ['shard=N', 'order=K', 'shard'])
      expect(() => layoutFrom([text])).toThrow(
        `there is no layout ${text}; the layout options are shard=K|M, scatter=M|N`,
      )
    const [along] = planCells({ quick: true, layout: { shard: 'M' } })
    expect(along).toMatchObject({
      key: 'gather bf16 M M=1',
      operation: 'allGatherGemm',
      layout: { shard: 'M' },
    })
  })

  it('keeps the keys of the points that a quick run takes', () => {
    const quick = planCells({ quick: true })
    expect(quick.length).toBeLessThan(all.length / 3)
    for (const cell of quick) expect(cellOf(cell.key)).toEqual(cell)
  })

  it('gives the same work to more ranks', () => {
    const work = all
      .filter(({ key }) => key.startsWith('scaling decode'))
      .map(({ ranks, shape }) => ranks * shape.tokens)
    expect(work).toEqual([262144, 262144, 262144, 262144])
  })

  it('computes the lower bound on the time of a cell', () => {
    // The time to read 8 x 8192 x 3584 weights of two bytes at 4.38 TB/s; all other data are negligible.
    expect(leastTime(cellOf('gather bf16 K M=1'), 16)).toBeCloseTo(107.3, 0)
    // The cell has 8 x 2 x 8192 x 3584 x 8192 operations on 128 of 132 multiprocessors.
    const seconds = (8 * 2 * 8192 * 3584 * 8192) / (790e12 * (128 / 132))
    expect(leastTime(cellOf('gather bf16 K M=8192'), 16)).toBeCloseTo(seconds * 1e6, 6)
    // With one GPU per rank, the ranks together have eight times the memory bandwidth.
    expect(leastTime(cellOf('gather bf16 K M=1'), 132)).toBeCloseTo(107.3 / 8, 0)
    // The cell has 8 ranks, 12 heads, 8192 tokens, and keys and values of 256 bytes.
    expect(leastTime(cellOf('decode batch=1 KV=8K'), 16)).toBeCloseTo(
      (8 * 12 * 8192 * 512 * 1e6) / 4.38e12,
      6,
    )
  })

  it('rotates inputs over more memory than the caches hold', () => {
    expect(setsFor(134e6)).toBe(2)
    expect(setsFor(470e6)).toBe(1)
    expect(setsFor(1)).toBe(8)
  })
})

describe('the file of results', () => {
  let folder: string
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'arke-bench-'))))
  afterEach(() => rmSync(folder, { recursive: true }))
  const machine = { device: 'NVIDIA H200' }
  const open = (): Store => new Store(join(folder, 'results.json'), machine, '2026-01-02')

  it('contains the cells that were measured before', () => {
    const store = open()
    store.begin(gathered.key)
    store.add(gathered)
    const again = open()
    expect(again.has(gathered.key)).toBe(true)
    expect(again.has('gather bf16 K M=16')).toBe(false)
    expect(again.results.cells).toEqual([gathered])
    expect(again.isGivenUp(gathered.key)).toBe(false)
    again.add({ ...gathered, limit: 1 })
    expect(open().results.cells).toEqual([{ ...gathered, limit: 1 }])
  })

  it('gives up a cell after two attempts without a result', () => {
    open().begin('bad')
    expect(open().isGivenUp('bad')).toBe(false)
    open().begin('bad')
    expect(open().isGivenUp('bad')).toBe(true)
  })

  it('does not mix devices', () => {
    const path = join(folder, 'results.json')
    open().begin('one')
    const text = readFileSync(path, 'utf8')
    writeFileSync(path, text.replace('NVIDIA H200', 'NVIDIA H100'))
    expect(open).toThrow('contains results of NVIDIA H100, but this machine has NVIDIA H200')
  })
})

describe('random contents', () => {
  const pattern = new Pattern('f16', 3)

  it.skipIf(!canCallLibraries())('on the device equal the elements that the pattern states', () => {
    const world = new CudaWorld(
      { devices: [new Device(fakeDriver().driver, 0)], compile: () => new Uint8Array() },
      { ranks: 2, heap: 32 * 2 ** 20 },
    )
    const x = world.empty('f16', [1001, 5000], { name: 'x' })
    for (const rank of [0, 1]) pattern.fill(world, x, 7, rank)
    for (const rank of [0, 1]) {
      const value = pattern.elements(7, rank)
      const found = readSome(world, x, rank, 0, 1001 * 5000)
      expect(found.findIndex((element, index) => element !== value(index))).toBe(-1)
    }
    expect(readSome(world, x, 0, 0, 100)).not.toEqual(readSome(world, x, 1, 0, 100))
  })

  it('yield the reference of a product', () => {
    const [a, b] = [pattern.elements(0, 0), pattern.elements(1, 2)]
    const [M, N, K] = [5, 40, 300]
    const { rows, columns, expected } = sampleProduct({ M, N, K }, (row, k) => a(row * K + k), b)
    expect(rows).toContain(M - 1)
    expect(columns).toContain(N - 1)
    const [row, column] = [rows[2], columns[5]]
    let sum = 0
    for (let k = 0; k < K; k++) sum += a(row * K + k) * b(k * N + column)
    expect(expected[2 * columns.length + 5]).toBeCloseTo(sum, 10)
  })

  it.each([100, blockRows + 1000])('yield the reference of attention over %i tokens', (tokens) => {
    const shape = { batch: 1, queryHeads: 1, kvHeads: 1, D: 128, tokens }
    const ranks = 2
    const drawn = (number: number, rank: number, count: number): Float64Array => {
      const value = pattern.elements(number, rank)
      const values = new Float64Array(count)
      for (let index = 0; index < count; index++) values[index] = value(index)
      return values
    }
    const ofRanks = <T>(make: (rank: number) => T): T[] => [0, 1].map(make)
    const expected = attentionOf(
      {
        q: drawn(0, 0, 128),
        k: ofRanks((rank) => drawn(1, rank, tokens * 128)),
        v: ofRanks((rank) => drawn(2, rank, tokens * 128)),
        lengths: ofRanks(() => [tokens]),
      },
      { batch: 1, heads: 1, G: 1, D: 128, tokens, scale: 1 / Math.sqrt(128) },
    )
    const numbers = Object.keys(drawnCaches.inputs)
    const samples = drawnCaches.samples({ ranks, dtype: 'f16', shape }, (input, rank) =>
      pattern.drawn(numbers.indexOf(input), rank),
    )
    expect(samples).toHaveLength(ranks)
    for (const { rows, columns, expected: found } of samples) {
      expect([rows, columns.length]).toEqual([[0], 128])
      expectClose(found, expected, { atol: 1e-12 })
    }
  })
})

describe('results', () => {
  it('compare the best fused variant with the faster baseline, whatever its form', () => {
    const { baseline, fused, floor, ratio, recovered } = compare(gathered)!
    expect([baseline.name, fused.name, floor]).toEqual(['bsp, cuBLASLt', 'pull', 110])
    expect(ratio).toBeCloseTo(130 / 113, 10)
    expect(recovered).toBeCloseTo(17 / 20, 10)
    expect(summaryOf(gathered)).toContain('recovered 85 %')
    expect(summaryOf(gathered)).toContain('FAILED push')
  })

  it('compute the speed-up per round, so that a slow round does not change it', () => {
    const drift = [1, 1.3, 0.9, 1.1, 1]
    const rounds = gathered.timings.map(({ median }) => drift.map((slower) => median * slower))
    const speedup = speedupOf(gathered.timings, rounds)!
    for (const end of [speedup.median, ...speedup.interval]) expect(end).toBeCloseTo(130 / 113, 10)
    expect(speedupOf(gathered.timings.slice(0, 3), rounds)).toBeUndefined()

    const known: CellResult = { ...gathered, speedup: { median: 1.25, interval: [1.2, 1.3], samples: 5 } }
    expect(compare(known)!.ratio).toBe(1.25)
    const text = tablesOf('gather', [known, gathered]).map(asText).join('\n')
    expect(text).toMatch(/1\.250 +1\.200…1\.300/)
    // The ratio of the variants' times in loops differs from the ratio in single executions.
    const looped = { ...known, inLoop: gathered.timings, turn: 12 }
    expect(tablesOf('gather', [looped]).map(asText).join('\n')).toMatch(/12 in a loop.* 1\.150 /)
  })

  it('use the times of the two contestants of a tie-break, even if others have lower medians', () => {
    const duel = [
      timing('bsp', 'baseline', 141, 'launches'),
      timing('fused', 'fused', 121, 'launches'),
    ] as const
    const { baseline, fused, recovered } = compare({ ...gathered, duel })!
    expect([baseline, fused]).toEqual(duel)
    expect(recovered).toBeCloseTo(20 / 31, 10)
  })

  it('select the two contestants of a tie-break by the 25th percentile of their rounds', () => {
    const roles = ['fused', 'baseline', 'alone', 'baseline', 'fused'] as const
    const rounds = [
      [9, 9, 3, 9],
      [5, 5, 5, 5],
      [1, 1, 1, 1],
      // Half of the rounds of this variant were slow, so its median is higher than the other baseline's.
      [4, 4, 7, 7],
      [8, 8, 8, 8],
    ]
    expect(
      fastestTwo(
        roles.map((role) => ({ role })),
        rounds,
      ),
    ).toEqual([3, 4])
  })

  it('are tables that name the contestants that were not timed, and say that there are no links', () => {
    const text = tablesOf('gather', [gathered]).map(asText).join('\n')
    expect(text).toContain('8 virtual ranks on one H200, without links between them')
    expect(text).toContain('push was not timed: rank 3: elements were not written')
  })

  it('list the goals that were missed', () => {
    const slow = { ...gathered, timings: [...gathered.timings, timing('bsp', 'baseline', 112.5, 'graph')] }
    expect(verdict(judge([gathered]))).toEqual(['tier A: 2 of 2 goals reached'])
    expect(verdict(judge([slow]))).toEqual([
      'tier A: 0 of 2 goals reached',
      expect.stringContaining('missed: gather bf16 K M=8: 0.996 times as fast'),
      expect.stringContaining('missed: gather bf16 K M=8: -20 %'),
    ])
    const page = pageOf({ machine: { device: 'H200' }, date: 'today', begun: {}, cells: [slow] })
    expect(page).toContain('0 of 2 goals were reached. The following goals were missed:')
    expect(page).toContain('| gather bf16 K M=8 | best fused at least as fast as the faster bsp | 0.996')
  })

  it('are judged against each peer that a goal names', () => {
    const attend: CellResult = {
      ...cellOf('attend KV=16384'),
      timings: [
        timing('fused', 'ours', 25),
        timing('cuDNN', 'peer', 24),
        timing('PyTorch flash', 'peer', 50),
      ],
      failed: {},
    }
    expect(judge([attend]).map(({ tier, isReached }) => [tier, isReached])).toEqual([
      ['B', true],
      ['C', false],
      ['C', true],
    ])
  })
})
