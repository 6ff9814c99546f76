/**
 * The interval of time that the tracks show. The visible interval stays inside the audited time and has a minimum
 * length.
 */

/**
 * The minimum length of the visible interval, in nanoseconds. If the visible interval were shorter, a pixel would be a
 * fraction of a clock tick.
 */
const LEAST = 200

export class View {
  from: number
  to: number
  readonly first: number
  readonly last: number

  constructor(first: number, last: number) {
    const margin = 0.01 * (last - first)
    this.first = first - margin
    this.last = Math.max(last + margin, this.first + LEAST)
    this.from = this.first
    this.to = this.last
  }

  get span(): number {
    return this.to - this.from
  }

  show(from: number, to: number): void {
    const span = Math.min(Math.max(to - from, LEAST), this.last - this.first)
    const middle = (from + to) / 2
    this.from = Math.min(Math.max(middle - span / 2, this.first), this.last - span)
    this.to = this.from + span
  }

  /** Zooms so that the time at the fraction `share` of the width keeps its position on the screen. */
  zoom(factor: number, share: number): void {
    const span = Math.min(Math.max(this.span / factor, LEAST), this.last - this.first)
    const from = this.from + (this.span - span) * share
    this.show(from, from + span)
  }

  /** Moves the view by a fraction of its width. */
  pan(share: number): void {
    const by = this.span * share
    this.show(this.from + by, this.to + by)
  }

  fit(): void {
    this.show(this.first, this.last)
  }

  x(time: number, width: number): number {
    return ((time - this.from) / this.span) * width
  }

  time(x: number, width: number): number {
    return this.from + (x / width) * this.span
  }
}

/**
 * The distance between two marks of an axis. The distance is 1, 2 or 5 times a power of ten, such that marks are at
 * least `pixels` apart.
 */
export function markDistance(span: number, width: number, pixels: number): number {
  const least = (span / width) * pixels
  const decade = 10 ** Math.floor(Math.log10(least))
  for (const factor of [1, 2, 5]) if (factor * decade >= least) return Math.max(1, factor * decade)
  return Math.max(1, 10 * decade)
}
