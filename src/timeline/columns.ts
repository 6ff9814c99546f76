/**
 * Growable columns: typed arrays that double when full. Events live in columns, not in objects, so that a million of
 * them cost tens of megabytes and a pass over one property reads only that property.
 */

/** From here on a column grows by a quarter: half of what doubling adds would never be used, and count as memory. */
const LARGE = 1 << 18

type Numbers = Float64Array | Int32Array | Uint32Array | Uint8Array

export class Column<T extends Numbers> {
  length = 0
  private values: T
  private readonly make: (length: number) => T

  constructor(make: (length: number) => T) {
    this.make = make
    this.values = make(64)
  }

  push(value: number): void {
    if (this.length === this.values.length) this.grow()
    this.values[this.length++] = value
  }

  get(index: number): number {
    return this.values[index]
  }

  set(index: number, value: number): void {
    this.values[index] = value
  }

  /** The values in the order of `from`; the column is empty afterwards, its memory free. */
  take(from: Uint32Array): T {
    const taken = this.make(from.length)
    for (let i = 0; i < from.length; i++) taken[i] = this.values[from[i]]
    this.values = this.make(0)
    this.length = 0
    return taken
  }

  /** The values in the order in which they came. */
  all(): T {
    return this.values.slice(0, this.length) as T
  }

  private grow(): void {
    const { length } = this.values
    const grown = this.make(length < LARGE ? Math.max(64, length * 2) : Math.ceil(length * 1.25))
    grown.set(this.values)
    this.values = grown
  }
}

export const float64 = (length: number): Float64Array => new Float64Array(length)
export const int32 = (length: number): Int32Array => new Int32Array(length)
export const uint32 = (length: number): Uint32Array => new Uint32Array(length)
export const uint8 = (length: number): Uint8Array => new Uint8Array(length)
