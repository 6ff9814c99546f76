/** Implements sets of time intervals that compute by binary search how much of a set lies in a window. */
import type { Intervals } from '../timeline/intervals.ts'
import { countBefore } from '../timeline/search.ts'

/** A running sum is stored for every `BLOCK` intervals, since there may be as many intervals as kernels. */
const BLOCK = 16

export class Measured {
  readonly intervals: Intervals
  /** For each block of intervals: the total length of all intervals before the block. */
  private readonly sums: Float64Array

  constructor(intervals: Intervals) {
    this.intervals = intervals
    const count = intervals.length / 2
    this.sums = new Float64Array(Math.floor(count / BLOCK) + 1)
    for (let block = 1; block < this.sums.length; block++)
      this.sums[block] = this.sums[block - 1] + this.sum((block - 1) * BLOCK, block * BLOCK)
  }

  within(from: number, to: number): number {
    return from < to ? this.before(to) - this.before(from) : 0
  }

  /** The total time that belongs both to this set and to another set. */
  of(other: Intervals): number {
    let sum = 0
    for (let i = 0; i < other.length; i += 2) sum += this.within(other[i], other[i + 1])
    return sum
  }

  private before(time: number): number {
    const { intervals, sums } = this
    const past = countBefore(intervals.length / 2, (i) => intervals[2 * i + 1] <= time)
    const block = Math.floor(past / BLOCK)
    const inside = 2 * past < intervals.length ? Math.max(0, time - intervals[2 * past]) : 0
    return sums[block] + this.sum(block * BLOCK, past) + inside
  }

  private sum(from: number, to: number): number {
    const { intervals } = this
    let sum = 0
    for (let i = from; i < to; i++) sum += intervals[2 * i + 1] - intervals[2 * i]
    return sum
  }
}

/** The mean of several sets of time intervals, such as the sets of a rank's processors. */
export class MeanMeasured {
  private readonly sets: readonly Measured[]

  constructor(sets: readonly Intervals[]) {
    this.sets = sets.map((set) => new Measured(set))
  }

  within(from: number, to: number): number {
    return this.mean((set) => set.within(from, to))
  }

  of(other: Intervals): number {
    return this.mean((set) => set.of(other))
  }

  private mean(time: (set: Measured) => number): number {
    return this.sets.reduce((sum, set) => sum + time(set), 0) / this.sets.length
  }
}
