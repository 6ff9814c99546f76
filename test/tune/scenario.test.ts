/**
 * Tests tuning a scenario's numbers, with runs whose times are given, and what a scenario accepts as numbers to tune.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RecordedRun } from '../../src/runs/recorded.ts'
import { describedGpu } from '../../src/targets/cuda/description.ts'
import { remember } from '../../src/tune/cache.ts'
import { askedFor, combinationsOf, tunedNumbers, tuneScenario } from '../../src/tune/scenario.ts'
import { oneEach } from '../../src/world/machine.ts'
import { scenario, type Chosen } from '../../src/world/world.ts'

const recorded = (wall: number): RecordedRun => ({ wall, stretches: 1, launches: 1, ranks: [] })

/** Tunes a scenario whose runs take the times that `timeOf` returns. Every second round is 2 % slower. */
async function tuned(timeOf: (chosen: Chosen) => number, lists = { A: [4, 8, 2], B: [1, 3] }) {
  let clock = 0
  const runs: Chosen[] = []
  const found = await tuneScenario(lists, {
    run: (chosen) => {
      runs.push(chosen)
      const wall = timeOf(chosen) * (runs.length % 2 === 0 ? 1 : 1.02)
      clock += wall
      return Promise.resolve(recorded(wall))
    },
    seconds: 1,
    now: () => clock,
  })
  return { found, runs }
}

describe('tuning a scenario', () => {
  it('finds the fastest of all combinations, with the defaults first', async () => {
    expect(combinationsOf({ A: [4, 8], B: [1, 3] })).toEqual([
      { A: 4, B: 1 },
      { A: 4, B: 3 },
      { A: 8, B: 1 },
      { A: 8, B: 3 },
    ])
    const { found, runs } = await tuned(({ A, B }) => 1000 + 100 * Math.abs(A - 8) + 50 * Math.abs(B - 3))
    expect(runs[0]).toEqual({ A: 4, B: 1 })
    expect(found).toMatchObject({ tried: 6, dropped: [] })
    expect(found.fallback.chosen).toEqual({ A: 4, B: 1 })
    expect(found.best.chosen).toEqual({ A: 8, B: 3 })
    expect(found.speedup.median).toBeCloseTo(1.5, 1)
    expect(Math.abs(found.best.run.wall - 1000)).toBeLessThan(30)
  })

  it('keeps the defaults unless others are significantly faster', async () => {
    const { found } = await tuned(() => 1000)
    expect(found.best.chosen).toBe(found.fallback.chosen)
  })

  it('drops combinations that fail, and fails if the defaults do', async () => {
    const fail = (message: string): never => {
      throw new Error(`${message}\nand more`)
    }
    const { found } = await tuned(({ A, B }) => (A === 8 ? fail('element 3 is wrong') : 1000 - B))
    expect(found.dropped).toEqual([
      { tiles: { A: 8, B: 1 }, why: 'element 3 is wrong' },
      { tiles: { A: 8, B: 3 }, why: 'element 3 is wrong' },
    ])
    await expect(tuned(({ A }) => (A === 4 ? fail('too large') : 1))).rejects.toThrow('too large')
    await expect(tuned(() => 0)).rejects.toThrow(
      'the scenario launches no kernel, so there is nothing to measure',
    )
  })

  it('throws what interrupted it before anything was measured', async () => {
    const interrupt = AbortSignal.abort(new Error('interrupted by the test'))
    const run = (): Promise<RecordedRun> => Promise.resolve(recorded(1))
    await expect(tuneScenario({ A: [1, 2] }, { run, seconds: 1, now: () => 0, interrupt })).rejects.toThrow(
      'interrupted by the test',
    )
  })
})

describe('the numbers of a scenario', () => {
  const folder = mkdtempSync(join(tmpdir(), 'arke-tuned-'))
  const { ARKE_CACHE } = process.env
  beforeEach(() => void (process.env.ARKE_CACHE = folder))
  afterEach(() => {
    if (ARKE_CACHE === undefined) delete process.env.ARKE_CACHE
    else process.env.ARKE_CACHE = ARKE_CACHE
    rmSync(folder, { recursive: true, force: true })
  })

  it('are the first of each list, unless others are given', async () => {
    const seen: Chosen[] = []
    const one = scenario('one', { tune: { A: [4, 8], B: [1] } }, (_, chosen) => {
      const { A, B }: { readonly A: number; readonly B: number } = chosen
      return Promise.resolve(seen.push({ A, B }))
    })
    await one.run(undefined as never)
    await one.run(undefined as never, { A: 8 })
    expect(seen).toEqual([
      { A: 4, B: 1 },
      { A: 8, B: 1 },
    ])
  })

  it('that were tuned are found for the same file, machine and ranks, if the lists still have them', () => {
    const machine = oneEach(describedGpu(), 2)
    const make = (A: readonly number[]) => scenario('one', { tune: { A } }, () => Promise.resolve())
    remember([{ asked: askedFor('/a.ts', make([1, 2]), machine), tiles: { A: 2 } }])
    expect(tunedNumbers('/a.ts', make([1, 2]), machine)).toEqual({ A: 2 })
    expect(tunedNumbers('/a.ts', make([1, 3]), machine)).toBeUndefined()
    expect(tunedNumbers('/b.ts', make([1, 2]), machine)).toBeUndefined()
    expect(tunedNumbers('/a.ts', make([1, 2]), oneEach(describedGpu(), 4))).toBeUndefined()
    expect(
      tunedNumbers(
        '/a.ts',
        scenario('one', {}, () => Promise.resolve()),
        machine,
      ),
    ).toBeUndefined()
  })

  it.each([
    [{}, 'names nothing'],
    [{ A: [] }, 'has no list of numbers for A'],
    [{ A: 4 }, 'has no list of numbers for A'],
    [{ A: [1, '2'] }, 'has "2" for A, which is not a number'],
    [{ A: [1, 1] }, 'has a number twice for A'],
  ])('cannot be %j', (tune, why) => {
    expect(() => scenario('one', { tune: tune as never }, () => Promise.resolve())).toThrow(
      `the scenario one: tune ${why}; write it as { BLOCK: [64, 128, 256] }`,
    )
  })
})
