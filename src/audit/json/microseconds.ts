/**
 * Converts times of a trace from decimal microseconds to integer nanoseconds, exactly. A double is not precise enough,
 * since microseconds since 1970 with three decimals have 19 digits. A time is therefore stored as whole microseconds
 * plus 0 to 999 nanoseconds, both negative for a negative time. Digits below a nanosecond are rounded, half away from
 * zero.
 */

import { endsScalar } from './bytes.ts'

/** The number of digits that fit into 32 bits, and the number of further digits that the fast path accepts. */
const FIRST = 9
const MORE_DIGITS = 6
const powers = Float64Array.from({ length: MORE_DIGITS + 1 }, (_, i) => 10 ** i)

export class Microseconds {
  whole = 0
  nanoseconds = 0

  /**
   * The fast path reads numbers in the form that profilers write: up to 15 digits before the decimal point and up to
   * three after it. Returns the position after the number, or -1 if the number has another form or may continue after
   * `end`.
   */
  scan(data: Uint8Array, at: number, end: number): number {
    const from = at
    let digit: number
    let whole = 0
    for (const stop = Math.min(end, at + FIRST); at < stop && (digit = data[at] ^ 0x30) <= 9; at++)
      whole = (Math.imul(whole, 10) + digit) | 0
    if (at === from) return -1
    let total = whole
    if (at === from + FIRST) {
      let more = 0
      const then = at
      for (const stop = Math.min(end, at + MORE_DIGITS); at < stop && (digit = data[at] ^ 0x30) <= 9; at++)
        more = (Math.imul(more, 10) + digit) | 0
      total = whole * powers[at - then] + more
    }
    if (at >= end) return -1
    let nanoseconds = 0
    if (data[at] === 0x2e) {
      const point = at++
      for (const stop = Math.min(end, at + 3); at < stop && (digit = data[at] ^ 0x30) <= 9; at++)
        nanoseconds = (Math.imul(nanoseconds, 10) + digit) | 0
      if (at >= end || at === point + 1) return -1
      if (at < point + 4) nanoseconds *= at === point + 3 ? 10 : 100
    }
    if (!endsScalar(data[at])) return -1
    this.whole = total
    this.nanoseconds = nanoseconds
    return at
  }

  /**
   * Reads the number in `data` from `at` up to `end`. Returns false if the bytes are not a number or if the number is
   * beyond 2^53 microseconds.
   */
  read(data: Uint8Array, at: number, end: number): boolean {
    const from = at
    const negative = data[at] === 0x2d
    if (negative) at++
    const digits = at
    let whole = 0
    while (at < end && data[at] >= 0x30 && data[at] <= 0x39) whole = whole * 10 + data[at++] - 0x30
    if (at === digits) return false
    if (at - digits > 15) return this.readLong(data, from, end)
    let nanoseconds = 0
    if (at < end && data[at] === 0x2e) {
      let scale = 100
      const fraction = ++at
      while (at < end && data[at] >= 0x30 && data[at] <= 0x39) {
        if (scale >= 1) nanoseconds += (data[at] - 0x30) * scale
        else if (at === fraction + 3 && data[at] >= 0x35) nanoseconds++
        scale = scale >= 10 ? scale / 10 : scale === 1 ? 0 : scale
        at++
      }
      if (at === fraction) return false
    }
    if (at < end) return this.readLong(data, from, end)
    if (nanoseconds === 1000) {
      whole++
      nanoseconds = 0
    }
    this.whole = negative ? 0 - whole : whole
    this.nanoseconds = negative ? 0 - nanoseconds : nanoseconds
    return true
  }

  /** The time in nanoseconds as a single number, which is not exact beyond 2^53. */
  total(): number {
    return this.whole * 1000 + this.nanoseconds
  }

  /** The slow path reads numbers with many digits or with an exponent. */
  private readLong(data: Uint8Array, from: number, end: number): boolean {
    if (end - from > 400) return false
    const text = String.fromCharCode(...data.subarray(from, end))
    const parts = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,4}))?$/.exec(text)
    if (!parts) return false
    const [, sign, integer, fraction = '', exponent = '0'] = parts
    // value = digits x 10^power nanoseconds
    const power = Number(exponent) - fraction.length + 3
    let digits = BigInt(integer + fraction)
    if (digits !== 0n && power > 40) return false
    if (power >= 0) digits *= 10n ** BigInt(digits === 0n ? 0 : power)
    else {
      const unit = 10n ** BigInt(-power)
      digits = (digits + unit / 2n) / unit
    }
    const whole = Number(digits / 1000n)
    if (!Number.isSafeInteger(whole)) return false
    const nanoseconds = Number(digits % 1000n)
    this.whole = sign ? 0 - whole : whole
    this.nanoseconds = sign ? 0 - nanoseconds : nanoseconds
    return true
  }
}
