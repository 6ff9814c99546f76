/**
 * Measures how fast the audit reads traces:
 *
 *   npx tsx bench/audit.ts [--json] [--rounds N]
 *
 * On one core, the benchmark scans a generated trace in PyTorch's format, uncompressed and in memory, and also reads
 * the trace into a linked timeline. Real traces are also read, if a folder with traces lies next to this checkout. The
 * benchmark also measures `JSON.parse` on the same trace as a whole, in rounds that are interleaved with those of
 * Arke's reader. On two cores, the benchmark reads several trace files from disk. Finally, the benchmark computes the
 * ledger (how each rank spends its time) of a trace with a million events.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { readKineto } from '../src/audit/kineto.ts'
import { roleOf } from '../src/audit/kinetoDocument.ts'
import { TraceScanner } from '../src/audit/json/scanner.ts'
import type * as Open from '../src/audit/open.ts'
import { audit } from '../src/taxes/audit.ts'
import { TimelineBuilder } from '../src/timeline/builder.ts'
import { Warnings } from '../src/timeline/warnings.ts'
import { makeTrace } from '../test/audit/trace.ts'
import { makeSample } from '../test/report/sample.ts'
import { measure, present, type Variant } from './measure.ts'

const at = process.argv.indexOf('--rounds')
const rounds = at > 0 ? Number(process.argv[at + 1]) : 9
const FILES = 8

const generated = Buffer.from(makeTrace({ kernels: 25_000, python: 6 }).text)
const rate = (bytes: number, start: number): number => bytes / 1000 / (performance.now() - start)

function scan(): number {
  const start = performance.now()
  const warnings = new Warnings()
  let events = 0
  const sink = {
    accept: (phase: string, category: string) => phase === 'X' && roleOf(category) !== undefined,
    event: () => void events++,
  }
  const scanner = new TraceScanner(sink, warnings)
  for (let from = 0; from < generated.length; from += 1 << 20)
    scanner.push(generated.subarray(from, from + (1 << 20)))
  scanner.end()
  if (events !== 75_000 || warnings.list().length > 0) throw new Error(`${events} events`)
  return rate(generated.length, start)
}

async function readTimeline(bytes: Uint8Array): Promise<number> {
  const start = performance.now()
  const builder = new TimelineBuilder()
  await readKineto(bytes, builder)
  const { ranks } = builder.freeze()
  if (ranks[0].events.length === 0) throw new Error('no events')
  return rate(bytes.length, start)
}

function parseWhole(bytes: Buffer): number {
  const start = performance.now()
  const { traceEvents } = JSON.parse(bytes.toString()) as { traceEvents: unknown[] }
  if (traceEvents.length === 0) throw new Error('no events')
  return rate(bytes.length, start)
}

const shared = fileURLToPath(new URL('../../shared/traces/kineto', import.meta.url))
const real = existsSync(shared)
  ? readdirSync(shared)
      .filter((name) => /^(a100|b200|h100|mi300x).*\.gz$/.test(name))
      .map((name) => ({ name, bytes: gunzipSync(readFileSync(join(shared, name))) }))
  : []
if (real.length === 0)
  console.error('The real traces are not next to this checkout, so they are not measured.')

// The benchmark reads traces with built code, as users do, because the reader's threads then start faster.
const built = fileURLToPath(new URL('../dist/audit/open.js', import.meta.url))
if (!existsSync(built)) console.error('dist/ is missing (run npm run build), so threads start from source.')
const { readTraces } = (await import(existsSync(built) ? built : '../src/audit/open.ts')) as typeof Open

const folder = mkdtempSync(join(tmpdir(), 'arke-bench-'))
for (let rank = 0; rank < FILES; rank++)
  writeFileSync(join(folder, `rank${rank}.json`), makeTrace({ kernels: 75_000, python: 6, rank }).text)

async function readFolder(threads: number): Promise<number> {
  const start = performance.now()
  const { timeline, sources } = await readTraces([folder], { threads })
  if (timeline.ranks.length !== FILES) throw new Error(`${timeline.ranks.length} ranks`)
  return rate(
    sources.reduce((sum, { bytes }) => sum + bytes, 0),
    start,
  )
}

const million = makeSample({ ranks: 8, steps: 40, layers: 64, kernels: 48 }).timeline
function attribute(): number {
  const start = performance.now()
  if (audit(million, new Warnings()).ranks.length !== 8) throw new Error('the audit did not find all 8 ranks')
  return (performance.now() - start) / 1000
}

const atLeast = (least: number): Variant['goal'] => ({
  text: `at least ${least}`,
  reached: (median) => median >= least,
})
try {
  const figures = await measure(
    [
      { name: 'scan the wanted events', unit: 'MB/s', sample: scan, goal: atLeast(100) },
      {
        name: 'read to a linked timeline',
        unit: 'MB/s',
        sample: () => readTimeline(generated),
        goal: atLeast(100),
      },
      { name: 'JSON.parse of the same bytes', unit: 'MB/s', sample: () => parseWhole(generated) },
      ...real.flatMap(({ name, bytes }): Variant[] => [
        { name: `read ${name}`, unit: 'MB/s', sample: () => readTimeline(bytes), goal: atLeast(100) },
        { name: '  JSON.parse of it', unit: 'MB/s', sample: () => parseWhole(bytes) },
      ]),
      {
        name: `read ${FILES} files, one thread`,
        unit: 'MB/s',
        sample: () => readFolder(1),
        goal: atLeast(100),
      },
      {
        name: `read ${FILES} files, two threads`,
        unit: 'MB/s',
        sample: () => readFolder(2),
        goal: atLeast(180),
      },
      { name: 'the ledger of a million events', unit: 's', sample: attribute },
    ],
    rounds,
  )
  present(
    `Reading traces (generated: ${(generated.length / 1e6).toFixed(0)} MB in memory, three times as much per file)`,
    figures,
  )
} finally {
  rmSync(folder, { recursive: true, force: true })
}
