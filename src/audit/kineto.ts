/**
 * Reads PyTorch profiler traces (Kineto, 2021 to 2026, CUDA and ROCm) into the timeline. A trace is an object with
 * `traceEvents`, or a bare array of events. An event has a duration (phase X) or is written as a begin and an end
 * (phases B and E). One trace file usually contains one rank. Each JSON document in a file becomes a rank. If a
 * document has kernels on several devices, each device becomes a rank. Bad input never causes an exception: unreadable
 * data is left out and reported in the warnings.
 *
 * The rank number is `distributedInfo.rank`, else the number in the name of the file or of its folder, else
 * `options.rank`, else 0.
 */
import { TimelineBuilder } from '../timeline/builder.ts'
import { isTelling } from '../timeline/hostCallNames.ts'
import type { RankTimeline, Timeline } from '../timeline/timeline.ts'
import { inspect } from './inspect.ts'
import type { TraceEvent } from './json/event.ts'
import { TraceScanner, type TraceMetadata } from './json/scanner.ts'
import { readBytes, type SourceOptions } from './json/source.ts'
import { KinetoDocument, roleOf, SHORTEST_FRAME } from './kinetoDocument.ts'
import { EventPairs } from './pairs.ts'
import { rankFromPath } from './rankName.ts'
import { splitByDevice } from './split.ts'
import type { FileRank, HostDetail, ListedGroup, RankOrigin, TraceInput } from './traceFile.ts'
import { type Warning, Warnings } from '../timeline/warnings.ts'

export { rankFromName } from './rankName.ts'

export interface KinetoOptions extends SourceOptions {
  /** The rank number to use if neither the trace nor its file name states one. */
  rank?: number
  /** The name of a trace that is given as bytes. */
  name?: string
  detail?: HostDetail
  /** A regular expression. Kernels whose names match this regular expression also count as communication. */
  communication?: string
}

export interface KinetoFile {
  /** The ranks that the file contains, each with the metadata of its document. */
  readonly ranks: readonly { readonly rank: number; readonly metadata: TraceMetadata }[]
  readonly warnings: readonly Warning[]
  /** The number of uncompressed bytes, and the number of all events including skipped events. */
  readonly bytes: number
  readonly events: number
}

/** Reads the ranks of `source`, which is a path or the bytes themselves. Event names are interned in `timeline`. */
export async function readKinetoRanks(
  source: TraceInput,
  timeline: TimelineBuilder,
  warnings: Warnings,
  options: KinetoOptions = {},
): Promise<{
  ranks: (FileRank & { readonly metadata: TraceMetadata })[]
  bytes: number
  events: number
}> {
  const documents: KinetoDocument[] = []
  const named = options.communication === undefined ? null : new RegExp(options.communication)
  const add = (event: TraceEvent): void => {
    const document = (documents[event.document] ??= new KinetoDocument(
      timeline,
      scanner.strings,
      warnings,
      named,
    ))
    document.add(event)
  }
  const scanner: TraceScanner = new TraceScanner(
    {
      phases: 'XBE',
      accept: (phase, category) =>
        phase === 'X' ? roleOf(category) !== undefined : phase === 'B' || phase === 'E',
      least: (category) => {
        if (roleOf(category) !== 'frame') return 0
        hasStacks = true
        return SHORTEST_FRAME
      },
      event: (event) => {
        if (event.phase === 'X') return add(event)
        if (event.phase === 'B') return pairs.begin(event)
        if (pairs.end(event) && event.category >= 0) add(event)
      },
    },
    warnings,
  )
  let hasStacks = false
  const pairs = new EventPairs(scanner.strings, warnings)
  const bytes = await readBytes(source, (piece) => scanner.push(piece), warnings, options)
  scanner.end()
  pairs.finish()
  if (hasStacks)
    warnings.add(
      'stacks',
      () =>
        'the trace was recorded with stacks, which slows the host down: dispatch and host absent take too long; ' +
        'use this trace to find out which code runs, and a trace without stacks (with_stack=False) to measure times',
    )
  if (scanner.documents.length > 0 && scanner.events === 0 && !scanner.hasEvents)
    warnings.add('format', () => 'the file is JSON without a list of trace events')

  const name = options.name ?? (typeof source === 'string' ? source : '')
  const keeps = (id: number): boolean => isTelling(timeline.name(id))
  const ranks = scanner.documents.flatMap((metadata, i) => {
    if (!documents[i]) return []
    const recording = documents[i].finish(metadata).freeze(0, options.detail === 'needed' ? { keeps } : 'all')
    return numbered(splitByDevice(recording, warnings), metadata, name, options.rank)
  })
  return { ranks, bytes, events: scanner.events }
}

/** Adds the ranks in `source` to `timeline`. */
export async function readKineto(
  source: TraceInput,
  timeline: TimelineBuilder,
  options: KinetoOptions = {},
): Promise<KinetoFile> {
  const warnings = new Warnings()
  const file = await readKinetoRanks(source, timeline, warnings, options)
  const ranks: { rank: number; metadata: TraceMetadata }[] = []
  for (const { timeline: frozen, origin, metadata } of file.ranks) {
    const { rank } = frozen
    if (origin === 'guess')
      warnings.add('rank', () => `neither the trace nor its name states a rank; taken as rank ${rank}`)
    if (timeline.has(rank)) {
      warnings.add('duplicate-rank', () => `rank ${rank} was already read; this recording is left out`)
      continue
    }
    timeline.adopt(rank, { freeze: () => frozen })
    ranks.push({ rank, metadata })
  }
  if (file.ranks.length === 0) warnings.add('no-events', () => 'the file has neither host nor GPU events')
  return { ranks, warnings: warnings.list(), bytes: file.bytes, events: file.events }
}

/** Reads one file into its own timeline and checks the timeline for inconsistencies. */
export async function readKinetoFile(
  source: TraceInput,
  options: KinetoOptions = {},
): Promise<KinetoFile & { readonly timeline: Timeline }> {
  const builder = new TimelineBuilder()
  const file = await readKineto(source, builder, options)
  const timeline = builder.freeze()
  const found = new Warnings()
  for (const rank of timeline.ranks) inspect(rank, timeline.names, found)
  return { ...file, warnings: [...file.warnings, ...found.list()], timeline }
}

/**
 * Assigns rank numbers to the timelines of one document. A document with several devices has several timelines. If the
 * document states a rank number, that number goes to the first device. Every other timeline gets the number of its
 * device, which is provisional.
 */
function numbered(
  timelines: readonly RankTimeline[],
  metadata: TraceMetadata,
  name: string,
  option: number | undefined,
): (FileRank & { readonly metadata: TraceMetadata })[] {
  const info = metadata.distributedInfo as
    { rank?: unknown; world_size?: unknown; pg_config?: unknown } | null | undefined
  const told = isCount(info?.rank) ? info.rank : undefined
  const worldSize = isCount(info?.world_size) ? info.world_size : null
  const groups = groupsOf(info?.pg_config)
  const named = rankFromPath(name)
  return timelines.map((timeline, i) => {
    const device = deviceName(timeline, metadata)
    let rank = told ?? named ?? option ?? 0
    let origin: RankOrigin =
      told !== undefined ? 'trace' : named !== undefined ? 'name' : option !== undefined ? 'option' : 'guess'
    if (timelines.length > 1 && (origin === 'guess' || i > 0)) {
      rank = timeline.rank
      origin = 'device'
    }
    return { timeline: { ...timeline, rank, device }, origin, worldSize, groups, metadata }
  })
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

/** The process groups of `distributedInfo` that list all of their ranks. */
function groupsOf(config: unknown): ListedGroup[] {
  if (!Array.isArray(config)) return []
  return (config as ({ pg_name?: unknown; pg_size?: unknown; ranks?: unknown } | null)[]).flatMap((one) => {
    const { pg_name: name, pg_size: size, ranks } = one ?? {}
    if (typeof name !== 'string' || !Array.isArray(ranks) || !ranks.every(isCount)) return []
    return isCount(size) && size !== ranks.length ? [] : [{ name, ranks }]
  })
}

/** The name of the device whose stream track has the most events, or null if it is unknown. */
function deviceName({ tracks }: RankTimeline, { deviceProperties }: TraceMetadata): string | null {
  if (!Array.isArray(deviceProperties)) return null
  const streams = tracks
    .filter(({ role }) => role === 'stream')
    .sort((a, b) => b.to - b.from - (a.to - a.from))
  const properties = deviceProperties as ({ id?: unknown; name?: unknown } | null)[]
  const found = properties.find((one) => one !== null && streams.length > 0 && one.id === streams[0].owner)
  return typeof found?.name === 'string' ? found.name : null
}
