/** A set of time that can be asked how much of it lies in a window, in the time of a binary search. */
import type { Intervals } from '../timeline/intervals.ts'
import { countBefore } from '../timeline/search.ts'

export class Measured {
  readonly intervals: Intervals
  /** All before each interval. */
  private readonly sums: Float64Array

  constructor(intervals: Intervals) {
    this.intervals = intervals
    this.sums = new Float64Array(intervals.length / 2 + 1)
    for (let i = 0; i < intervals.length / 2; i++)
      this.sums[i + 1] = this.sums[i] + intervals[2 * i + 1] - intervals[2 * i]
  }

  within(from: number, to: number): number {
    return from < to ? this.before(to) - this.before(from) : 0
  }

  /** How much of it lies in another set. */
  of(other: Intervals): number {
    let sum = 0
    for (let i = 0; i < other.length; i += 2) sum += this.within(other[i], other[i + 1])
    return sum
  }

  private before(time: number): number {
    const { intervals, sums } = this
    const past = countBefore(sums.length - 1, (i) => intervals[2 * i + 1] <= time)
    const inside = 2 * past < intervals.length ? Math.max(0, time - intervals[2 * past]) : 0
    return sums[past] + inside
  }
}
