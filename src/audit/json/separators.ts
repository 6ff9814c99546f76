/**
 * Predicts the bytes between two values of an object, such as `, "name": `. A profiler writes the same few separators
 * in nearly the same order, so the next separator is guessed from the previous separator and only compared, four bytes
 * at a time. If all bytes are equal, the guessed separator identifies the field of the next value without parsing.
 */

/**
 * The maximum number of distinct separators that are stored. Separators beyond the maximum number, and separators of
 * more than `LONGEST` bytes, are never guessed.
 */
const MOST = 250
const LONGEST = 64
const SHORTEST = 4
/**
 * After each separator, at most this many guesses for the next separator are tried, in the order in which they were
 * first seen.
 */
const GUESSES = 4
const NONE = 0
/** The state before the first value of an object. */
export const START = 0
/** The id of every separator that is not stored. */
const UNKNOWN = MOST + 1

export class Separators {
  private readonly bytes = new DataView(new ArrayBuffer((MOST + 2) * LONGEST))
  private readonly lengths = new Uint8Array(MOST + 2)
  private readonly fields = new Int16Array(MOST + 2)
  private readonly next = new Uint8Array((MOST + 2) * GUESSES)
  private count = 0

  /** The id of the separator that follows the separator `before` at position `at`, or 0 if no guess matches. */
  guess(before: number, data: DataView, at: number, end: number): number {
    for (let i = before * GUESSES; i < (before + 1) * GUESSES; i++) {
      const guess = this.next[i]
      if (guess === NONE || this.is(guess, data, at, end)) return guess
    }
    return NONE
  }

  length(separator: number): number {
    return this.lengths[separator]
  }

  field(separator: number): number {
    return this.fields[separator]
  }

  /** Stores the separator that follows the separator `before`. Returns its id. */
  learn(before: number, data: DataView, from: number, to: number, end: number, field: number): number {
    const length = to - from
    if (length < SHORTEST || length > LONGEST) return UNKNOWN
    let found = 1
    while (found <= this.count && !(this.lengths[found] === length && this.is(found, data, from, end)))
      found++
    if (found > this.count) {
      if (this.count === MOST) return UNKNOWN
      this.count = found
      this.lengths[found] = length
      this.fields[found] = field
      for (let i = 0; i < length; i++) this.bytes.setUint8(found * LONGEST + i, data.getUint8(from + i))
    }
    if (before === UNKNOWN) return found
    const first = before * GUESSES
    let free = first
    while (free < first + GUESSES - 1 && this.next[free] !== NONE) free++
    this.next[free] = found
    return found
  }

  /** True if the separator's bytes are found at `at`, and the byte after them starts a value and is not white space. */
  private is(separator: number, data: DataView, at: number, end: number): boolean {
    const length = this.lengths[separator]
    if (at + length >= end) return false
    const { bytes } = this
    const own = separator * LONGEST
    for (let i = 0; i + SHORTEST < length; i += SHORTEST)
      if (bytes.getInt32(own + i, true) !== data.getInt32(at + i, true)) return false
    const last = length - SHORTEST
    return (
      bytes.getInt32(own + last, true) === data.getInt32(at + last, true) && data.getUint8(at + length) > 0x20
    )
  }
}
