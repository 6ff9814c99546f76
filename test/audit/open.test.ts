/** Reading paths into one timeline: the files that are found, the numbering of ranks, the warnings, and the errors. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { AuditError, readTraces } from '../../src/audit/open.ts'
import { ranges } from '../../src/timeline/ranges.ts'
import { expandBraces, partPattern } from '../../src/audit/paths.ts'
import { readFiles, startWorker } from '../../src/audit/pool.ts'
import { Kind, streams, threads } from '../../src/timeline/timeline.ts'
import { contents } from '../timeline/drawn.ts'
import { makeTrace } from './trace.ts'

type Json = Record<string, unknown>

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'arke-open-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** Writes a file below the folder; returns its path. */
function put(name: string, content: string | Uint8Array | Json): string {
  const path = join(folder, name)
  mkdirSync(dirname(path), { recursive: true })
  const isJson = typeof content === 'object' && !(content instanceof Uint8Array)
  writeFileSync(path, isJson ? JSON.stringify(content) : content)
  return path
}

const launch = (correlation: number, ts = 0, tid = 1, pid = 1): Json => ({
  ph: 'X',
  cat: 'cuda_runtime',
  name: 'cudaLaunchKernel',
  pid,
  tid,
  ts,
  dur: 1,
  args: { correlation },
})
const kernel = (correlation: number, ts = 10, device = 0, dur = 5): Json => ({
  ph: 'X',
  cat: 'kernel',
  name: `kernel ${correlation}`,
  pid: device,
  tid: 7,
  ts,
  dur,
  args: { correlation, device, stream: 7 },
})
const trace = (rank?: number, worldSize?: number): Json => ({
  ...(rank === undefined ? {} : { distributedInfo: { rank, world_size: worldSize } }),
  traceEvents: [launch(1), kernel(1)],
})
const numbers = ({ timeline }: Awaited<ReturnType<typeof readTraces>>): number[] =>
  timeline.ranks.map(({ rank }) => rank)
const said = ({ warnings }: Awaited<ReturnType<typeof readTraces>>, kind: string): string[] =>
  warnings.filter((one) => one.class === kind).map(({ message }) => message)

describe('paths', () => {
  it('are files, folders with their subfolders, and patterns; other files are passed over', async () => {
    put('rank0.json', trace())
    put('rank1.json.gz', gzipSync(JSON.stringify(trace())))
    put('below/rank2.pt.trace.json', trace())
    put('below/deeper/rank3.json', trace())
    put('notes.txt', 'no trace')
    expect(numbers(await readTraces([folder]))).toEqual([0, 1, 2])
    expect(numbers(await readTraces([join(folder, '*.json')]))).toEqual([0])
    expect(numbers(await readTraces([join(folder, '**', '*.json')]))).toEqual([0, 2, 3])
    expect(numbers(await readTraces([join(folder, 'rank[01].json{,.gz}')]))).toEqual([0, 1])
    expect(numbers(await readTraces([join(folder, 'bel?w')]))).toEqual([2, 3])
    const twice = await readTraces([join(folder, 'rank0.json'), join(folder, '*.json')])
    expect([numbers(twice), said(twice, 'duplicate-rank')]).toEqual([[0], []])
  })

  it.each([
    ['rank*.json', 'rank10.json', true],
    ['rank?.json', 'rank10.json', false],
    ['rank[0-9].json', 'rank7.json', true],
    ['rank[!0-9].json', 'rank7.json', false],
    ['rank[^0].json', 'rank7.json', true],
    ['a.b', 'aXb', false],
    ['(a)+', '(a)+', true],
    ['[z-a]', 'z', false],
    ['a[', 'a[', true],
  ])('the pattern %s and the name %s', (pattern, name, match) => {
    expect(partPattern(pattern).test(name)).toBe(match)
  })

  it('braces expand, also nested and unclosed ones', () => {
    expect(expandBraces('a{b,c{d,e}}f')).toEqual(['abf', 'acdf', 'acef'])
    expect(expandBraces('a{b')).toEqual(['a{b'])
  })
})

describe('what leaves nothing to audit is refused in one line', () => {
  const refused = async (inputs: string[], options = {}): Promise<string> => {
    const error = await readTraces(inputs, options).then(
      () => new Error('it was not refused'),
      (reason: unknown) => reason as Error,
    )
    expect(error).toBeInstanceOf(AuditError)
    expect(error.message).not.toContain('\n')
    return error.message
  }

  it('a path, a pattern or a folder without a trace', async () => {
    expect(await refused([join(folder, 'absent.json')])).toContain('no such file')
    expect(await refused([join(folder, '*.json')])).toContain('no file matches')
    expect(await refused([folder])).toContain('no trace found in this folder')
    expect(await refused([])).toContain('nothing to audit')
  })

  it('files without an event of a device', async () => {
    expect(await refused([put('a.json', { traceEvents: [launch(1)] })])).toContain(
      'host events but no GPU events',
    )
    expect(await refused([put('b.json', { traceEvents: [] })])).toContain('no GPU events found')
    expect(await refused([put('c.json', '')])).toContain('this is empty')
    // The error about a file that is clearly not a trace mentions no damaged position.
    expect(await refused([put('d.json', 'hello')])).toMatch(
      /this is a text file, no trace; give traces of [^;]*$/,
    )
    expect(await refused([put('d.json', 'hello')])).not.toContain('byte')
    const cut = '{"traceEvents": [{"ph": "X", "cat": "ker'
    expect(await refused([put('cut/d.json', cut)])).toContain('this is cut off before its first event')
    expect(await refused([put('e.sqlite', 'SQLite format 3\0 and then nothing')])).toContain('e.sqlite')
    expect(await refused([put('f.nsys-rep', 'binary')])).toContain('nsys export --type sqlite')
    expect(await refused([folder])).toContain('6 files')
  })

  it('a trace whose host events are cut off before the first GPU event, with advice about the cut', async () => {
    const host = { ph: 'X', cat: 'cpu_op', name: 'aten::mm', pid: 1, tid: 1, ts: 1, dur: 5 }
    const cut = JSON.stringify({ traceEvents: [host, host] }).slice(0, -20)
    const message = await refused([put('host/g.json', cut)])
    expect(message).toContain('cut off')
    expect(message).not.toContain('record the GPU')
  })

  it('a rank for one file of several ranks', async () => {
    const several = { traceEvents: [launch(1), kernel(1), launch(2), kernel(2, 10, 1)] }
    expect(await refused([put('rank9.json', several)], { rank: 1 })).toMatch(/rank9\.json has 2 ranks/)
  })

  it('a rank for several files', async () => {
    put('a.json', trace())
    put('b.json', trace())
    expect(await refused([folder], { rank: 3 })).toContain('single')
  })
})

describe('ranks', () => {
  it('come from the trace, the name, the folder, the option', async () => {
    const inTrace = await readTraces([put('rank9.json', trace(2))])
    expect(numbers(inTrace)).toEqual([2])
    expect(numbers(await readTraces([put('job_rank9.json', trace())]))).toEqual([9])
    expect(numbers(await readTraces([put('rank_3/trace.json', trace())]))).toEqual([3])
    const option = await readTraces([put('trace.json', trace())], { rank: 6 })
    expect([numbers(option), said(option, 'rank')]).toEqual([[6], []])
    const ignored = await readTraces([put('rank9.json', trace(2))], { rank: 6 })
    expect(said(ignored, 'rank')).toEqual(['rank 6 was given and is not used: the trace has rank 2'])
    const named = await readTraces([put('job_rank9.json', trace())], { rank: 6 })
    expect(said(named, 'rank')).toEqual(["rank 6 was given and is not used: the file's name states rank 9"])
    const same = await readTraces([put('rank9.json', trace(2))], { rank: 2 })
    expect(said(same, 'rank')).toEqual([])
  })

  it('recorded twice: the second copy is left out, and both files are named', async () => {
    put('a.json', trace(4))
    put('b.json', trace(4))
    const read = await readTraces([folder])
    expect(numbers(read)).toEqual([4])
    expect(read.sources.map(({ ranks }) => ranks)).toEqual([[4], []])
    expect(said(read, 'duplicate-rank')).toEqual([
      'b.json: this is a copy of rank 4 in a.json and is left out',
    ])
  })

  it('without a stated number get the next free numbers', async () => {
    put('a.json', trace())
    put('b.json', trace(0))
    put('c.json', trace())
    const read = await readTraces([folder])
    expect(read.sources.map(({ ranks }) => ranks)).toEqual([[1], [0], [2]])
    expect(said(read, 'rank').map((message) => message.slice(0, 2))).toEqual(['a.', 'c.'])
  })

  it('that are missing are named', async () => {
    put('a.json', trace(0, 128))
    put('b.json', trace(1, 128))
    expect(said(await readTraces([folder]), 'missing-ranks')).toEqual(['there is no trace of ranks 2-127'])
    const gap = await readTraces([put('rank2.json', trace())])
    expect(said(gap, 'missing-ranks')).toEqual(['there is no trace of ranks 0-1'])
    expect(ranges([1, 3, 4, 5, 9])).toBe('1, 3-5, 9')
  })

  it('of files with the same name are distinguished by their folders', async () => {
    put('rank_0/trace.json', { traceEvents: [kernel(1)] })
    put('rank_1/trace.json', { traceEvents: [kernel(1)] })
    expect(said(await readTraces([folder]), 'correlation')).toEqual([
      `${join('rank_0', 'trace.json')}: device work without the host call that enqueued it`,
      `${join('rank_1', 'trace.json')}: device work without the host call that enqueued it`,
    ])
  })

  it('without a device are kept beside others; a file without ranks is named', async () => {
    put('rank0.json', trace())
    put('rank1.json', { traceEvents: [launch(1)] })
    put('rank2.json', 'nothing')
    const read = await readTraces([folder])
    expect(numbers(read)).toEqual([0, 1])
    expect(said(read, 'no-events')).toEqual([
      expect.stringContaining('rank2.json: it is a text file, no trace; give traces of') as string,
    ])
  })
})

describe('several ranks in one document', () => {
  it('each device is a rank, with the threads that launched on it', async () => {
    const read = await readTraces([
      put('trace.json', {
        deviceProperties: [
          { id: 0, name: 'NVIDIA A100' },
          { id: 1, name: 'NVIDIA H100' },
        ],
        traceEvents: [
          launch(1, 0, 11),
          launch(2, 1, 12),
          launch(3, 3, 13),
          launch(4, 5, 13),
          kernel(1, 20, 0),
          kernel(2, 30, 1),
          kernel(3, 40, 0),
          kernel(4, 50, 1),
          { ph: 'X', cat: 'cpu_op', name: 'idle', pid: 1, tid: 14, ts: 0, dur: 2, args: {} },
        ],
      }),
    ])
    expect(numbers(read)).toEqual([0, 1])
    expect(said(read, 'several-ranks')).toEqual([
      'the trace has kernels on devices 0, 1; each device is treated as a rank',
    ])
    const [first, second] = read.timeline.ranks
    expect([first.device, second.device]).toEqual(['NVIDIA A100', 'NVIDIA H100'])
    expect(threads(first).map(({ id }) => id)).toEqual([11, 13, 14])
    expect(threads(second).map(({ id }) => id)).toEqual([12, 13, 14])
    for (const rank of read.timeline.ranks) {
      const [stream] = streams(rank)
      expect(stream.to - stream.from).toBe(2)
      const { launch: link, start } = rank.events
      // Kernels 1 to 4 start at 20 to 50 us; the host calls that launch them start at 0, 1, 3 and 5 us.
      const ahead = [...link.subarray(stream.from, stream.to)].map(
        (call, i) => (start[stream.from + i] - start[call]) / 1000,
      )
      expect(ahead).toEqual(rank === first ? [20, 37] : [29, 45])
    }
  })

  it('with a rank of its own, the first device has it and the others the next free ones', async () => {
    put('a.json', { ...trace(5), traceEvents: [kernel(1, 0, 0), kernel(2, 0, 1)] })
    put('b.json', trace(1))
    expect((await readTraces([folder])).sources.map(({ ranks }) => ranks)).toEqual([[5, 0], [1]])
  })

  it('several processes on one device are worth a warning', async () => {
    const read = await readTraces([
      put('trace.json', {
        traceEvents: [launch(1, 0, 1, 70), launch(2, 0, 1, 71), kernel(1), kernel(2, 20)],
      }),
    ])
    expect(numbers(read)).toEqual([0])
    expect(said(read, 'several-ranks')[0]).toContain('processes 70, 71 all launch on device 0')
  })
})

describe('other forms of a Chrome trace', () => {
  it('begin and end pairs, nested, as a bare array', async () => {
    const { ph: _, dur: __, ...begun } = kernel(1, 10.5)
    const events = [
      launch(1),
      { ph: 'B', cat: 'cpu_op', name: 'outer', pid: 1, tid: 1, ts: 0 },
      { ph: 'B', cat: 'unknown', name: 'inner', pid: 1, tid: 1, ts: 1 },
      { ph: 'E', pid: 1, tid: 1, ts: 2 },
      { ph: 'E', pid: 1, tid: 1, ts: 3.25 },
      { ...begun, ph: 'B' },
      { ph: 'E', pid: 0, tid: 7, ts: 15.75 },
      { ph: 'E', pid: 0, tid: 7, ts: 16 },
      { ph: 'B', cat: 'kernel', name: 'open', pid: 0, tid: 7, ts: 20 },
    ]
    const read = await readTraces([put('rank0.json', JSON.stringify(events))])
    const [{ events: found }] = read.timeline.ranks
    expect(found.length).toBe(3)
    const work = found.kind.indexOf(Kind.kernel)
    expect(found.duration[work]).toBe(5250)
    expect(found.kind[found.launch[work]]).toBe(Kind.launch)
    expect(found.duration[found.kind.indexOf(Kind.operator)]).toBe(3250)
    expect(read.warnings.map((one) => [one.class, one.count])).toEqual([['time', 2]])
  })
})

describe('reading on threads', () => {
  const traces = [0, 1, 2, 3].map(
    (rank) => makeTrace({ seed: rank + 1, kernels: 100 * (rank + 1), rank }).text,
  )

  it('gives the same result as reading one file after the other, and the same final progress', async () => {
    traces.forEach((text, rank) => put(`r${rank}.json`, rank % 2 === 0 ? text : gzipSync(text)))
    const read = async (count: number) => {
      let [done, all] = [0, 0]
      const result = await readTraces([folder], {
        threads: count,
        onProgress: (bytes, total) => {
          expect(bytes).toBeGreaterThanOrEqual(done)
          ;[done, all] = [bytes, total]
        },
      })
      expect(done).toBe(all)
      return { ...result, timeline: contents(result.timeline) }
    }
    const alone = await read(1)
    expect(alone.timeline.map(({ number, device }) => [number, device])).toEqual(
      [0, 1, 2, 3].map((rank) => [rank, 'NVIDIA H100']),
    )
    expect(await read(3)).toEqual(alone)
  })

  it('happens on the worker threads', async () => {
    const tasks = traces.map((text, rank) => ({
      path: put(`r${rank}.json`, text),
      rank: undefined,
      bytes: 1,
    }))
    let answered = 0
    const files = await readFiles(
      tasks,
      2,
      () => undefined,
      () => startWorker().on('message', (answer: object) => (answered += Number('file' in answer))),
    )
    expect(answered).toBe(4)
    expect(files.map(({ ranks }) => ranks[0].timeline.rank)).toEqual([0, 1, 2, 3])
  })

  it('continues on the main thread if a worker thread dies or cannot be started', async () => {
    const tasks = traces.map((text, rank) => ({
      path: put(`r${rank}.json`, text),
      rank: undefined,
      bytes: 1,
    }))
    const expected = await readFiles(tasks, 1, () => undefined)
    const dies = (): Worker => new Worker('process.exit(1)', { eval: true })
    const throws = (): Worker => new Worker('throw new Error("no")', { eval: true })
    const absent = (): Worker => {
      throw new Error('no threads')
    }
    for (const start of [dies, throws, absent])
      expect(await readFiles(tasks, 2, () => undefined, start)).toEqual(expected)
    let started = 0
    const works = await readFiles(
      tasks,
      2,
      () => undefined,
      () => {
        if (started++ === 0) return dies()
        throw new Error('no more')
      },
    )
    expect(works).toEqual(expected)
  })
})
