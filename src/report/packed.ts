/**
 * The data inside an HTML report: a header in JSON and blocks of columns, each block compressed by itself, so that
 * the writer holds one rank at a time and the page reads them while it shows the header's figures already.
 *
 * A block is a sequence of variable-length integers (seven bits a byte, the lowest first), column after column.
 * Times are nanoseconds on the common clock from the first device event of all ranks.
 */
import type { RankDocument, StepDocument } from './document.ts'

/** Events of one stream that do not overlap; work at the same time on a stream takes further rows. */
export interface PackedLane {
  readonly device: number
  readonly stream: number
  readonly row: number
  readonly events: number
  /** How many of the events are part of a collective. */
  readonly members: number
  /** Events that are left out, as too many overlap. */
  readonly hidden: number
  /** The start of the first; later ones are distances from the end before. */
  readonly from: number
}

/**
 * The block of a rank: for each lane the columns `gap`, `duration`, `kind`, `name`, `operator` (0 for none, else one
 * more than the name), `delay` (0 for none, else one more than twice the launch delay, folded), then for its
 * collectives `event` and `member` as distances; after the lanes the partition: for each part
 * how many boundaries of events to go on to its end, or 0 and its duration; then the column `part`.
 */
export interface PackedRank {
  readonly rank: number
  readonly device: string | null
  readonly lanes: readonly PackedLane[]
  readonly partition: { readonly from: number; readonly length: number }
}

/**
 * The block of collectives: `kind`, `group`, `library`, `matchedBy` (labels), `complete`, `last` (0 for none, else one
 * more than the rank's place), `endSkew`, `members` of each; then of each member `rank`, `start` (folded distance from
 * the one before), `duration`, `wait` and `transfer` (0 for none, else one more).
 */
export interface PackedHeader {
  readonly names: readonly string[]
  readonly ranks: readonly PackedRank[]
  /** The window that was audited. */
  readonly window: readonly [from: number, to: number]
  readonly labels: readonly string[]
  readonly collectives: number
  readonly members: number
  /** The number of the rank that was waited for most, or null (culprit.ts). */
  readonly culprit: number | null
  /** For the bars. */
  readonly figures: readonly RankDocument[]
  readonly steps: readonly StepDocument[]
}

/** The part of a partition that stands for time that no part claims. */
export const UNCLAIMED = 255

export const blockOfRank = (index: number): string => `arke-rank-${index}`
export const headerBlock = 'arke-header'
export const collectivesBlock = 'arke-collectives'
