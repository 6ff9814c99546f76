/** The same collective on several ranks, and what each rank spent in it: waiting for the last one, then moving data. */

/** By what the calls of several ranks were found to be the same, from the surest to the least sure. */
export type MatchedBy = 'communicator and sequence' | 'group and order' | 'order on the stream'

/** One rank's part in a collective. Times are the rank's own, relative to its base. */
export interface Participation {
  /** Index into the timeline's ranks. */
  readonly rank: number
  /** Index into the rank's events. */
  readonly event: number
  /** From its arrival to the last one's, in nanoseconds; null where no other rank is known, or who was last. */
  readonly wait: number | null
  /** The rest of it. */
  readonly transfer: number | null
}

export interface Collective {
  /** allReduce, allGather, …; null where unknown. */
  readonly kind: string | null
  readonly library: string | null
  readonly group: string | null
  readonly groupDescription: string | null
  /** How many ranks take part, as far as the trace tells. */
  readonly groupSize: number | null
  /** Null for a collective of which one rank is known. */
  readonly matchedBy: MatchedBy | null
  /** Whether all ranks that take part are known; where not, waits are lower bounds. */
  readonly complete: boolean
  /** In order of the rank. */
  readonly members: readonly Participation[]
  /**
   * Index into the timeline's ranks of the one that arrived last; null where only one is known, and where the group is
   * guessed and its ranks may be of different groups.
   */
  readonly last: number | null
  /** From the first end to the last, after the alignment of clocks: how far the matching can be trusted. */
  readonly endSkew: number
}

/** A rank's clock: its time `t` is `t + offset + drift * t` on the clock of the first rank, relative to that rank's base. */
export interface Clock {
  readonly rank: number
  readonly offset: number
  readonly drift: number
  /** Whether the offset was changed from what the trace says, since collective ends disagreed. */
  readonly aligned: boolean
  /** The change in nanoseconds, at the middle of the trace. */
  readonly correction: number
  /** The median distance of this rank's collective ends from the common ones, afterwards; null without collectives. */
  readonly residual: number | null
  readonly collectives: number
}

export const toCommon = (clock: Clock, time: number): number => time + clock.offset + clock.drift * time
