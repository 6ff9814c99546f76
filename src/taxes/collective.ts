/**
 * One collective across several ranks, and the time that each rank spent in it: a rank first waits for the last rank,
 * and then moves data.
 */

/** The method by which the calls of several ranks were matched, from the most reliable to the least reliable. */
export type MatchedBy = 'communicator and sequence' | 'group and order' | 'order on the stream'

/**
 * The participation of one rank in a collective. The times are on the rank's own clock, relative to the rank's base.
 */
export interface Participation {
  /** The index of the rank in the timeline. */
  readonly rank: number
  /** The index of the event among the rank's events. */
  readonly event: number
  /**
   * The time from the rank's arrival to the last arrival, in nanoseconds, or null if no other rank is known or the last
   * rank is unknown.
   */
  readonly wait: number | null
  /** The rank's time in the collective minus its waiting time, in nanoseconds, or null if `wait` is null. */
  readonly transfer: number | null
}

export interface Collective {
  /** The kind of collective, such as allReduce or allGather; null if unknown. */
  readonly kind: string | null
  readonly library: string | null
  readonly group: string | null
  readonly groupDescription: string | null
  /** The number of ranks in the process group, or null if the trace does not state it. */
  readonly groupSize: number | null
  /** The matching method, or null if only one rank of the collective is known. */
  readonly matchedBy: MatchedBy | null
  /**
   * True if all participating ranks are known. If some participating rank is unknown, the waiting times are lower
   * bounds.
   */
  readonly complete: boolean
  /** The participating ranks, in ascending order. */
  readonly members: readonly Participation[]
  /**
   * The index of the rank that arrived last. The index is null if only one rank is known, or if the group is guessed
   * and its ranks may belong to different groups.
   */
  readonly last: number | null
  /**
   * The time between the first and the last end of the collective on the aligned clocks, in nanoseconds. If the ends
   * are close together, the calls were probably matched correctly.
   */
  readonly endSkew: number
}

/**
 * The clock of a rank. A time `t` on the rank's clock is `t + offset + drift * t` on the clock of the first rank,
 * relative to the base of the first rank.
 */
export interface Clock {
  readonly rank: number
  readonly offset: number
  readonly drift: number
  /** True if the clock was corrected because the ends of collectives disagreed with the trace's clock. */
  readonly aligned: boolean
  /** The correction of the clock in nanoseconds, at the middle of the trace. */
  readonly correction: number
  /**
   * The median distance of the rank's collective ends from the common ends after alignment, or null if the rank has no
   * collectives.
   */
  readonly residual: number | null
  readonly collectives: number
}

export const toCommon = (clock: Clock, time: number): number => time + clock.offset + clock.drift * time
