/**
 * Times of a trace: decimal microseconds in text, to integer nanoseconds, exactly. A double cannot do it: microseconds
 * since 1970 with three decimals have 19 digits. So a time is a whole number of microseconds and 0 to 999 nanoseconds,
 * both negative for a negative time. Digits below a nanosecond are rounded, half away from zero.
 */

export class Microseconds {
  whole = 0
  nanoseconds = 0

  /** Reads the number in `data` from `at` up to `end`; false where it is none or beyond 2^53 microseconds. */
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

  /** Nanoseconds in one number; not an integer below 2^53 where they do not fit one. */
  total(): number {
    return this.whole * 1000 + this.nanoseconds
  }

  /** Many digits, or an exponent. */
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
