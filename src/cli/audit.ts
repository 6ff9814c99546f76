/** `arke audit`: traces to a document, a screen of text, an HTML page and a merged trace. */
import { createWriteStream, existsSync, readFileSync, statSync } from 'node:fs'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { demoTraces } from '../audit/demo/demo.ts'
import { AuditError, readTraces } from '../audit/open.ts'
import { compare, comparisonTable } from '../report/compare.ts'
import type { AuditDocument } from '../report/document.ts'
import { bytes, percent } from '../report/format.ts'
import { screen } from '../report/terminal.ts'
import { toDocument } from '../report/toDocument.ts'
import { type Audit, audit } from '../taxes/audit.ts'
import { stepsOf } from '../taxes/steps.ts'
import { ranges } from '../timeline/ranges.ts'
import type { Timeline } from '../timeline/timeline.ts'
import { type Warning, type WarningClass, Warnings } from '../timeline/warnings.ts'
import { UsageError } from './errors.ts'
import type { Progress } from './progress.ts'

export interface AuditCommand {
  readonly demo?: boolean
  /** As `a..b` or `a`. */
  readonly steps?: string
  readonly json?: boolean
  /** A path, or false for none; undefined for the usual one. */
  readonly html?: string | false
  readonly trace?: string
  readonly compare?: string
  readonly rank?: number
  /** Gigabytes a second. */
  readonly bandwidth?: number
}

const usualReport = 'arke-report.html'

interface Audited {
  readonly document: AuditDocument
  readonly timeline: Timeline
  readonly audit: Audit
}

export async function auditCommand(
  paths: readonly string[],
  command: AuditCommand,
  version: string,
  print: (text: string) => void,
  progress: Progress,
): Promise<void> {
  if (command.demo && paths.length > 0)
    throw new UsageError(`--demo makes its own traces; leave out ${paths[0]} or --demo`)
  if (!command.demo && paths.length === 0)
    throw new UsageError('name a trace, a folder or a glob; or try: arke audit --demo')
  const audited = command.demo
    ? await auditDemo(command, version, progress)
    : await auditPaths(paths, command, version, progress)
  const { document } = audited

  if (command.compare !== undefined) {
    const other = await otherDocument(command.compare, command, version, progress)
    const comparison = compare(document, other)
    if (command.json) print(JSON.stringify({ ...document, compared: { comparison, with: other } }))
    else {
      for (const line of comparisonTable(comparison)) print(line)
      print(`\nBefore: ${document.summary.join(' ')}\n\nAfter: ${other.summary.join(' ')}`)
    }
  } else if (command.json) print(JSON.stringify(document))
  else for (const line of screen(document)) print(line)

  // A program that reads JSON has not asked for a page.
  const html = command.html ?? (command.json ? false : usualReport)
  const said: string[] = []
  if (html !== false) {
    const { writeReport } = await import('../report/html.ts')
    progress.show(() => `writing ${html}`)
    await write(html, writeReport({ ...audited, ...audited.audit }))
    said.push(`${html} (open it in a browser)`)
  }
  if (command.trace !== undefined) {
    const { writeChrome } = await import('../timeline/chrome.ts')
    const corrections = new Map(audited.audit.clocks.map(({ rank, correction }) => [rank, correction]))
    const offset = (rank: number): number => Math.round(corrections.get(rank) ?? 0)
    await write(command.trace, writeChrome(audited.timeline, { offset }))
    said.push(`${command.trace} (open it in ui.perfetto.dev)`)
  }
  progress.clear()
  if (!command.json && said.length > 0) print(`\nWritten: ${said.join(', ')}`)
}

/** The demo's traces go through files, as everybody's do. */
async function auditDemo(command: AuditCommand, version: string, progress: Progress): Promise<Audited> {
  const folder = await mkdtemp(join(tmpdir(), 'arke-demo-'))
  try {
    for (const { name, text } of demoTraces()) await writeFile(join(folder, name), text)
    const audited = await auditPaths([folder], command, version, progress)
    const sources = audited.document.sources.map((source) => ({
      ...source,
      path: `demo/${basename(source.path)}`,
    }))
    return { ...audited, document: { ...audited.document, sources } }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function auditPaths(
  paths: readonly string[],
  command: AuditCommand,
  version: string,
  progress: Progress,
): Promise<Audited> {
  const read = await readTraces(paths, {
    rank: command.rank,
    onProgress: (done, all, path) => progress.show(() => `${bar(done, all)} ${bytes(all)}  ${path}`),
  })
  progress.show(() => 'attributing time')
  const warnings = new Warnings()
  const options = {
    steps: command.steps === undefined ? undefined : stepRange(command.steps),
    bandwidth: command.bandwidth === undefined ? undefined : command.bandwidth * 1e9,
    world: read.world ?? undefined,
  }
  const found = audit(read.timeline, warnings, options)
  progress.clear()
  if (found.ranks.length === 0)
    throw new AuditError(
      options.steps
        ? `--steps ${command.steps}: no rank has such a step${stepsThere(read.timeline)}`
        : `${paths.join(', ')}: there is no device work in it; record with ProfilerActivity.CUDA`,
    )
  const document = toDocument({
    timeline: read.timeline,
    audit: found,
    options,
    sources: read.sources,
    warnings: merged(read.warnings, warnings.list()),
    version,
  })
  return { document, timeline: read.timeline, audit: found }
}

/** Leaves out what the reader says and the audit says better: of missing ranks, and of work from before the recording. */
function merged(read: readonly Warning[], found: readonly Warning[]): Warning[] {
  const count = (warnings: readonly Warning[], of: WarningClass): number =>
    warnings.reduce((sum, one) => (one.class === of ? sum + one.count : sum), 0)
  const said = new Set<WarningClass>()
  if (count(found, 'missing-ranks') > 0) said.add('missing-ranks')
  if (count(read, 'correlation') <= count(found, 'before-recording')) said.add('correlation')
  return [...read.filter((one) => !said.has(one.class)), ...found]
}

function stepsThere({ ranks, names }: Timeline): string {
  const { steps } = stepsOf(ranks[0], names, new Warnings())
  return steps.length === 0
    ? '; the trace names none and repeats nothing'
    : `; there are steps ${ranges(steps.map(({ number }) => number))}`
}

/** Another audit: its document, or the traces themselves. */
async function otherDocument(
  path: string,
  command: AuditCommand,
  version: string,
  progress: Progress,
): Promise<AuditDocument> {
  if (existsSync(path) && statSync(path).isFile() && path.endsWith('.json') && statSync(path).size < 64e6) {
    const text = readFileSync(path, 'utf8')
    if (text.startsWith('{"arke":')) {
      const document = JSON.parse(text) as AuditDocument
      if (Array.isArray(document.ranks)) return document
    }
  }
  return (await auditPaths([path], { ...command, demo: false }, version, progress)).document
}

export function stepRange(text: string): readonly [number, number] {
  const found = /^(\d+)(?:\.\.(\d+))?$/.exec(text)
  const first = Number(found?.[1])
  const last = Number(found?.[2] ?? found?.[1])
  if (!found || last < first)
    throw new UsageError(`--steps ${text}: write the first and the last, as in --steps 5..8, or one number`)
  return [first, last]
}

function bar(done: number, all: number): string {
  const width = 24
  const full = all > 0 ? Math.round((width * done) / all) : 0
  return `[${'#'.repeat(full).padEnd(width)}] ${percent(done, all).padStart(7)} of`
}

async function write(path: string, content: string | Iterable<string>): Promise<void> {
  try {
    if (typeof content === 'string') return await writeFile(path, content)
    const stream = createWriteStream(path)
    for (const piece of content) if (!stream.write(piece)) await once(stream, 'drain')
    stream.end()
    await once(stream, 'finish')
  } catch (error) {
    throw new UsageError(`${path}: cannot be written: ${(error as Error).message}`)
  }
}
