/**
 * What can be fixed: the causes of lost time, the evidence for them, and a draft that collects observations of one cause
 * (fixes.ts).
 */
import type { HostActivity } from './hostActivity.ts'

export const causes = [
  'dataLoading',
  'allocation',
  'moduleLoading',
  'dispatch',
  'hostBlocked',
  'hostAbsent',
  'gap',
  'dependency',
  'unattributed',
  'copy',
  'straggler',
  'imbalance',
  'transfer',
  'communication',
  'vacant',
  'locality',
  'hole',
  'outlier',
  'firstCollective',
] as const
export type Cause = (typeof causes)[number]

/** A position in the trace: a rank and a time interval. `rank` is the index of the rank in the timeline. */
export interface Place {
  readonly rank: number
  readonly from: number
  readonly to: number
}

/** One observation that supports a fix. Times are in nanoseconds, summed over ranks. */
export interface Evidence {
  readonly activity: HostActivity | 'kernel' | 'copy' | 'collective' | 'idle' | 'late'
  readonly name: string | null
  readonly inside: string | null
  readonly time: number
  readonly count: number
  /** The bytes that the copies moved, or null if they are unknown or if nothing was copied. */
  readonly bytes: number | null
  /** The time during which the copies or collectives ran, whether hidden or not. */
  readonly running: number
  /** The longest occurrence, and how much of its time the ledger counts for the cause. */
  readonly longest: Place
  readonly longestTime: number
}

export interface Fix {
  readonly cause: Cause
  /** The time that the ledger counts for this cause, in nanoseconds, summed over ranks. */
  readonly time: number
  /** The upper bound of the time that the fix can save, in nanoseconds, summed over ranks. */
  readonly saves: number
  /**
   * The least time that the cause may cost: the lower end of the estimate for the locality tax, and `time` for all
   * other causes.
   */
  readonly least: number
  /** The number of occurrences on all ranks. */
  readonly count: number
  /** The indices of the ranks that lose the time; for a straggler, the late rank. */
  readonly ranks: readonly number[]
  /** True if the time is that of a one-off event. */
  readonly once: boolean
  readonly evidence: readonly Evidence[]
  /**
   * If the cause is that the host waits: the idle time from the end of the wait until the host has launched the next
   * work. Other fixes count this idle time, although it would not occur if the host did not wait: the next work would
   * already be enqueued.
   */
  readonly following?: number
}

/** The maximum number of observations that are listed per fix. */
export const SHOWN = 8
/** A one-off event takes at least this many times as long as the average of the other occurrences. */
export const OUTLIER = 20

/** A draft of a fix: observations are still being added to it and are stored by name. */
export class Draft {
  time = 0
  count = 0
  readonly ranks = new Set<number>()
  private readonly seen = new Map<string, { -readonly [K in keyof Evidence]: Evidence[K] }>()

  add(one: Evidence): void {
    if (one.time <= 0) return
    this.time += one.time
    this.count += one.count
    this.ranks.add(one.longest.rank)
    const key = `${one.activity}\n${one.name ?? ''}\n${one.inside ?? ''}`
    const known = this.seen.get(key)
    if (!known) {
      this.seen.set(key, { ...one })
      return
    }
    known.time += one.time
    known.count += one.count
    known.running += one.running
    if (one.bytes !== null) known.bytes = (known.bytes ?? 0) + one.bytes
    if (one.longestTime > known.longestTime)
      [known.longest, known.longestTime] = [one.longest, one.longestTime]
  }

  /**
   * Removes the longest occurrence if it is a one-off event: an occurrence that takes at least `least`, and at least 20
   * times as long as the average of the other occurrences. The longest occurrence is compared with the occurrences of
   * the same name or, in a recording of several steps, with all occurrences of the cause.
   */
  takeOnce(least: (rank: number) => number, steps: number): Evidence | null {
    const [longest] = [...this.seen.values()].sort((a, b) => b.longestTime - a.longestTime)
    if (!longest || longest.longestTime < least(longest.longest.rank)) return null
    const { longestTime } = longest
    const isOutlier = (time: number, count: number): boolean =>
      count >= 4 && longestTime >= (OUTLIER * (time - longestTime)) / (count - 1)
    if (!isOutlier(longest.time, longest.count) && !(steps >= 2 && isOutlier(this.time, this.count)))
      return null
    const once = { ...longest, time: longestTime, count: 1, running: longestTime }
    this.time -= longestTime
    this.count--
    longest.time -= longestTime
    longest.count--
    longest.running -= longestTime
    // After the removal, the longest of the remaining occurrences is unknown.
    longest.longestTime = 0
    longest.longest = { ...longest.longest, to: longest.longest.from }
    if (longest.count === 0) for (const [key, one] of this.seen) if (one === longest) this.seen.delete(key)
    return once
  }

  evidence(): Evidence[] {
    return [...this.seen.values()].sort((a, b) => b.time - a.time).slice(0, SHOWN)
  }

  fix(cause: Cause, more: Partial<Fix> = {}): Fix {
    return {
      cause,
      time: this.time,
      saves: this.time,
      least: this.time,
      count: this.count,
      ranks: [...this.ranks].sort((a, b) => a - b),
      once: false,
      evidence: this.evidence(),
      ...more,
    }
  }
}
