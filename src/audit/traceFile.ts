/**
 * What a reader makes of one file: ranks, whose numbers are not final. Only who sees all files can tell two ranks with
 * the same number from one, so a rank comes with how its number was found. Everything here can be sent to another
 * thread.
 */
import { rankFromPath } from './rankName.ts'
import type { RankTimeline } from '../timeline/timeline.ts'
import type { Warning } from '../timeline/warnings.ts'

/** `arke`: a Chrome trace that Arke wrote. */
export type TraceFormat = 'kineto' | 'arke' | 'nsys' | 'rocprof'

/** How a rank's number was found; `device`: it is the number of its device; `guess`: nothing tells it. */
export type RankOrigin = 'trace' | 'name' | 'option' | 'device' | 'guess'

/** `needed`: without what the host did that no figure depends on. */
export type HostDetail = 'all' | 'needed'

export interface FileRank {
  readonly timeline: RankTimeline
  readonly origin: RankOrigin
  /** How many ranks the job had, where the trace tells. */
  readonly worldSize: number | null
  /** The process groups that the trace lists, with the ranks of each. */
  readonly groups?: readonly ListedGroup[]
}

export interface ListedGroup {
  readonly name: string
  readonly ranks: readonly number[]
}

export interface TraceFile {
  readonly format: TraceFormat
  /** Uncompressed. */
  readonly bytes: number
  readonly names: readonly string[]
  readonly ranks: readonly FileRank[]
  readonly warnings: readonly Warning[]
}

export interface TraceFileOptions {
  /** The rank, where neither the trace nor its name tells. */
  rank?: number
  /** The name of a trace that is given as bytes. */
  name?: string
  /** What is kept of what the host did, where there is much of it. */
  detail?: HostDetail
  /** Called with the number of raw (maybe compressed) bytes read so far. */
  onProgress?: (bytes: number) => void
}

/**
 * The ranks of a file whose profiler numbers devices, not ranks: a device alone may have its number from the file's
 * name; several have those of their devices.
 */
export function numberDevices(
  timelines: readonly RankTimeline[],
  name: string,
  option: number | undefined,
): FileRank[] {
  if (timelines.length === 1) {
    const named = rankFromPath(name)
    const rank = named ?? option
    if (rank !== undefined)
      return [
        {
          timeline: { ...timelines[0], rank },
          origin: named === undefined ? 'option' : 'name',
          worldSize: null,
        },
      ]
  }
  return timelines.map((timeline) => ({ timeline, origin: 'device', worldSize: null }))
}
