/**
 * The traces to corrupt: a slice of each real trace, so that a try is cheap, and small generated traces. The real
 * traces are not part of this repository. Without the real traces, only the generated traces are used.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync, gzipSync } from 'node:zlib'
import { demoJob, demoTraces, tracesOf } from '../../src/audit/demo/demo.ts'
import { layOut } from '../../src/audit/demo/layout.ts'
import { schemas } from '../../src/audit/demo/write.ts'
import { readKineto } from '../../src/audit/kineto.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { writeChrome } from '../../src/timeline/chrome.ts'
import { tar, zip } from './archives.ts'

export interface CorpusItem {
  readonly name: string
  /** The uncompressed bytes. */
  readonly bytes: Uint8Array
  /** The names of the other traces that are audited together with this trace. */
  readonly beside: readonly string[]
  readonly real: boolean
  /** The weight with which tries select this trace; whole files are slow, so their weights are small. */
  readonly weight: number
}

const traces = fileURLToPath(new URL('../../../shared/traces', import.meta.url))
export const haveRealTraces = existsSync(traces)

const SLICE = 120_000

export async function corpus(): Promise<CorpusItem[]> {
  const made = generated()
  return [...(haveRealTraces ? realTraces() : []), ...made, ...archivesOf(made.slice(0, 3)), await ownTrace()]
}

/** Archives that contain the given traces. */
function archivesOf(items: readonly CorpusItem[]): CorpusItem[] {
  const members = items.map(({ name, bytes }) => ({ name, data: bytes }))
  const packed = items.map(({ name, bytes }) => ({ name: `${name}.gz`, data: gzipSync(bytes) }))
  const archives: [string, Uint8Array][] = [
    ['job.tar', tar(members)],
    ['packed.tar', tar(packed.map((one) => ({ ...one, long: 'pax' as const })))],
    ['job.tar.gz', gzipSync(tar(members))],
    ['job.zip', zip(members)],
    ['wide.zip', zip(packed.map((one) => ({ ...one, stored: true, zip64: true })))],
  ]
  return archives.map(([name, bytes]) => ({ name, bytes, beside: [], real: false, weight: 4 }))
}

function realTraces(): CorpusItem[] {
  const items: CorpusItem[] = []
  const add = (name: string, bytes: Uint8Array, weight: number, beside: readonly string[] = []): void => {
    items.push({ name, bytes, beside, real: true, weight })
  }
  const kineto = join(traces, 'kineto')
  for (const file of readdirSync(kineto).filter((name) => name.endsWith('.json.gz'))) {
    const whole = gunzipSync(readFileSync(join(kineto, file)))
    const name = file.replace('.gz', '')
    const other = name.includes('rank0of128') ? [name.replace('rank0', 'rank1')] : []
    add(name, sliceOf(whole.toString()), 10, other)
    if (whole.length < 2 << 20) add(`whole-${name}`, whole, 0.5)
  }
  const rocprof = JSON.parse(
    gunzipSync(readFileSync(join(traces, 'rocprof/dispatches.json.gz'))).toString(),
  ) as Rocprof
  const [tool] = rocprof['rocprofiler-sdk-tool']
  tool.buffer_records.kernel_dispatch = tool.buffer_records.kernel_dispatch.slice(0, 150)
  const used = new Set(tool.buffer_records.kernel_dispatch.map((one) => one.dispatch_info?.kernel_id))
  tool.kernel_symbols = tool.kernel_symbols.filter(({ kernel_id }) => used.has(kernel_id)).slice(0, 20)
  tool.agents = tool.agents.slice(0, 4)
  add('rocprof.json', Buffer.from(JSON.stringify(rocprof)), 12)
  add('nsys.sqlite', readFileSync(join(traces, 'nsys/mfu-2gpu.sqlite')), 4)
  return items
}

interface Rocprof {
  'rocprofiler-sdk-tool': {
    agents: unknown[]
    kernel_symbols: { kernel_id: number }[]
    buffer_records: { kernel_dispatch: { dispatch_info?: { kernel_id?: number } }[] }
  }[]
}

/**
 * The beginning of the trace, a range from the middle of its events (so that it contains device events), and its end.
 */
function sliceOf(text: string): Buffer {
  const from = text.indexOf('[', text.indexOf('"traceEvents"')) + 1
  const to = text.lastIndexOf(']')
  const head = text.slice(0, from)
  const tail = text.slice(to)
  const event = /\{\s*"(ph|name)"/g
  const boundary = (at: number): number => {
    event.lastIndex = at
    return event.exec(text)?.index ?? to
  }
  const kernel = text.indexOf('"cat": "kernel"', from)
  const middle = boundary(Math.max(from, kernel < 0 ? (from + to) >> 1 : kernel - 2000))
  const cut = (begin: number, length: number): string =>
    text.slice(boundary(begin), boundary(Math.min(to, begin + length))).replace(/,\s*$/, '')
  const pieces = [cut(from, SLICE / 3), cut(middle, (2 * SLICE) / 3)].filter((piece) => piece.includes('{'))
  return Buffer.from(head + pieces.join(',') + tail.slice(0, 20_000))
}

/** A small job in every schema; all its ranks are audited together. */
function generated(): CorpusItem[] {
  return schemas.flatMap((schema) => {
    const laid = layOut(demoJob({ layers: 1, steps: 2, unit: schema === '2021' ? 1000 : 1 }))
    return tracesOf(laid, { schema })
      .slice(0, 3)
      .map(({ rank, text }, i): CorpusItem => {
        const called = (number: number): string => `generated-${schema}-rank${number}.json`
        return {
          name: called(rank),
          bytes: Buffer.from(text),
          beside: i === 0 ? [called(1), called(2)] : [],
          real: false,
          weight: i === 0 ? 6 : 1,
        }
      })
  })
}

/** Three ranks in one file, in the format that Arke writes. */
async function ownTrace(): Promise<CorpusItem> {
  const builder = new TimelineBuilder()
  for (const { name, text } of demoTraces({ layers: 1, steps: 1 }).slice(0, 3))
    await readKineto(Buffer.from(text), builder, { name })
  const text = [...writeChrome(builder.freeze())].join('')
  return { name: 'own.json', bytes: Buffer.from(text), beside: [], real: false, weight: 10 }
}
