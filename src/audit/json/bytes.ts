/**
 * Skips over JSON bytes without building values. Each function takes the position of the first byte of a JSON value.
 * Each function returns the position after the value, `MORE` if the bytes end inside the value, or `BAD` if the bytes
 * are not JSON. Inside a skipped value, only strings and brackets are checked.
 */

export const MORE = -1
export const BAD = -2

export const QUOTE = 0x22
export const BACKSLASH = 0x5c
export const COMMA = 0x2c
export const COLON = 0x3a
export const OPEN_OBJECT = 0x7b
export const CLOSE_OBJECT = 0x7d
export const OPEN_ARRAY = 0x5b
export const CLOSE_ARRAY = 0x5d

/**
 * The maximum depth to which JSON values may be nested. No trace event is nested more deeply than the maximum, and
 * damaged input must not turn the whole file into one value.
 */
export const DEPTH_LIMIT = 64

const PLAIN = 0
const STRING = 1
const OPEN = 2
const CLOSE = 3
const STRUCTURE = new Uint8Array(256)
STRUCTURE[QUOTE] = STRING
STRUCTURE[OPEN_OBJECT] = STRUCTURE[OPEN_ARRAY] = OPEN
STRUCTURE[CLOSE_OBJECT] = STRUCTURE[CLOSE_ARRAY] = CLOSE

/**
 * True for white space. All control characters count as white space, because one comparison can then find white space
 * instead of four.
 */
const isSpace = (byte: number): boolean => byte <= 0x20

/** The position of the next byte that is not white space, or `end`. */
export function skipSpace(data: Uint8Array, at: number, end: number): number {
  while (at < end && isSpace(data[at])) at++
  return at
}

export function skipString(data: Uint8Array, at: number, end: number): number {
  at++
  while (at < end) {
    const byte = data[at]
    if (byte === QUOTE) return at + 1
    if (byte < 0x20) return BAD
    at += byte === BACKSLASH ? 2 : 1
  }
  return MORE
}

/** Skips the rest of an object or array in which `depth` levels are open. */
export function skipRest(data: Uint8Array, at: number, end: number, depth: number): number {
  while (at < end) {
    const what = STRUCTURE[data[at++]]
    if (what === PLAIN) continue
    if (what === STRING) {
      let byte = 0
      while (at < end && (byte = data[at++]) !== QUOTE) {
        if (byte === BACKSLASH) at++
        else if (byte < 0x20) return BAD
      }
      if (byte !== QUOTE) return MORE
    } else if (what === OPEN) {
      if (++depth > DEPTH_LIMIT) return BAD
    } else if (--depth === 0) return at
  }
  return MORE
}

/** True if this byte ends a number or another value without quotes or brackets. */
export const endsScalar = (byte: number): boolean =>
  byte === COMMA || isSpace(byte) || byte === CLOSE_OBJECT || byte === CLOSE_ARRAY

const ENDS = 1
const AMISS = 2
const SCALAR = Uint8Array.from({ length: 256 }, (_, byte) =>
  endsScalar(byte) ? ENDS : byte === QUOTE || byte === COLON ? AMISS : PLAIN,
)

export function skipScalar(data: Uint8Array, at: number, end: number): number {
  for (const from = at; at < end; at++) {
    const what = SCALAR[data[at]]
    if (what !== PLAIN) return what === ENDS && at > from ? at : BAD
  }
  return MORE
}

export function skipValue(data: Uint8Array, at: number, end: number): number {
  const byte = data[at]
  if (byte === QUOTE) return skipString(data, at, end)
  if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) return skipRest(data, at + 1, end, 1)
  return skipScalar(data, at, end)
}

/** Skips a JSON value of any size whose bytes arrive in several chunks. */
export class ValueSkipper {
  private depth = 0
  private inString = false
  private escaped = false

  /** Returns the position after the value, which may have begun in an earlier chunk, or `MORE`. */
  skip(data: Uint8Array, at: number, end: number): number {
    for (; at < end; at++) {
      const byte = data[at]
      if (this.inString) {
        if (this.escaped) this.escaped = false
        else if (byte === BACKSLASH) this.escaped = true
        else if (byte === QUOTE) {
          this.inString = false
          if (this.depth === 0) return at + 1
        }
      } else if (byte === QUOTE) this.inString = true
      else if (STRUCTURE[byte] === OPEN) this.depth++
      else if (STRUCTURE[byte] === CLOSE) {
        if (this.depth === 0) return at
        if (--this.depth === 0) return at + 1
      } else if (this.depth === 0 && byte === COMMA) return at
    }
    return MORE
  }
}

/** Joins the unread bytes of the previous chunk with the next chunk in a buffer that is reused. */
export class JoinedPieces {
  private buffer = new Uint8Array(0)

  /** Returns the joined bytes, which are valid until the next call. */
  after(rest: Uint8Array, piece: Uint8Array): Uint8Array {
    if (rest.length === 0) return new Uint8Array(piece.buffer, piece.byteOffset, piece.length)
    const length = rest.length + piece.length
    if (this.buffer.length < length) this.buffer = new Uint8Array(length + (length >> 2))
    this.buffer.set(rest)
    this.buffer.set(piece, rest.length)
    return this.buffer.subarray(0, length)
  }
}
