/**
 * Disjoint stretches of time in order, each of a category, and how much of each category lies in each pixel of a
 * window. Sums of whole blocks are kept, so a pixel costs a search and at most two blocks, however many stretches it
 * covers.
 */
import { categoryCount } from '../categories.ts'

const BLOCK = 32

export class Segments {
  readonly start: Float64Array
  readonly end: Float64Array
  readonly category: Uint8Array
  /** The time of each category before each block. */
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

  /** The time of all. */
  get total(): number {
    return this.before.subarray(-categoryCount).reduce((sum, time) => sum + time, 0)
  }

  /** The first that ends after `time`, from `low` on. */
  endingAfter(time: number, low = 0): number {
    let high = this.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.end[middle] > time) high = middle
      else low = middle + 1
    }
    return low
  }

  /** The first that starts at `time` or later, from `low` on. */
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
   * For each of `columns` equal parts of the window, the share of each category, at `column * categoryCount`. With
   * `crisp`, a column that holds nothing but edges of wider stretches goes to the one that has most of it.
   */
  coverage(from: number, to: number, columns: number, out: Float32Array, crisp = false): void {
    out.fill(0, 0, columns * categoryCount)
    const width = (to - from) / columns
    let i = this.endingAfter(from)
    for (let column = 0; column < columns && i < this.length; column++) {
      const right = from + (column + 1) * width
      if (this.start[i] >= right) {
        // Nothing until the next one: go on at its column.
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

  /** The time of each category in `[left, right)`, given that the stretches from `i` up to `next` overlap it. */
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

  /** Whether all stretches of a column reach beyond it. */
  private edges(i: number, next: number, left: number, right: number): boolean {
    if (next - i === 1) return this.start[i] < left || this.end[i] > right
    return next - i === 2 && this.start[i] < left && this.end[i + 1] > right
  }

  private add(out: Float32Array | Float64Array, base: number, i: number, from: number, to: number): void {
    if (this.category[i] < categoryCount && to > from) out[base + this.category[i]] += to - from
  }
}

/** The column goes to the category that has most of it, or to none. */
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
