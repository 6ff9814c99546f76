/**
 * PyTorch profiler traces (Kineto, 2021 to 2026, CUDA and ROCm) to the timeline. One file is usually one rank; every
 * JSON document in it becomes a rank of its own. Bad input is left out and named in the warnings, never thrown.
 *
 * The rank is `distributedInfo.rank`, else the number in the file's name, else `options.rank`, else 0.
 */
import { TimelineBuilder } from '../timeline/builder.ts'
import type { Timeline } from '../timeline/timeline.ts'
import { inspect } from './inspect.ts'
import { TraceScanner, type TraceMetadata } from './json/scanner.ts'
import { readBytes, type SourceOptions } from './json/source.ts'
import { KinetoDocument, roleOf } from './kinetoDocument.ts'
import { type Warning, Warnings } from '../timeline/warnings.ts'

export interface KinetoOptions extends SourceOptions {
  /** The rank, where neither the trace nor its name tells. */
  rank?: number
  /** The name of a trace that is given as bytes. */
  name?: string
}

export interface KinetoFile {
  /** Which ranks came of it, with what the trace says of each. */
  readonly ranks: readonly { readonly rank: number; readonly metadata: TraceMetadata }[]
  readonly warnings: readonly Warning[]
  /** Uncompressed bytes and events that were passed. */
  readonly bytes: number
  readonly events: number
}

/** Adds the ranks in `source`, a path or the bytes themselves, to `timeline`. */
export async function readKineto(
  source: string | Uint8Array,
  timeline: TimelineBuilder,
  options: KinetoOptions = {},
): Promise<KinetoFile> {
  const warnings = new Warnings()
  const documents: KinetoDocument[] = []
  const scanner: TraceScanner = new TraceScanner(
    {
      accept: (phase, category) => phase === 'X' && roleOf(category) !== undefined,
      event: (event) => {
        const document = (documents[event.document] ??= new KinetoDocument(
          timeline,
          scanner.strings,
          warnings,
        ))
        document.add(event)
      },
    },
    warnings,
  )
  const bytes = await readBytes(source, (piece) => scanner.push(piece), warnings, options)
  scanner.end()

  const name = options.name ?? (typeof source === 'string' ? source : '')
  const ranks: { rank: number; metadata: TraceMetadata }[] = []
  scanner.documents.forEach((metadata, i) => {
    const document = documents[i]
    if (!document) return
    const rank = rankOf(metadata, name, options.rank, warnings)
    if (timeline.has(rank)) {
      warnings.add('duplicate-rank', () => `rank ${rank} is there already; this one is left out`)
      return
    }
    timeline.adopt(rank, document.finish(metadata))
    ranks.push({ rank, metadata })
  })
  if (documents.length === 0) warnings.add('no-events', () => 'there is no event of a device or a host in it')
  return { ranks, warnings: warnings.list(), bytes, events: scanner.events }
}

/** One file as a timeline of its own, inspected. */
export async function readKinetoFile(
  source: string | Uint8Array,
  options: KinetoOptions = {},
): Promise<KinetoFile & { readonly timeline: Timeline }> {
  const builder = new TimelineBuilder()
  const file = await readKineto(source, builder, options)
  const timeline = builder.freeze()
  const found = new Warnings()
  for (const rank of timeline.ranks) inspect(rank, timeline.names, found)
  return { ...file, warnings: [...file.warnings, ...found.list()], timeline }
}

const rankInName = [
  /rank[-_]?(\d+)/i,
  /(?:^|[^0-9a-z])(\d+)of\d+/i,
  /worker[-_]?(\d+)/i,
  /(?:^|[^0-9a-z])r(\d+)(?=[._-])/i,
]

/** The rank that a file's name tells, or undefined. */
export function rankFromName(path: string): number | undefined {
  const name = path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1)
  for (const pattern of rankInName) {
    const found = pattern.exec(name)
    if (found) return Number(found[1])
  }
  return undefined
}

function rankOf(
  metadata: TraceMetadata,
  name: string,
  option: number | undefined,
  warnings: Warnings,
): number {
  const info = metadata.distributedInfo as { rank?: unknown } | null | undefined
  if (Number.isSafeInteger(info?.rank) && (info?.rank as number) >= 0) return info?.rank as number
  const told = rankFromName(name) ?? option
  if (told === undefined)
    warnings.add('rank', () => 'neither the trace nor its name tells its rank; taken as 0')
  return told ?? 0
}
