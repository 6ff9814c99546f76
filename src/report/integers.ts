/**
 * Reads and writes variable-length integers from 0 to 2^53. Each byte holds seven bits, and the lowest bits come first.
 */

export class IntegerWriter {
  private bytes = new Uint8Array(1 << 16)
  private length = 0

  push(value: number): void {
    if (this.length + 8 > this.bytes.length) this.grow(this.length + 8)
    let rest = value
    // For integers of more than 31 bits, shifts would lose the upper bits.
    while (rest > 0x7fffffff) {
      this.bytes[this.length++] = (rest % 128) | 128
      rest = Math.floor(rest / 128)
    }
    while (rest > 127) {
      this.bytes[this.length++] = (rest & 127) | 128
      rest >>>= 7
    }
    this.bytes[this.length++] = rest
  }

  /** Appends all integers of another writer. */
  append(other: IntegerWriter): void {
    this.grow(this.length + other.length)
    this.bytes.set(other.take(), this.length)
    this.length += other.length
  }

  take(): Uint8Array {
    return this.bytes.subarray(0, this.length)
  }

  private grow(least: number): void {
    if (least <= this.bytes.length) return
    const grown = new Uint8Array(Math.max(least, 2 * this.bytes.length))
    grown.set(this.bytes)
    this.bytes = grown
  }
}

export class IntegerReader {
  private at = 0
  private readonly bytes: Uint8Array

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
  }

  next(): number {
    const bytes = this.bytes
    let byte = bytes[this.at++]
    if (byte < 128) return byte
    let value = byte & 127
    let scale = 128
    do {
      byte = bytes[this.at++]
      value += (byte & 127) * scale
      scale *= 128
    } while (byte > 127)
    return value
  }
}

/** Maps signed to unsigned integers such that numbers near zero stay small: 0, −1, 1, −2, … become 0, 1, 2, 3, … */
export const fold = (value: number): number => (value >= 0 ? 2 * value : -2 * value - 1)
export const unfold = (value: number): number => (value % 2 === 0 ? value / 2 : -(value + 1) / 2)
