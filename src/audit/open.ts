/**
 * Reads the paths of a command line into one timeline of all ranks. Finds files of any known format, reads them (in
 * parallel if they are large enough), numbers their ranks, joins the timelines and checks them for inconsistencies.
 *
 * A rank number that a trace or its name states is kept. If a rank has several recordings, one recording is audited and
 * a warning names the other recordings. A rank that is known only by its device number keeps that number if no other
 * rank has it. A rank without a usable number gets the lowest free number.
 *
 * Bad input is reported in the warnings. An `AuditError` is thrown if nothing is left to audit, if an archive is refused,
 * and if the files belong to several jobs.
 */
import { statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { basename } from 'node:path'
import { joinTimelines } from '../timeline/join.ts'
import { rankNames } from '../timeline/ranges.ts'
import type { RankTimeline, Timeline } from '../timeline/timeline.ts'
import { type Warning, type WarningClass, Warnings } from '../timeline/warnings.ts'
import { isArchive, refuseArchive } from './archive.ts'
import { UNPACK_BYTES, UnpackBudget } from './archives/member.ts'
import type { ReadArchive } from './archives/read.ts'
import { AuditError } from './auditError.ts'
import { inspect } from './inspect.ts'
import { callFiles, refuseSeveralJobs, repeatedRecordings } from './jobs.ts'
import { whyNoEvents } from './noEvents.ts'
import { tracePaths } from './paths.ts'
import { readFiles } from './pool.ts'
import type { FileRank, HostDetail, TraceFile, TraceFormat } from './traceFile.ts'
import { refuseZstd } from './zstd.ts'

export { AuditError } from './auditError.ts'

export interface ReadOptions {
  /** The rank number of a single file, which is used if neither the trace nor its name states one. */
  rank?: number
  /**
   * Called with the number of raw (maybe compressed) bytes read so far from all files, and with the path that is being
   * read.
   */
  onProgress?: (bytesRead: number, bytesTotal: number, path: string) => void
  /**
   * The number of reader threads. By default, several threads are used if there are more than `WORTH_THREADS` bytes to
   * read.
   */
  threads?: number
  /** How much host activity is kept; `all` by default. */
  detail?: HostDetail
  /** The maximum number of bytes that are unpacked from archives. */
  unpackLimit?: number
  /** A regular expression. Kernels whose names match this regular expression also count as communication. */
  communication?: string
}

export interface TraceSource {
  readonly path: string
  readonly format: TraceFormat
  /** Uncompressed. */
  readonly bytes: number
  readonly ranks: readonly number[]
}

export interface Traces {
  readonly timeline: Timeline
  readonly sources: readonly TraceSource[]
  /** The number of ranks in the job, or null if no trace states it. */
  readonly world: number | null
  readonly warnings: readonly Warning[]
  /** The display names of the files. A warning about a file begins with its display name. */
  readonly called: readonly string[]
}

/** The number of bytes of JSON below which starting a thread takes longer than the thread saves. */
const WORTH_THREADS = 16 << 20
const MOST_THREADS = 8
/** The approximate compression ratio of gzip-compressed traces. */
const COMPRESSION = 10

export async function readTraces(inputs: readonly string[], options: ReadOptions = {}): Promise<Traces> {
  const { plain, archives, skipped } = await apart(tracePaths(inputs), inputs)
  if (plain.length + archives.length === 0)
    throw new AuditError('nothing to audit: name a trace, a folder or a glob pattern')
  const given = [...plain, ...archives].map(sizeOf)
  const read = given.map(() => 0)
  const total = given.reduce((sum, size) => sum + size, 0)
  let sum = 0
  const progress = (index: number, bytes: number, path: string): void => {
    const now = Math.min(bytes, given[index])
    sum += now - read[index]
    read[index] = now
    options.onProgress?.(sum, total, path)
  }
  const unpacked = await readArchives(archives, options, (index, bytes) =>
    progress(plain.length + index, bytes, archives[index]),
  )
  const paths = [...plain, ...unpacked.flatMap((one) => one.files.map(({ path }) => path))]
  if (options.rank !== undefined && paths.length > 1)
    throw new AuditError(`a rank number applies to a single file, but ${paths.length} files were given`)
  const files = [
    ...(await readAll(plain, given, options, (index, bytes) => progress(index, bytes, plain[index]))),
    ...unpacked.flatMap((one) => one.files.map(({ file }) => file)),
  ]
  const found = new WarningList(paths)
  for (const path of skipped)
    found.add(
      null,
      'unreadable',
      `${basename(path)} is an archive and was skipped; name it to audit its files`,
    )
  unpacked.forEach(({ warnings }, index) => {
    for (const one of warnings)
      found.add(null, one.class, `${basename(archives[index])}: ${one.message}`, one.count)
  })
  if (files.length === 0)
    throw new AuditError(
      `${archives[0]}: nothing in the archive is readable (${found.list[0]?.message}); copy it again`,
    )
  files.forEach((file, index) => found.addAll(index, file.warnings))

  refuseSeveralJobs(files, found.called)
  const numbered = numberRanks(files, found)
  if (options.rank !== undefined) unusedRank(options.rank, paths[0], files[0], found)
  const timeline = joinTimelines(
    files
      .map(({ names }, index) => ({ names, ranks: numbered[index] }))
      .filter(({ ranks }) => ranks.length > 0),
  )
  const reasons = await Promise.all(
    paths.map((path, index) =>
      files[index].ranks.length === 0 ? whyNoEvents(path, files[index]) : Promise.resolve(null),
    ),
  )
  reasons.forEach((reason, index) => {
    if (reason !== null) found.add(index, 'no-events', reason)
  })
  if (!timeline.ranks.some(({ deviceSpan }) => deviceSpan !== null))
    throw nothingToAudit(paths, files, timeline, reasons)
  const missing = missingRanks(timeline.ranks, files)
  if (missing.length > 0)
    found.add(null, 'missing-ranks', `there is no trace of ${rankNames(missing)}`, missing.length)
  const odd = new Warnings()
  for (const rank of timeline.ranks) inspect(rank, timeline.names, odd)
  found.addAll(null, odd.list())

  const sources = paths.map((path, index) => ({
    path,
    format: files[index].format,
    bytes: files[index].bytes,
    ranks: numbered[index].map(({ rank }) => rank),
  }))
  return { timeline, sources, world: worldOf(files), warnings: found.list, called: found.called }
}

/**
 * Separates traces from archives. An archive in a folder is skipped if the folder also holds traces, since the archive
 * is usually a copy of the traces.
 */
async function apart(
  all: readonly string[],
  inputs: readonly string[],
): Promise<{ plain: string[]; archives: string[]; skipped: string[] }> {
  const plain: string[] = []
  const packed: string[] = []
  for (const path of all) ((await isArchive(path)) ? packed : plain).push(path)
  const isRead = (path: string): boolean => plain.length === 0 || inputs.includes(path)
  const archives = packed.filter(isRead)
  for (const path of archives) await refuseArchive(path)
  for (const path of plain) await refuseZstd(path)
  return { plain, archives, skipped: packed.filter((path) => !isRead(path)) }
}

async function readArchives(
  archives: readonly string[],
  { detail, communication, unpackLimit = UNPACK_BYTES }: ReadOptions,
  progress: (index: number, bytes: number) => void,
): Promise<ReadArchive[]> {
  if (archives.length === 0) return []
  const { readArchive } = await import('./archives/read.ts')
  const budget = new UnpackBudget({ bytes: unpackLimit })
  const read: ReadArchive[] = []
  for (const [index, path] of archives.entries())
    read.push(
      await readArchive(path, {
        budget,
        detail,
        communication,
        onProgress: (bytes) => progress(index, bytes),
      }),
    )
  return read
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size
  } catch {
    return 0
  }
}

async function readAll(
  paths: readonly string[],
  sizes: readonly number[],
  { rank, threads, detail, communication }: ReadOptions,
  progress: (index: number, bytes: number) => void,
): Promise<TraceFile[]> {
  const amount = paths.reduce((sum, path, i) => sum + sizes[i] * (path.endsWith('.gz') ? COMPRESSION : 1), 0)
  const wanted = threads ?? (amount > WORTH_THREADS ? Math.min(availableParallelism(), MOST_THREADS) : 1)
  const tasks = paths.map((path, index) => ({ path, rank, detail, communication, bytes: sizes[index] }))
  return readFiles(tasks, wanted, progress)
}

/** The ranks of each file, with their final rank numbers. */
function numberRanks(files: readonly TraceFile[], found: WarningList): RankTimeline[][] {
  const repeated = repeatedRecordings(files, found.called)
  for (const { file, message } of repeated.values()) found.add(file, 'duplicate-rank', message)
  const taken = new Set<number>()
  const numbered: RankTimeline[][] = files.map(() => [])
  const give = (file: number, timeline: RankTimeline, rank: number): void => {
    taken.add(rank)
    numbered[file].push({ ...timeline, rank })
  }
  const nextFree = (): number => {
    let rank = 0
    while (taken.has(rank)) rank++
    return rank
  }
  const each = (visit: (rank: FileRank, file: number) => void): void =>
    files.forEach(({ ranks }, file) => {
      for (const rank of ranks) if (!repeated.has(rank)) visit(rank, file)
    })

  each(({ timeline, origin }, file) => {
    if (origin !== 'guess' && origin !== 'device') give(file, timeline, timeline.rank)
  })
  each(({ timeline, origin }, file) => {
    if (origin !== 'device') return
    const rank = taken.has(timeline.rank) ? nextFree() : timeline.rank
    if (rank !== timeline.rank)
      found.add(
        file,
        'rank',
        `device ${timeline.rank} is numbered rank ${rank}, since rank ${timeline.rank} is another recording`,
      )
    give(file, timeline, rank)
  })
  each(({ timeline, origin }, file) => {
    if (origin !== 'guess') return
    const rank = nextFree()
    found.add(file, 'rank', `neither the trace nor its name states a rank; taken as rank ${rank}`)
    give(file, timeline, rank)
  })
  return numbered
}

/** Warns if the rank number given by the user was not used because the file states another one. */
function unusedRank(rank: number, path: string, { ranks }: TraceFile, found: WarningList): void {
  if (ranks.length > 1 && !ranks.some(({ origin }) => origin === 'option'))
    throw new AuditError(
      `--rank ${rank}: ${path} has ${ranks.length} ranks, and --rank gives a number to a trace of one rank only; leave out --rank`,
    )
  if (
    ranks.length === 0 ||
    ranks.some(({ origin, timeline }) => origin === 'option' || timeline.rank === rank)
  )
    return
  const numbers = ranks.map(({ timeline }) => timeline.rank)
  const where = ranks.some(({ origin }) => origin === 'name') ? "the file's name states" : 'the trace has'
  found.add(0, 'rank', `rank ${rank} was given and is not used: ${where} ${rankNames(numbers)}`)
}

function worldOf(files: readonly TraceFile[]): number | null {
  const sizes = files.flatMap((file) => file.ranks.flatMap(({ worldSize }) => worldSize ?? []))
  return sizes.length > 0 ? Math.max(...sizes) : null
}

function missingRanks(ranks: readonly RankTimeline[], files: readonly TraceFile[]): number[] {
  const present = new Set(ranks.map(({ rank }) => rank))
  const count = Math.max(worldOf(files) ?? 0, ...[...present].map((rank) => rank + 1))
  // A damaged rank number must not produce a list of billions of missing ranks.
  if (count > 1 << 20) return []
  return Array.from({ length: count }, (_, rank) => rank).filter((rank) => !present.has(rank))
}

/** `reasons` holds, for each file without ranks, the reason why the file has none. */
function nothingToAudit(
  paths: readonly string[],
  files: readonly TraceFile[],
  timeline: Timeline,
  reasons: readonly (string | null)[],
): AuditError {
  const which = paths.length === 1 ? paths[0] : `${paths.length} files, ${basename(paths[0])} first`
  if (timeline.ranks.length > 0) {
    const damage = files.flatMap(({ warnings }) => warnings.map(({ message }) => message))
    if (files.some(({ warnings }) => warnings.some((one) => one.class === 'truncated')))
      return new AuditError(
        `${which}: it is cut off, and there are no GPU events before the cut (${damage[0]}); copy it again, or wait until the profiler has written it`,
      )
    const why = damage.length > 0 ? ` (${damage[0]})` : ''
    return new AuditError(`${which}: there are host events but no GPU events; record the GPU as well${why}`)
  }
  const unreadable = files.flatMap(({ warnings }) => warnings).find((one) => one.class === 'unreadable')
  return new AuditError(
    reasons[0] === null
      ? `${which}: not readable (${unreadable?.message}); check the file`
      : `${which}: ${reasons[0].replace(/^it /, 'this ')}`,
  )
}

/** Collects the warnings of all files. If there are several files, each warning starts with the name of its file. */
class WarningList {
  readonly list: Warning[] = []
  /** The display name of each file: its base name, with its folder if base names are not unique. */
  readonly called: readonly string[]

  constructor(paths: readonly string[]) {
    this.called = callFiles(paths)
  }

  add(file: number | null, kind: WarningClass, message: string, count = 1): void {
    const prefix = file === null || this.called.length < 2 ? '' : `${this.called[file]}: `
    this.list.push({ class: kind, message: prefix + message, count })
  }

  addAll(file: number | null, warnings: readonly Warning[]): void {
    for (const { class: kind, message, count } of warnings) this.add(file, kind, message, count)
  }
}
