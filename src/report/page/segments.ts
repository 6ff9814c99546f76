/**
 * Stores sorted, disjoint intervals of time, each with a category, and computes the share of each category in each
 * pixel of a window. The sums of whole blocks of intervals are stored, so the cost of a pixel is one search and at most
 * two blocks, for any number of intervals in the pixel.
 */
import { categoryCount } from '../categories.ts'

const BLOCK = 32

export class Segments {
  readonly start: Float64Array
  readonly end: Float64Array
  readonly category: Uint8Array
  /** For each block of intervals: the time of each category before the block. */
  private readonly before: Float64Array

  constructor(start: Float64Array, end: Float64Array, category: Uint8Array) {
    this.start = start
    this.end = end
    this.category = category
    const blocks = Math.ceil(start.length / BLOCK) + 1
    this.before = new Float64Array(blocks * categoryCount)
    for (let block = 1; block < blocks; block++) {
      const base = block * categoryCount
      for (let c = 0; c < categoryCount; c++) this.before[base + c] = this.before[base - categoryCount + c]
      const stop = Math.min(block * BLOCK, start.length)
      for (let i = (block - 1) * BLOCK; i < stop; i++) this.add(this.before, base, i, start[i], end[i])
    }
  }

  get length(): number {
    return this.start.length
  }

  /** The total time of all intervals. */
  get total(): number {
    return this.before.subarray(-categoryCount).reduce((sum, time) => sum + time, 0)
  }

  /** The index of the first interval that ends after `time`, searched from `low`. */
  endingAfter(time: number, low = 0): number {
    let high = this.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.end[middle] > time) high = middle
      else low = middle + 1
    }
    return low
  }

  /** The index of the first interval that starts at `time` or later, searched from `low`. */
  startingFrom(time: number, low = 0): number {
    let step = 1
    let high = low
    while (high < this.length && this.start[high] < time) {
      low = high + 1
      high += step
      step *= 2
    }
    high = Math.min(high, this.length)
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.start[middle] >= time) high = middle
      else low = middle + 1
    }
    return low
  }

  /**
   * Divides the window into `columns` columns of equal width and computes the share of each category in each column.
   * The shares are stored at `column * categoryCount`. With `crisp`, a column that contains only the edges of wider
   * intervals gets the category with the largest share.
   */
  coverage(from: number, to: number, columns: number, out: Float32Array, crisp = false): void {
    out.fill(0, 0, columns * categoryCount)
    const width = (to - from) / columns
    let i = this.endingAfter(from)
    for (let column = 0; column < columns && i < this.length; column++) {
      const right = from + (column + 1) * width
      if (this.start[i] >= right) {
        // There is a gap before the next interval, so painting continues at the column in which the next interval
        // starts.
        column = Math.max(column, Math.floor((this.start[i] - from) / width) - 1)
        continue
      }
      const left = from + column * width
      const next = this.startingFrom(right, i + 1)
      this.sum(i, next, left, right, out, column * categoryCount)
      for (let c = 0; c < categoryCount; c++) out[column * categoryCount + c] /= width
      if (crisp && this.edges(i, next, left, right)) decide(out, column * categoryCount)
      i = this.end[next - 1] > right ? next - 1 : next
    }
  }

  /**
   * Sums the time of each category from `left` (included) to `right` (excluded). The intervals from `i` up to `next`
   * (excluded) overlap the column.
   */
  private sum(i: number, next: number, left: number, right: number, out: Float32Array, base: number): void {
    if (next - i <= 2 * BLOCK) {
      for (let k = i; k < next; k++)
        this.add(out, base, k, Math.max(this.start[k], left), Math.min(this.end[k], right))
      return
    }
    const first = Math.ceil((i + 1) / BLOCK)
    const last = Math.floor((next - 1) / BLOCK)
    for (let k = i; k < first * BLOCK; k++) this.add(out, base, k, Math.max(this.start[k], left), this.end[k])
    for (let c = 0; c < categoryCount; c++)
      out[base + c] += this.before[last * categoryCount + c] - this.before[first * categoryCount + c]
    for (let k = last * BLOCK; k < next; k++)
      this.add(out, base, k, this.start[k], Math.min(this.end[k], right))
  }

  /** True if all intervals that touch a column extend beyond it. */
  private edges(i: number, next: number, left: number, right: number): boolean {
    if (next - i === 1) return this.start[i] < left || this.end[i] > right
    return next - i === 2 && this.start[i] < left && this.end[i + 1] > right
  }

  private add(out: Float32Array | Float64Array, base: number, i: number, from: number, to: number): void {
    if (this.category[i] < categoryCount && to > from) out[base + this.category[i]] += to - from
  }
}

/** Assigns the column to the category with the largest share, or to no category. */
function decide(out: Float32Array, base: number): void {
  let [most, left] = [base, 1]
  for (let c = base; c < base + categoryCount; c++) {
    left -= out[c]
    if (out[c] > out[most]) most = c
  }
  const winner = out[most] >= left
  out.fill(0, base, base + categoryCount)
  if (winner) out[most] = 1
}
