/** A set of time that can be asked how much of it lies in a window, in the time of a binary search. */
import type { Intervals } from '../timeline/intervals.ts'

export class Measured {
  private readonly intervals: Intervals
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

  private before(time: number): number {
    const { intervals, sums } = this
    let [low, high] = [0, sums.length - 1]
    while (low < high) {
      const middle = (low + high) >>> 1
      if (intervals[2 * middle + 1] <= time) low = middle + 1
      else high = middle
    }
    const inside = 2 * low < intervals.length ? Math.max(0, time - intervals[2 * low]) : 0
    return sums[low] + inside
  }
}
