/**
 * rocprofv3 JSON is read into the timeline, whatever the order of its sections and the size of the pieces that are
 * read.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { JsonWalker, type Visit } from '../../src/audit/json/walker.ts'
import { readRocprof } from '../../src/audit/rocprof.ts'
import { eventsOf, Kind, NONE, streams, threads } from '../../src/timeline/timeline.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { root } from '../docs/snippets.ts'
import { random } from './trace.ts'

const handle = (number: number) => ({ handle: number })
const record = (
  kind: number,
  operation: number,
  correlation: number,
  start: number,
  end: number,
  more = {},
) => ({
  kind,
  operation,
  thread_id: 33,
  correlation_id: { internal: correlation, external: 0 },
  start_timestamp: 63_857_982_000_000 + start,
  end_timestamp: 63_857_982_000_000 + end,
  ...more,
})
const dispatch = (agent: number, kernel: number, queue = 1) => ({
  dispatch_info: { agent_id: handle(agent), queue_id: handle(queue), kernel_id: kernel },
})

/** A process with two GPUs. */
const parts = {
  metadata: { pid: 32 },
  agents: [
    { id: handle(900), type: 1, name: 'a CPU' },
    { id: handle(901), type: 2, product_name: 'AMD Instinct MI300X', logical_node_type_id: 0 },
    { id: handle(902), type: 2, product_name: 'AMD Instinct MI300X', logical_node_type_id: 1 },
  ],
  strings: {
    buffer_records: [
      { kind: 'NONE', operations: [] },
      { kind: 'HIP_RUNTIME_API', operations: ['hipLaunchKernel', 'hipMemcpyAsync', 'hipDeviceSynchronize'] },
      { kind: 'MEMORY_COPY', operations: ['MEMORY_COPY_NONE', 'MEMORY_COPY_HOST_TO_DEVICE'] },
      { kind: 'MARKER_CORE_API', operations: ['roctxThreadRangeA'] },
    ],
    marker_api: [
      { key: 70, value: 'step 3' },
      { key: 71, value: 'forward' },
    ],
  },
  kernel_symbols: [
    { kernel_id: 4, formatted_kernel_name: 'Cijk_Ailk', kernel_name: 'Cijk_Ailk.kd' },
    { kernel_id: 5, formatted_kernel_name: 'ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)' },
    { kernel_id: 6, formatted_kernel_name: '__amd_rocclr_fillBufferAligned' },
  ],
  buffer_records: {
    kernel_dispatch: [
      record(9, 2, 50, 1000, 1500, { ...dispatch(901, 4), stream_id: handle(7) }),
      record(9, 2, 51, 1600, 1700, { ...dispatch(901, 6), stream_id: handle(7) }),
      record(9, 2, 52, 1000, 1900, dispatch(902, 5, 16)),
      record(9, 2, 99, 2000, 2100, dispatch(902, 77, 16)),
    ],
    hip_api: [
      record(1, 0, 50, 100, 120),
      record(1, 0, 51, 130, 150),
      record(1, 0, 52, 160, 180, { thread_id: 34 }),
      record(1, 1, 53, 190, 200),
      record(1, 2, 54, 210, 3000),
    ],
    memory_copy: [
      record(2, 1, 53, 1800, 1850, { src_agent_id: handle(900), dst_agent_id: handle(901), bytes: 4096 }),
    ],
    marker_api: [record(3, 0, 70, 50, 3100), record(3, 0, 71, 90, 155)],
  },
}

const read = (document: unknown) =>
  readRocprof(Buffer.from(typeof document === 'string' ? document : JSON.stringify(document)))
const documentOf = (keys: readonly (keyof typeof parts)[]) => ({
  'rocprofiler-sdk-tool': [Object.fromEntries(keys.map((key) => [key, parts[key]]))],
})
const everything = Object.keys(parts) as (keyof typeof parts)[]

describe('a process with two GPUs', () => {
  it('is read as two ranks, whatever the order of the parts in the file', async () => {
    for (const keys of [everything, [...everything].reverse()]) {
      const { ranks, names, warnings, format } = await read(documentOf(keys))
      expect(format).toBe('rocprof')
      expect(warnings.map((one) => [one.class, one.count])).toEqual([['correlation', 1]])
      expect(ranks.map(({ timeline, origin }) => [timeline.rank, origin, timeline.device])).toEqual([
        [0, 'device', 'AMD Instinct MI300X'],
        [1, 'device', 'AMD Instinct MI300X'],
      ])
      const [first, second] = ranks.map(({ timeline }) => timeline)
      const { events } = first
      const stream = streams(first).find(({ id }) => id === 7)
      const [kernel, fill] = stream ? [...eventsOf(stream)] : []
      expect([events.kind[kernel], events.kind[fill]]).toEqual([Kind.kernel, Kind.memset])
      expect(names[events.name[kernel]]).toBe('Cijk_Ailk')
      expect(first.base + BigInt(events.start[kernel])).toBe(63_857_982_001_000n)
      expect(events.duration[kernel]).toBe(500)
      expect(names[events.name[events.launch[kernel]]]).toBe('hipLaunchKernel')
      expect(first.base + BigInt(events.start[events.launch[fill]])).toBe(63_857_982_000_130n)
      const copy = events.kind.indexOf(Kind.memcpy)
      expect([events.bytes.get(copy), names[events.name[copy]]]).toEqual([4096, 'MEMORY_COPY_HOST_TO_DEVICE'])
      expect(names[events.name[events.launch[copy]]]).toBe('hipMemcpyAsync')
      expect(threads(first).map(({ owner, id }) => [owner, id])).toEqual([[32, 33]])
      expect([...events.kind].filter((kind) => kind === Kind.step)).toHaveLength(1)
      expect([...events.kind].filter((kind) => kind === Kind.annotation)).toHaveLength(1)

      expect(threads(second).map(({ id }) => id)).toEqual([34])
      const [nccl, unknown] = [...eventsOf(streams(second)[0])]
      expect(streams(second)[0].id).toBe(16)
      expect(second.communications[second.events.communication[nccl]]).toMatchObject({ library: 'nccl' })
      expect(names[second.events.name[unknown]]).toBe('kernel 77')
      expect(second.events.launch[unknown]).toBe(NONE)
    }
  })

  it('yields its readable part and a warning if truncated or damaged, without a throw or a hang', async () => {
    const text = JSON.stringify(documentOf(everything))
    const draw = random(4)
    for (let i = 0; i < 300; i++) {
      const cut = await read(text.slice(0, 1 + draw(text.length - 1)))
      expect(cut.warnings.map((one) => one.class)).toContain('truncated')
      const damaged = Buffer.from(text)
      for (let n = 0; n <= draw(5); n++) damaged[draw(damaged.length)] = 32 + draw(96)
      await readRocprof(damaged)
    }
    const bad = await read(text.replace('"end_timestamp":63857982001500', '"end_timestamp":x'))
    expect(bad.warnings.map((one) => one.class)).toContain('garbage')
    expect(bad.ranks).toHaveLength(2)
  })

  it('may have absent times and negative durations', async () => {
    const backwards = [
      record(9, 2, 50, 1000, 900, dispatch(901, 4)),
      record(9, 2, 51, 1600, 1700, { ...dispatch(901, 4), start_timestamp: undefined }),
    ]
    const { ranks, warnings } = await read({
      'rocprofiler-sdk-tool': [{ ...parts, buffer_records: { kernel_dispatch: backwards } }],
    })
    expect(ranks[0].timeline.events.length).toBe(1)
    expect(warnings.map((one) => one.class)).toEqual(['negative-duration', 'time', 'correlation'])
  })
})

describe('walking through JSON', () => {
  it('gives the values that JSON.parse finds, whatever the pieces', () => {
    fc.assert(
      fc.property(
        fc.json({ maxDepth: 4 }),
        fc.integer({ min: 1, max: 9 }),
        fc.nat(3),
        (text, size, depth) => {
          const seen: [string, unknown][] = []
          const walker = new JsonWalker(
            {
              visit: (path): Visit =>
                path.length < depth ? 'enter' : path.length % 3 === 2 ? 'skip' : 'take',
              value: (path, value) => seen.push([path.join('/'), JSON.parse(value)]),
              leave: () => undefined,
            },
            new Warnings(),
          )
          const bytes = Buffer.from(text)
          for (let at = 0; at < bytes.length; at += size) walker.push(bytes.subarray(at, at + size))
          walker.end()

          const expected: [string, unknown][] = []
          const go = (path: string[], value: unknown): void => {
            const isContainer = typeof value === 'object' && value !== null
            if (path.length < depth) {
              if (Array.isArray(value)) for (const one of value) go([...path, '*'], one)
              else if (isContainer) for (const [key, one] of Object.entries(value)) go([...path, key], one)
            } else if (path.length % 3 !== 2) expected.push([path.join('/'), value])
          }
          go([], JSON.parse(text))
          // The end of a scalar at the top level of a JSON text is the end of the input, which the walker cannot know.
          if (depth === 0 && /^[^[{"]/.test(text)) return
          const sorted = (list: [string, unknown][]): string[] =>
            list.map((one) => JSON.stringify(one)).sort()
          expect(sorted(seen)).toEqual(sorted(expected))
        },
      ),
      { seed: 9, numRuns: 500 },
    )
  })
})

const real = join(root, '../shared/traces/rocprof/dispatches.json.gz')
const here = existsSync(real)
if (!here) console.log('skipped: the real traces are not beside this checkout')

describe.skipIf(!here)('a real file', () => {
  it('has all 43,915 dispatches, with the times that JSON.parse shows', async () => {
    interface Dispatch {
      start_timestamp: number
      end_timestamp: number
      dispatch_info: { kernel_id: number }
    }
    const [process] = (
      JSON.parse(gunzipSync(readFileSync(real)).toString()) as {
        'rocprofiler-sdk-tool': {
          kernel_symbols: { kernel_id: number; formatted_kernel_name: string }[]
          buffer_records: { kernel_dispatch: Dispatch[] }
        }[]
      }
    )['rocprofiler-sdk-tool']
    const dispatches = process.buffer_records.kernel_dispatch
    const { ranks, warnings } = await readRocprof(real)
    expect(ranks).toHaveLength(1)
    const [{ timeline }] = ranks
    expect(timeline.device).toBe('AMD Instinct MI350X')
    expect(timeline.events.length).toBe(43_915)
    expect([...timeline.events.duration].reduce((sum, one) => sum + one, 0)).toBe(
      dispatches.reduce((sum, one) => sum + one.end_timestamp - one.start_timestamp, 0),
    )
    const symbols = new Map(process.kernel_symbols.map((one) => [one.kernel_id, one.formatted_kernel_name]))
    const nccl = dispatches.filter((one) => symbols.get(one.dispatch_info.kernel_id)?.startsWith('nccl'))
    expect(timeline.events.kind.filter((kind) => kind === Kind.communication)).toHaveLength(nccl.length)
    expect(timeline.base).toBe(BigInt(Math.min(...dispatches.map((one) => one.start_timestamp))))
    expect(warnings.map((one) => [one.class, one.count])).toEqual([['correlation', 43_915]])
  })
})
