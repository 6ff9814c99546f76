/**
 * How fast traces are read.   npx tsx bench/audit.ts [--json]
 *
 * A generated trace as PyTorch writes it, uncompressed and in memory: scanned, read to a linked timeline, and, beside
 * it and in turns, given whole to `JSON.parse`, which is what there is without a reader of our own.
 */
import { readKineto } from '../src/audit/kineto.ts'
import { TraceScanner } from '../src/audit/json/scanner.ts'
import { Warnings } from '../src/timeline/warnings.ts'
import { roleOf } from '../src/audit/kinetoDocument.ts'
import { TimelineBuilder } from '../src/timeline/builder.ts'
import { makeTrace } from '../test/audit/trace.ts'
import { measure, present } from './measure.ts'

const bytes = Buffer.from(makeTrace({ kernels: 25_000, python: 6 }).text)
const megabytes = bytes.length / 1e6
const rate = (start: number): number => (megabytes * 1000) / (performance.now() - start)

function scan(): number {
  const start = performance.now()
  const warnings = new Warnings()
  let events = 0
  const sink = {
    accept: (phase: string, category: string) => phase === 'X' && roleOf(category) !== undefined,
    event: () => void events++,
  }
  const scanner = new TraceScanner(sink, warnings)
  for (let at = 0; at < bytes.length; at += 1 << 20) scanner.push(bytes.subarray(at, at + (1 << 20)))
  scanner.end()
  if (events !== 75_000 || warnings.list().length > 0) throw new Error(`${events} events`)
  return rate(start)
}

async function readTimeline(): Promise<number> {
  const start = performance.now()
  const builder = new TimelineBuilder()
  const { warnings } = await readKineto(bytes, builder)
  const { ranks } = builder.freeze()
  if (ranks[0].events.length !== 75_000 || warnings.length > 0)
    throw new Error(`${ranks[0].events.length} events`)
  return rate(start)
}

function parseWhole(): number {
  const start = performance.now()
  const { traceEvents } = JSON.parse(bytes.toString()) as { traceEvents: unknown[] }
  if (traceEvents.length < 75_000) throw new Error(`${traceEvents.length} events`)
  return rate(start)
}

const goal = { text: 'at least 100', reached: (median: number) => median >= 100 }
const figures = await measure(
  [
    { name: 'scan the wanted events', unit: 'MB/s', sample: scan, goal },
    { name: 'read to a linked timeline', unit: 'MB/s', sample: readTimeline, goal },
    { name: 'JSON.parse of the whole, for comparison', unit: 'MB/s', sample: parseWhole },
  ],
  15,
)
present(`Reading a trace of ${megabytes.toFixed(0)} MB`, figures)
