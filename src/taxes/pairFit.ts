/**
 * Compares the end times of two ranks call by call. All ranks of a collective leave it at nearly the same time, so the
 * distance between the end times of two ranks of one group is constant, up to the drift of their clocks. The distance
 * is constant for any offset between the two clocks. If the ranks are in different groups, the distance varies from
 * call to call, because no rank waits for the other group.
 */
import { median } from './align.ts'

/**
 * The calls of one rank in a lane (communicator or stream), on the trace's clock of the first rank. Calls of several
 * ranks at the same position in the program are in one column, and `first` is the column of the rank's first call.
 */
export interface Row {
  /** The index of the rank in the timeline. */
  readonly rank: number
  readonly first: number
  readonly starts: Float64Array
  readonly ends: Float64Array
}

export interface PairFit {
  /** The nanoseconds to add to the end times of `b` to get the end times of `a`, at the middle of the common calls. */
  readonly offset: number
  /** Nine of ten distances between end times deviate from the fitted line by at most this time, in nanoseconds. */
  readonly scatter: number
}

/** The clocks of two machines are assumed to drift apart by less than this fraction of the elapsed time. */
const MAXIMUM_DRIFT = 1e-4
/** A drift is fitted only to at least `DRIFT_CALLS` calls over at least `DRIFT_SPAN` nanoseconds. */
const DRIFT_CALLS = 12
const DRIFT_SPAN = 2e7
/**
 * The number of calls whose distances are compared first. Comparing so few calls suffices to reject most pairs of
 * ranks.
 */
const PROBES = 6

/** Compares many pairs of ranks with reused arrays, because a job of 512 ranks has 130,000 pairs. */
export class PairFits {
  private readonly distances: Float64Array
  private readonly times: Float64Array
  private readonly sorted: Float64Array

  constructor(columns: number) {
    this.distances = new Float64Array(columns)
    this.times = new Float64Array(columns)
    this.sorted = new Float64Array(columns)
  }

  /**
   * The fit of two ranks over `columns`, or null if the scatter exceeds `most`, or if the ranks have fewer than two
   * columns in common.
   */
  fit(a: Row, b: Row, columns: ArrayLike<number>, most: number): PairFit | null {
    if (!this.probe(a, b, columns, most)) return null
    const { distances, times, sorted } = this
    let count = 0
    for (let k = 0; k < columns.length; k++) {
      const [i, j] = [columns[k] - a.first, columns[k] - b.first]
      if (i < 0 || j < 0 || i >= a.ends.length || j >= b.ends.length) continue
      times[count] = a.ends[i]
      distances[count++] = a.ends[i] - b.ends[j]
    }
    if (count < 2) return null
    const middle = (times[0] + times[count - 1]) / 2
    const slope = this.slope(count)
    for (let k = 0; k < count; k++) sorted[k] = distances[k] - slope * (times[k] - middle)
    const offset = median(sorted.subarray(0, count))
    // Most pairs of ranks are rejected by counting outliers, which is faster than sorting distances.
    const allowed = count - 1 - Math.min(count - 1, Math.floor(0.9 * count))
    let outside = 0
    for (let k = 0; k < count; k++) {
      sorted[k] = Math.abs(distances[k] - slope * (times[k] - middle) - offset)
      if (sorted[k] > most && ++outside > allowed) return null
    }
    const used = sorted.subarray(0, count).sort()
    const scatter = used[Math.min(count - 1, Math.floor(0.9 * count))]
    return scatter <= most ? { offset, scatter } : null
  }

  /** False if a few calls already show that the distances are not constant. */
  private probe(a: Row, b: Row, columns: ArrayLike<number>, most: number): boolean {
    const from = Math.max(a.first, b.first)
    const to = Math.min(a.first + a.ends.length, b.first + b.ends.length)
    let [low, high, first, last, misses] = [Infinity, -Infinity, 0, 0, 0]
    const step = Math.max(1, Math.floor(columns.length / PROBES))
    for (let k = 0; k < columns.length; k += step) {
      const column = columns[k]
      if (column < from || column >= to) {
        misses++
        continue
      }
      const time = a.ends[column - a.first]
      const distance = time - b.ends[column - b.first]
      if (low === Infinity) first = time
      last = time
      low = Math.min(low, distance)
      high = Math.max(high, distance)
    }
    // One of the few calls may be an outlier, which only the fit over all calls can show.
    return misses > 0 || high - low <= 8 * most + MAXIMUM_DRIFT * (last - first)
  }

  /** The drift between the two clocks, from the medians of the two halves of the calls. */
  private slope(count: number): number {
    const { distances, times, sorted } = this
    const span = times[count - 1] - times[0]
    if (count < DRIFT_CALLS || span < DRIFT_SPAN) return 0
    const half = count >> 1
    const middle = (from: number, to: number): number => {
      sorted.set(distances.subarray(from, to))
      return median(sorted.subarray(0, to - from))
    }
    const rise = middle(count - half, count) - middle(0, half)
    const run = (times[count - 1] + times[count - half] - times[half - 1] - times[0]) / 2
    return run > 0 ? Math.max(-MAXIMUM_DRIFT, Math.min(MAXIMUM_DRIFT, rise / run)) : 0
  }
}
