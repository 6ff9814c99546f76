/** Files of several jobs are refused with an error that names the jobs. Several recordings of one job are accepted. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { demoTraces, type DemoOptions } from '../../src/audit/demo/demo.ts'
import { AuditError, readTraces, type Traces } from '../../src/audit/open.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'arke-jobs-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

interface Recorded {
  readonly rank?: number
  readonly world?: number
  readonly groups?: readonly { pg_name: string; ranks: readonly number[] }[]
  readonly process?: number
  /** The time of the first event, in microseconds. */
  readonly start?: number
  readonly kernels?: readonly number[]
  readonly step?: number
}

/** Writes one file of a rank, with consecutive kernels of the given durations in microseconds. */
function put(name: string, recorded: Recorded): string {
  const { rank, world, groups, process = 100 + (rank ?? 0), start = 0, kernels = [5, 6, 7], step } = recorded
  const events: object[] = []
  let at = start
  kernels.forEach((dur, i) => {
    const args = { correlation: i + 1, device: 0, stream: 7 }
    events.push({
      ph: 'X',
      cat: 'cuda_runtime',
      name: 'cudaLaunchKernel',
      pid: process,
      tid: 1,
      ts: at,
      dur: 1,
      args,
    })
    events.push({ ph: 'X', cat: 'kernel', name: `kernel ${i}`, pid: 0, tid: 7, ts: at + 2, dur, args })
    at += dur + 3
  })
  if (step !== undefined)
    events.push({
      ph: 'X',
      cat: 'user_annotation',
      name: `ProfilerStep#${step}`,
      pid: process,
      tid: 1,
      ts: start,
      dur: at - start,
      args: {},
    })
  const distributedInfo = rank === undefined ? undefined : { rank, world_size: world, pg_config: groups }
  const path = join(folder, name)
  mkdirSync(dirname(path), { recursive: true })
  const text = JSON.stringify({ distributedInfo, traceEvents: events })
  writeFileSync(path, name.endsWith('.gz') ? gzipSync(text) : text)
  return path
}

async function refused(...inputs: string[]): Promise<string> {
  const error = await readTraces(inputs.length > 0 ? inputs : [folder]).then(
    () => new Error('it was not refused'),
    (reason: unknown) => reason as Error,
  )
  expect(error).toBeInstanceOf(AuditError)
  expect(error.message).not.toContain('\n')
  return error.message
}
/** For each rank, the file that the audit reads. */
const audited = ({ sources }: Traces): [number, string][] =>
  sources
    .flatMap(({ path, ranks }) =>
      ranks.map((rank): [number, string] => [rank, path.slice(folder.length + 1)]),
    )
    .sort(([a], [b]) => a - b)
const said = ({ warnings }: Traces, kind: string): string[] =>
  warnings.filter((one) => one.class === kind).map(({ message }) => message)

describe('files of two jobs are refused', () => {
  it('where their world sizes differ, also without a rank in common', async () => {
    put('a0.json', { rank: 0, world: 2 })
    put('a1.json', { rank: 1, world: 2 })
    put('b2.json', { rank: 2, world: 8 })
    const message = await refused()
    expect(message).toContain('2 jobs: ranks 0-1 of 2 (a0.json, a1.json); rank 2 of 8 (b2.json)')
    expect(message).toContain('a0.json is from a job of 2 ranks and b2.json from a job of 8')
    expect(message).toContain('Audit one job at a time')
  })

  it('where a rank is in two processes, whenever they ran', async () => {
    for (const rank of [0, 1, 2, 3]) {
      put(`run1/rank${rank}.json`, { rank, world: 4, process: 10 + rank })
      put(`run2/rank${rank}.json`, { rank, world: 4, process: 20 + rank, start: 9e6, kernels: [8, 9, 10] })
    }
    const message = await refused()
    expect(message).toContain('2 jobs')
    expect(message).toMatch(/ranks 0-3 of 4 \(run1.rank0\.json, run1.rank1\.json, run1.rank2\.json, 1 more\)/)
    expect(message).toMatch(/ranks 0-3 of 4 \(run2.rank0\.json/)
    expect(message).toMatch(/rank 0 is process 10 in run1.rank0\.json and process 20 in run2.rank0\.json/)
    expect((await readTraces([join(folder, 'run2')])).timeline.ranks).toHaveLength(4)
  })

  it('where a stray file of another job would replace a rank', async () => {
    put('a_rank0.json', { process: 5, start: 7e6 })
    for (const rank of [0, 1]) put(`job_rank${rank}.json`, { rank, world: 2 })
    expect(await refused()).toMatch(
      /rank 0 \(a_rank0\.json\).*ranks 0-1 of 2 \(job_rank0\.json, job_rank1\.json\)/,
    )
  })

  it('where a rank did different work at the same time', async () => {
    put('a.json', { rank: 0, world: 2, process: 1 })
    put('b.json', { rank: 0, world: 2, process: 1, kernels: [4, 9, 2] })
    expect(await refused()).toContain(
      'a.json and b.json both have work of rank 0 at the same time, and the work differs',
    )
  })

  it('where a rank did the same step twice', async () => {
    put('a.json', { rank: 0, world: 2, process: 1, step: 5 })
    put('b.json', { rank: 0, world: 2, process: 1, step: 5, start: 1e6, kernels: [4, 9, 2] })
    expect(await refused()).toContain('a.json and b.json both have ProfilerStep#5 of rank 0')
  })

  it('where a process group has different ranks', async () => {
    const tensor = (...ranks: number[]) => [{ pg_name: '1', ranks }]
    put('a.json', { rank: 0, world: 4, groups: tensor(0, 1) })
    put('b.json', { rank: 2, world: 4, groups: tensor(0, 2) })
    expect(await refused()).toContain('process group 1 has ranks 0-1 in a.json and ranks 0, 2 in b.json')
  })

  it('where the rank number of a file exceeds the size of the job', async () => {
    for (const rank of [0, 1]) put(`rank${rank}.json`, { rank, world: 2 })
    put('rank9.json', {})
    expect(await refused()).toContain('rank9.json is rank 9, but the other job has only 2 ranks')
    rmSync(join(folder, 'rank9.json'))
    put('stray.json', {})
    expect(await refused()).toContain(
      'stray.json states no rank, and all 2 ranks of the other job already have a trace',
    )
  })

  it('where no file states a rank, nothing communicates, and they ran at different times', async () => {
    put('before.json', { process: 1 })
    put('after.json', { process: 2, start: 3e6, kernels: [2, 3] })
    const message = await refused()
    expect(message).toContain('2 jobs: unknown ranks (after.json); unknown ranks (before.json)')
    expect(message).toContain(
      'before.json states no rank, has no collective and was not recorded at the same time',
    )
  })

  it.each<[string, DemoOptions]>([
    ['of another size of work', { layers: 2, seed: 8 }],
    ['that differ by chance only', { seed: 8 }],
  ])('made by the demo %s', async (_, options) => {
    for (const [run, traces] of [demoTraces(), demoTraces(options)].entries())
      for (const { name, text } of traces) {
        mkdirSync(join(folder, `run${run}`), { recursive: true })
        writeFileSync(join(folder, `run${run}`, name), text)
      }
    expect(await refused()).toMatch(/ranks 0-7 of 8 \(run0.*; ranks 0-7 of 8 \(run1/)
  })
})

describe('files of one job are not refused', () => {
  it('several windows of each rank: the first is audited, the others are named with their time', async () => {
    for (const rank of [0, 1])
      for (const window of [0, 1, 2])
        put(`rank${rank}.window${window}.json`, {
          rank,
          world: 2,
          start: window * 5e6,
          step: 10 + window,
          kernels: [5 + window, 6, 7],
        })
    const read = await readTraces([folder])
    expect(audited(read)).toEqual([
      [0, 'rank0.window0.json'],
      [1, 'rank1.window0.json'],
    ])
    expect(said(read, 'duplicate-rank')).toHaveLength(4)
    expect(said(read, 'duplicate-rank')[0]).toBe(
      'rank0.window1.json: a recording of 25.0 µs of rank 0 that begins 5.00 s after the recording in rank0.window0.json is left out; audit it on its own',
    )
  })

  it('windows whose order by name differs from their order in time', async () => {
    put('a.json', { rank: 0, world: 1, start: 8e6, step: 20, kernels: [1, 2] })
    put('b.json', { rank: 0, world: 1, start: 2e6, step: 10 })
    expect(audited(await readTraces([folder]))).toEqual([[0, 'b.json']])
  })

  it('windows that some ranks lack: the same window is audited on all ranks', async () => {
    for (const rank of [0, 1, 2])
      for (const window of [0, 1])
        if (rank !== 1 || window === 1)
          put(`rank${rank}.window${window}.json`, {
            rank,
            world: 3,
            start: window * 5e6,
            kernels: [5 + window, 6],
          })
    expect(audited(await readTraces([folder])).map(([, file]) => file)).toEqual([
      'rank0.window1.json',
      'rank1.window1.json',
      'rank2.window1.json',
    ])
  })

  it('windows of one process without a rank number are one rank', async () => {
    put('host_42.1.pt.trace.json', { process: 42 })
    put('host_42.2.pt.trace.json', { process: 42, start: 5e6, kernels: [1, 2] })
    const read = await readTraces([folder])
    expect(audited(read)).toEqual([[0, 'host_42.1.pt.trace.json']])
    expect(said(read, 'duplicate-rank')[0]).toContain('of the same process')
  })

  it('ranks without numbers that ran at the same time', async () => {
    for (const name of ['a', 'b', 'c'])
      put(`${name}.json`, { process: 1, kernels: [3, 4, name.charCodeAt(0)] })
    expect(audited(await readTraces([folder])).map(([rank]) => rank)).toEqual([0, 1, 2])
  })

  it('a copy, compressed or cut off, is left out', async () => {
    const kernels = Array.from({ length: 40 }, (_, i) => 3 + i)
    put('rank0.json', { rank: 0, world: 2, kernels })
    put('rank0.json.gz', { rank: 0, world: 2, kernels })
    put('rank0-cut.json', { rank: 0, world: 2, kernels: kernels.slice(0, 30) })
    const read = await readTraces([join(folder, 'rank0.json'), folder])
    expect(audited(read)).toEqual([[0, 'rank0.json']])
    expect(said(read, 'duplicate-rank')).toEqual([
      'rank0-cut.json: this is a copy of rank 0 in rank0.json and is left out',
      'rank0.json.gz: this is a copy of rank 0 in rank0.json and is left out',
    ])
  })

  it('ranks of different machines whose clocks are far apart', async () => {
    for (const rank of [0, 1, 2, 3])
      put(`rank${rank}.json`, { rank, world: 4, process: 7, start: rank * 1e9 })
    const read = await readTraces([folder])
    expect(audited(read)).toHaveLength(4)
    expect(said(read, 'duplicate-rank')).toEqual([])
  })

  it('one file with the number of another rank: both are left out', async () => {
    for (const rank of [0, 1, 2, 3]) put(`rank${rank}.json`, { rank, world: 4, kernels: [4 + rank, 9, 3] })
    put('rank0.json', { rank: 1, world: 4, process: 77, kernels: [8, 9, 10] })
    const read = await readTraces([folder])
    expect(audited(read).map(([rank]) => rank)).toEqual([2, 3])
    expect(said(read, 'duplicate-rank')).toEqual([
      'rank0.json: rank1.json also has work of rank 1 at the same time, and the work differs; one of the two rank numbers is wrong, so both files are left out',
      'rank1.json: rank0.json also has work of rank 1 at the same time, and the work differs; one of the two rank numbers is wrong, so both files are left out',
    ])
  })

  it('equal group names on ranks that are in different groups', async () => {
    put('a.json', { rank: 0, world: 4, groups: [{ pg_name: '1', ranks: [0, 1] }] })
    put('b.json', { rank: 2, world: 4, groups: [{ pg_name: '1', ranks: [2, 3] }] })
    expect(audited(await readTraces([folder]))).toHaveLength(2)
  })
})
