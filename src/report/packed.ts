/**
 * The format of the data inside an HTML report: a header in JSON and blocks of columns. Each block is compressed
 * separately, so the writer holds only one rank at a time, and the page can show the header's figures while it still
 * reads the blocks.
 *
 * A block is a sequence of variable-length integers (seven bits per byte, the lowest first), column after column. Times
 * are in nanoseconds on the common clock, relative to the first device event of all ranks.
 */
import type { RankDocument, StepDocument } from './document.ts'

/** Non-overlapping events of one stream. Concurrent events of a stream are in further rows. */
export interface PackedLane {
  readonly device: number
  readonly stream: number
  readonly row: number
  readonly events: number
  /** The number of events that are part of a collective. */
  readonly members: number
  /** The number of events that are omitted because too many overlap. */
  readonly hidden: number
  /** The start of the first event. Later starts are stored as distances from the previous end. */
  readonly from: number
}

/**
 * The block of a rank. For each lane it contains the columns `gap`, `duration`, `kind`, `name`, `operator` (0 for none,
 * otherwise the name plus 1) and `delay` (0 for none, otherwise twice the folded launch delay plus 1), then `event` and
 * `member` of its collectives as distances. After the lanes comes the partition: for each part the number of event
 * boundaries to its end, or 0 and its duration; then the column `part`.
 */
export interface PackedRank {
  readonly rank: number
  readonly device: string | null
  readonly lanes: readonly PackedLane[]
  readonly partition: { readonly from: number; readonly length: number }
}

/**
 * The block of collectives. For each collective it contains `kind`, `group`, `library`, `matchedBy` (labels),
 * `complete`, `last` (0 for none, otherwise the index of the rank plus 1), `endSkew` and the number of `members`. For
 * each member it contains `rank`, `start` (folded distance from the previous one), `duration`, `wait` and `transfer` (0
 * for none, otherwise the value plus 1).
 */
export interface PackedHeader {
  readonly names: readonly string[]
  readonly ranks: readonly PackedRank[]
  /** The audited window. */
  readonly window: readonly [from: number, to: number]
  readonly labels: readonly string[]
  readonly collectives: number
  readonly members: number
  /** The number of the rank that was waited for most, or null (culprit.ts). */
  readonly culprit: number | null
  /** The figures that the bars show. */
  readonly figures: readonly RankDocument[]
  readonly steps: readonly StepDocument[]
}

/** The code of a part of the partition for time that no part claims. */
export const UNCLAIMED = 255

export const blockOfRank = (index: number): string => `arke-rank-${index}`
export const headerBlock = 'arke-header'
export const collectivesBlock = 'arke-collectives'
