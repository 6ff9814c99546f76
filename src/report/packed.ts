/**
 * The format of the data inside an HTML report, which is a JSON header and blocks of columns. Each block is compressed
 * separately. The writer therefore holds only one rank at a time, and the page can show the figures in the header while
 * it still reads the blocks.
 *
 * A block is a sequence of variable-length integers (seven bits per byte, the lowest bits first), column after column.
 * Times are in nanoseconds on the common clock, relative to the first device event of all ranks.
 */
import type { RankDocument, StepDocument } from './document.ts'

/**
 * A lane (a timeline row) holds events of one stream, or of one host thread, that do not overlap. If events of a stream
 * overlap or events of a thread are nested, additional lanes hold them.
 */
export interface PackedLane {
  readonly device: number
  readonly stream: number
  readonly row: number
  /** True for Python frames, which have separate lanes (timeline rows), since their stacks are deep. */
  readonly frames?: boolean
  readonly events: number
  /** The number of events in the lane (timeline row) that belong to a collective. */
  readonly members: number
  /** The number of events that are omitted because too many events overlap. */
  readonly hidden: number
  /**
   * The start time of the first event. The start of every event after the first is stored as the distance from the end
   * of the previous event.
   */
  readonly from: number
}

/**
 * The block of data for one rank. For each lane, the block contains the columns `gap`, `duration`, `kind`, `name`,
 * `operator` (0 for none, otherwise the name plus 1) and `delay` (0 for none, otherwise twice the folded launch delay
 * plus 1), then `event` and `member` of its collectives as distances. The partition of the rank's time into categories
 * comes after the lanes. For each segment of the partition, the block contains the number of event boundaries up to the
 * end of the segment, or 0 followed by its duration. The column `part` is the last column of the partition. The lanes
 * (timeline rows) of the host threads come after the partition.
 */
export interface PackedRank {
  readonly rank: number
  readonly device: string | null
  readonly lanes: readonly PackedLane[]
  readonly partition: { readonly from: number; readonly length: number }
  /**
   * The timeline rows (lanes) of the host threads that enqueue work. In the lane of a host thread, `device` is the
   * process id, and `stream` is the thread id. In the block, the columns of these lanes come after the columns of the
   * partition.
   */
  readonly hosts: readonly PackedLane[]
  /**
   * The number of host events that are left out to limit the size of the page. Every omitted host event is shorter than
   * `shortest` nanoseconds.
   */
  readonly leftOut: { readonly events: number; readonly shortest: number }
}

/**
 * The block of data for the collectives. For each collective, the block contains `kind`, `group`, `library`,
 * `matchedBy` (labels), `complete`, `last` (0 for none, otherwise the index of the rank plus 1), `endSkew` and the
 * number of `members`. For each member, the block contains `rank`, `start` (folded distance from the start of the
 * previous member), `duration`, `wait` and `transfer` (0 for none, otherwise the value plus 1).
 */
export interface PackedHeader {
  readonly names: readonly string[]
  readonly ranks: readonly PackedRank[]
  /** The audited window. */
  readonly window: readonly [from: number, to: number]
  readonly labels: readonly string[]
  readonly collectives: number
  readonly members: number
  /** The number of the rank for which other ranks waited most, or null (culprit.ts). */
  readonly culprit: number | null
  /** The figures of each rank, which the page shows as bars. */
  readonly figures: readonly RankDocument[]
  readonly steps: readonly StepDocument[]
}

/** The code that stands for time that belongs to no category. */
export const UNCLAIMED = 255

export const blockOfRank = (index: number): string => `arke-rank-${index}`
export const headerBlock = 'arke-header'
export const collectivesBlock = 'arke-collectives'
