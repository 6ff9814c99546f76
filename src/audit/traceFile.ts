/**
 * The result of reading one file. The rank numbers of a file are provisional. If two ranks have the same number, new
 * numbers can only be assigned when all files have been read, so each rank records the origin of its number. The result
 * of reading a file can be sent to another thread.
 */
import { rankFromPath } from './rankName.ts'
import type { RankTimeline } from '../timeline/timeline.ts'
import type { Warning } from '../timeline/warnings.ts'

/** `arke`: a Chrome trace that Arke wrote. */
export type TraceFormat = 'kineto' | 'arke' | 'nsys' | 'rocprof'

/**
 * Where the number of a rank comes from, such as the trace or the name of its file. `device` means that the rank number
 * is the number of the rank's device. `guess` means that nothing states the rank number.
 */
export type RankOrigin = 'trace' | 'name' | 'option' | 'device' | 'guess'

/** How much host activity is kept. `needed` drops the host events on which no figure of the audit depends. */
export type HostDetail = 'all' | 'needed'

export interface FileRank {
  readonly timeline: RankTimeline
  readonly origin: RankOrigin
  /** The number of ranks in the job, or null if the trace does not state it. */
  readonly worldSize: number | null
  /** The process groups that the trace lists, with their ranks. */
  readonly groups?: readonly ListedGroup[]
}

export interface ListedGroup {
  readonly name: string
  readonly ranks: readonly number[]
}

export interface TraceFile {
  readonly format: TraceFormat
  /** The uncompressed size. */
  readonly bytes: number
  readonly names: readonly string[]
  readonly ranks: readonly FileRank[]
  readonly warnings: readonly Warning[]
  /** The first bytes of a file that was read from an archive. */
  readonly head?: Uint8Array
}

/**
 * The source of a trace: a path, the bytes themselves, or a stream of chunks. A chunk is valid until the next chunk is
 * requested.
 */
export type TraceInput = string | Uint8Array | AsyncIterable<Uint8Array>

export interface TraceFileOptions {
  /** The rank number to use if neither the trace nor its file name states one. */
  rank?: number
  /** The name of a trace that is given as bytes. */
  name?: string
  /** How much host activity is kept. */
  detail?: HostDetail
  /** A regular expression. Kernels whose names match this regular expression also count as communication. */
  communication?: string
  /** Called with the number of raw (maybe compressed) bytes read so far. */
  onProgress?: (bytes: number) => void
  /** Called with the length of each chunk, and with the numbers of decompressed and raw bytes so far. It may throw. */
  onUnpacked?: (length: number, total: number, packed: number) => void
}

/**
 * Numbers the ranks of a file whose profiler recorded device numbers but no rank numbers. A single device gets the
 * number in the file's name, or else the number in `option`, if there is one. If there are several devices, each gets
 * its device number.
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
