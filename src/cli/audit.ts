/** `arke audit`: reads traces and writes a JSON document, text for the terminal, an HTML page and a merged trace. */
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { AuditError, readTraces } from '../audit/open.ts'
import { tracePaths } from '../audit/paths.ts'
import { compare, comparisonTable, verdict } from '../report/compare.ts'
import { csvNames, csvTables } from '../report/csv.ts'
import type { AuditDocument } from '../report/document.ts'
import { bytes, percent } from '../report/format.ts'
import { sentenceOf } from '../report/headline.ts'
import { jsonPieces } from '../report/json.ts'
import { isDocument, readDocument } from '../report/readDocument.ts'
import { headlineOf } from '../report/summary.ts'
import { headed, plain, type Style } from '../report/style.ts'
import { screen } from '../report/terminal.ts'
import { toDocument } from '../report/toDocument.ts'
import { breathe, inBreaths, unlessInterrupted } from '../runs/breath.ts'
import { type Audit, auditing } from '../taxes/audit.ts'
import { stepsOf } from '../taxes/steps.ts'
import { ranges } from '../timeline/ranges.ts'
import type { Timeline } from '../timeline/timeline.ts'
import { type Warning, type WarningClass, Warnings } from '../timeline/warnings.ts'
import { UsageError } from './errors.ts'
import { checkOutputs, writeOutput } from './output.ts'
import type { Progress } from './progress.ts'

export interface AuditCommand {
  readonly demo?: boolean
  /** The steps to audit, in the form `a..b` or `a`. */
  readonly steps?: string
  readonly json?: boolean
  readonly out?: string
  /**
   * The path of the HTML page. If the value is false, no page is written; if the value is undefined, the page has the
   * default path.
   */
  readonly html?: string | false
  readonly trace?: string
  readonly compare?: string
  readonly rank?: number
  /** The memory bandwidth in gigabytes per second. */
  readonly bandwidth?: number
  /**
   * Where the audit of each rank begins: `launched` leaves out device work at the beginning whose launch was not
   * recorded.
   */
  readonly window?: 'launched' | 'all'
  /** The folder for tables as CSV files. */
  readonly csv?: string
  /** True if no output may contain names of hosts, paths and users, Python frames or annotations. */
  readonly redact?: boolean
  /**
   * A regular expression; kernels whose names match it count as communication, in addition to those that Arke knows.
   */
  readonly comm?: string
  /** The maximum number of gigabytes that the audit unpacks from archives. */
  readonly unpackLimit?: number
}

const usualReport = 'arke-report.html'

interface Audited {
  readonly document: AuditDocument
  /** The audited timeline, or null if the input was a JSON document of an earlier audit. */
  readonly traces: { readonly timeline: Timeline; readonly audit: Audit } | null
}

/**
 * Runs the audit and prints its result. If `interrupt` is aborted before the result is printed, the function throws an
 * error and prints nothing. `pour` writes a text in chunks, because the text may be too long for one string. Without
 * `pour`, the chunks are joined and passed to `print`.
 */
export async function auditCommand(
  paths: readonly string[],
  command: AuditCommand,
  version: string,
  print: (text: string) => void,
  progress: Progress,
  pour: (pieces: Iterable<string>) => Promise<void> = async (pieces) => print([...pieces].join('').trimEnd()),
  interrupt?: AbortSignal,
  style: Style = plain,
): Promise<void> {
  if (command.demo && paths.length > 0)
    throw new UsageError(`--demo makes its own traces; leave out ${paths[0]} or --demo`)
  if (!command.demo && paths.length === 0)
    throw new UsageError('name a trace, a folder or a glob; or try: arke audit --demo')
  const known = documentIn(paths, command)
  const html = pageOf(command, known !== null)
  const inputs = [paths, command.compare === undefined ? [] : [command.compare]].flatMap((given) =>
    given.every(isDocument) ? given : tracePaths(given),
  )
  checkOutputs({ out: command.out, html: html ?? undefined, trace: command.trace }, inputs)
  const tables = command.csv === undefined ? null : csvFolder(command.csv, inputs)
  const other =
    command.compare !== undefined && isDocument(command.compare) ? readDocument(command.compare) : null

  const audited = known
    ? { document: readDocument(known), traces: null }
    : command.demo
      ? await auditDemo(command, version, progress, interrupt)
      : await auditPaths(paths, command, version, progress, interrupt)
  const { document, traces } = audited
  await breathe(interrupt)

  if (command.compare !== undefined) {
    const after =
      other ?? (await auditPaths([command.compare], command, version, progress, interrupt)).document
    const comparison = compare(document, after)
    if (command.json) await pour(jsonLine({ ...document, compared: { comparison, with: after } }))
    else {
      print(style.heading(verdict(comparison)))
      print('')
      for (const line of headed(comparisonTable(comparison), style)) print(line)
      const inWords = (one: AuditDocument): string => [sentenceOf(headlineOf(one)), ...one.summary].join(' ')
      print(`\nBefore: ${inWords(document)}\n\nAfter: ${inWords(after)}`)
    }
  } else if (command.json) await pour(jsonLine(document))
  else {
    for (const line of screen(document, html, style)) print(line)
    if (known)
      print(`\nNo page was written, because a page needs the traces, and ${known} contains only the results.`)
  }

  const said: string[] = []
  try {
    if (html !== null && traces) {
      const { writeReport } = await import('../report/html.ts')
      progress.show(() => `writing ${html}`)
      const pieces = writeReport({ document, timeline: traces.timeline, ...traces.audit })
      await writeOutput(html, pieces, interrupt)
      said.push(
        `${html} (${command.compare === undefined ? '' : 'of the audit before; '}open it in a browser)`,
      )
    }
    if (tables !== null) {
      for (const [name, rows] of csvTables(document)) await writeOutput(join(tables, name), rows, interrupt)
      said.push(`${tables} (tables as CSV)`)
    }
    if (command.trace !== undefined && traces) {
      const { writeChrome } = await import('../timeline/chrome.ts')
      progress.show(() => `writing ${command.trace}`)
      await writeOutput(
        command.trace,
        writeChrome(traces.timeline, { clocks: traces.audit.clocks }),
        interrupt,
      )
      said.push(`${command.trace} (open it in ui.perfetto.dev)`)
    }
  } catch (error) {
    // After an interrupt, the text that was already printed stays visible. Each output file is either complete or
    // missing.
    if (!interrupt?.aborted) throw error
  }
  progress.clear()
  if (!command.json && said.length > 0) print(`\nWritten: ${said.join(', ')}`)
}

function* jsonLine(value: unknown): Generator<string> {
  yield* jsonPieces(value)
  yield '\n'
}

/** Returns the path of the JSON document of an earlier audit, or null if all paths are traces. */
function documentIn(paths: readonly string[], command: AuditCommand): string | null {
  const found = paths.find(isDocument)
  if (found === undefined) return null
  if (paths.length > 1)
    throw new UsageError(
      `${found}: this is the output of --json, not a trace; to compare two such outputs, use arke audit ${found} --compare OTHER`,
    )
  const needs = (['html', 'trace', 'steps', 'rank', 'bandwidth', 'window', 'comm', 'redact'] as const).find(
    (option) => command[option] !== undefined && command[option] !== false,
  )
  if (needs !== undefined)
    throw new UsageError(
      `${found}: --${needs} needs the traces, and this is the output of --json; give the traces`,
    )
  return found
}

/**
 * Makes the folder for the tables. Throws an error if the folder cannot be written, or if a table would overwrite an
 * input file.
 */
function csvFolder(path: string, inputs: readonly string[]): string {
  if (statSync(path, { throwIfNoEntry: false })?.isFile())
    throw new UsageError(`--csv ${path}: this is a file, and the tables need a folder; give a folder`)
  try {
    mkdirSync(path, { recursive: true })
  } catch (error) {
    throw new UsageError(
      `--csv ${path}: this folder cannot be made: ${(error as Error).message}; give another folder`,
    )
  }
  for (const name of csvNames) checkOutputs({ csv: join(path, name) }, inputs)
  return path
}

/** The path of the HTML page, or null for none. By default, `--json` and `--compare` write no page. */
function pageOf({ html, json, compare: other }: AuditCommand, isRead: boolean): string | null {
  if (html === false || isRead) return null
  return html ?? (json || other !== undefined ? null : usualReport)
}

/** Audits generated traces of an 8-rank job with a planted straggler. The traces are written to temporary files. */
export async function auditDemo(
  command: AuditCommand,
  version: string,
  progress: Progress,
  interrupt: AbortSignal | undefined,
): Promise<Audited> {
  const folder = mkdtempSync(join(tmpdir(), 'arke-demo-'))
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  // A second signal ends the process immediately, so the temporary folder is removed in an exit handler.
  process.once('exit', remove)
  try {
    const { demoTraces } = await import('../audit/demo/demo.ts')
    for (const { name, text } of demoTraces()) {
      await breathe(interrupt)
      await writeFile(join(folder, name), text)
    }
    const audited = await auditPaths([folder], command, version, progress, interrupt)
    const sources = audited.document.sources.map((source) => ({
      ...source,
      path: `demo/${basename(source.path)}`,
    }))
    return { ...audited, document: { ...audited.document, sources } }
  } finally {
    remove()
    process.off('exit', remove)
  }
}

async function auditPaths(
  paths: readonly string[],
  command: AuditCommand,
  version: string,
  progress: Progress,
  interrupt: AbortSignal | undefined,
): Promise<Audited> {
  // By default, V8 lets its heap double before it collects garbage, which would use most of the memory of a large
  // trace.
  setFlagsFromString('--heap-growing-percent=10')
  // V8 11 (Node 20) optimises functions that are nearly done. For traces of a few megabytes this costs more than it
  // saves.
  if (process.versions.v8.startsWith('11.')) setFlagsFromString('--interrupt-budget=400000')
  const reading = readTraces(paths, {
    rank: command.rank,
    communication: command.comm,
    unpackLimit: command.unpackLimit === undefined ? undefined : command.unpackLimit * 1e9,
    // The reader keeps all host events only if the audit also writes a merged trace.
    detail: command.trace === undefined ? 'needed' : 'all',
    onProgress: (done, all, path) => progress.show(() => `${bar(done, all)} ${bytes(all)}  ${path}`),
  })
  // The operations are loaded while other threads read the traces, because loading their kernels takes some time.
  const registry = import('../ops/operations.ts')
  const given = await unlessInterrupted(reading, interrupt)
  const read = command.redact ? (await import('../audit/redact.ts')).redact(given) : given
  progress.show(() => 'attributing time')
  const warnings = new Warnings()
  const options = {
    steps: command.steps === undefined ? undefined : stepRange(command.steps),
    bandwidth: command.bandwidth === undefined ? undefined : command.bandwidth * 1e9,
    window: command.window,
    world: read.world ?? undefined,
    recognisers: (await registry).recognisers,
  }
  const found = await inBreaths(auditing(read.timeline, warnings, options), interrupt)
  progress.clear()
  if (found.ranks.length === 0)
    throw new AuditError(
      options.steps
        ? `--steps ${command.steps}: no rank has such a step${stepsThere(read.timeline)}`
        : `${paths.join(', ')}: this trace contains no device work; record with ProfilerActivity.CUDA`,
    )
  const document = toDocument({
    timeline: read.timeline,
    audit: found,
    options,
    sources: read.sources,
    warnings: merged(read.warnings, warnings.list()),
    version,
  })
  return { document, traces: { timeline: read.timeline, audit: found } }
}

/**
 * Joins the warnings of the reader and of the audit. A reader's warning about missing ranks or about work from before
 * the recording is left out if the audit itself has a more precise warning about the same problem.
 */
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
    ? '; the trace has no step annotations and no repeating sequence of kernels'
    : `; there are steps ${ranges(steps.map(({ number }) => number))}`
}

function stepRange(text: string): readonly [number, number] {
  const found = /^(\d+)(?:\.\.(\d+))?$/.exec(text)
  const first = Number(found?.[1])
  const last = Number(found?.[2] ?? found?.[1])
  if (!found || last < first)
    throw new UsageError(
      `--steps ${text}: write the numbers of the first and the last step, as in --steps 5..8, or one number`,
    )
  return [first, last]
}

function bar(done: number, all: number): string {
  const width = 24
  const full = all > 0 ? Math.round((width * done) / all) : 0
  return `[${'#'.repeat(full).padEnd(width)}] ${percent(done, all).padStart(7)} of`
}
