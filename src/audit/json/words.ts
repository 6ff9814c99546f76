/**
 * Scans JSON strings four bytes at a time. As in `bytes.ts`, functions return the position after the scanned text,
 * `MORE` if the bytes end inside it, or `BAD` if it is damaged. Functions take a `DataView` besides the byte array,
 * because only a view can read four unaligned bytes.
 */
import { BACKSLASH, BAD, CLOSE_ARRAY, CLOSE_OBJECT, MORE, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './bytes.ts'
import { DEPTH_LIMIT, skipString } from './bytes.ts'

const FACTOR = 0x9e3779b1

export const viewOf = ({ buffer, byteOffset, length }: Uint8Array): DataView =>
  new DataView(buffer, byteOffset, length)

/**
 * Returns zero if none of the four bytes is a quote, a backslash or a control character; otherwise, the lowest set bit
 * of the result is the high bit of the first such character.
 */
function special(word: number): number {
  const quote = word ^ 0x22222222
  const backslash = word ^ 0x5c5c5c5c
  return (
    (((quote - 0x01010101) & ~quote) |
      ((backslash - 0x01010101) & ~backslash) |
      ((word - 0x20202020) & ~word)) &
    0x80808080
  )
}

/** The index of the byte that contains the lowest set bit. */
const firstOf = (bits: number): number => (31 - Math.clz32(bits & -bits)) >> 3

function mixed(hash: number, word: number): number {
  const product = Math.imul(hash ^ word, FACTOR)
  return product ^ (product >>> 15)
}

/**
 * The hash of the bytes of `view` between `from` and `to`. If fewer than four bytes are left at the end, they are
 * padded with zeros before they are hashed.
 */
export function hashOf(view: DataView, from: number, to: number): number {
  let hash = 0
  let at = from
  for (; at + 4 <= to; at += 4) hash = mixed(hash, view.getInt32(at, true))
  if (at < to) {
    let word = 0
    for (let i = to - 1; i >= at; i--) word = (word << 8) | view.getUint8(i)
    hash = mixed(hash, word)
  }
  return mixed(hash, to - from)
}

/** The hash of the string that `scanString` scanned last. */
export const scanned = new Int32Array(1)

/**
 * Works like `skipString`, but also computes the hash of the bytes between the quotes, with escape sequences left as
 * they are.
 */
export function scanString(data: Uint8Array, view: DataView, at: number, end: number): number {
  const from = at + 1
  let hash = 0
  for (at = from; at + 4 <= end; at += 4) {
    const word = view.getInt32(at, true)
    const bits = special(word)
    if (bits === 0) {
      hash = mixed(hash, word)
      continue
    }
    const left = firstOf(bits)
    if (data[at + left] !== QUOTE) break
    if (left > 0) hash = mixed(hash, word & ((1 << (8 * left)) - 1))
    scanned[0] = mixed(hash, at + left - from)
    return at + left + 1
  }
  // A string that the fast loop did not finish has an escape sequence, is damaged, or reaches the end of the bytes.
  const to = skipString(data, from - 1, end)
  if (to >= 0) scanned[0] = hashOf(view, from, to - 1)
  return to
}

const PLAIN = 0
const STRING = 1
const OPEN = 2
const STRUCTURE = new Uint8Array(256)
STRUCTURE[QUOTE] = STRING
STRUCTURE[OPEN_OBJECT] = STRUCTURE[OPEN_ARRAY] = OPEN
STRUCTURE[CLOSE_OBJECT] = STRUCTURE[CLOSE_ARRAY] = 3

/** Skips the rest of an object or array in which `depth` levels are open. */
export function skipRest(data: Uint8Array, view: DataView, at: number, end: number, depth: number): number {
  while (at < end) {
    const what = STRUCTURE[data[at++]]
    if (what === PLAIN) continue
    if (what === STRING) {
      for (;;) {
        if (at + 4 > end) {
          at = skipString(data, at - 1, end)
          if (at < 0) return at
          break
        }
        const bits = special(view.getInt32(at, true))
        if (bits === 0) {
          at += 4
          continue
        }
        at += firstOf(bits)
        const byte = data[at++]
        if (byte === QUOTE) break
        if (byte !== BACKSLASH) return BAD
        at++
      }
    } else if (what === OPEN) {
      if (++depth > DEPTH_LIMIT) return BAD
    } else if (--depth === 0) return at
  }
  return MORE
}
