/**
 * Interns strings by their bytes. A trace repeats the same few thousand names millions of times, and creating a
 * JavaScript string for each occurrence would dominate the time for reading. Each distinct string is decoded only once.
 * Once the limit is reached, every new string becomes `OTHER`, so that memory stays bounded.
 */

import { QUOTE } from './bytes.ts'
import { hashOf, viewOf } from './words.ts'

export const OTHER = 0
const OTHER_TEXT = '(beyond the limit of distinct names)'

export class ByteStrings {
  overflowed = false
  private readonly limit: number
  private arena = new Uint8Array(1 << 16)
  private words = viewOf(this.arena)
  private used = 0
  private readonly ends: number[] = [0]
  private readonly hashes: number[] = [0]
  private readonly texts: (string | undefined)[] = [OTHER_TEXT]
  private slots = new Int32Array(1 << 12)

  /** Stores at most `limit` bytes of distinct strings, and at most `limit` / 8 strings. */
  constructor(limit = 64 << 20) {
    this.limit = limit
  }

  get size(): number {
    return this.ends.length
  }

  /**
   * The id of the string with the bytes from `from` to `to`, between the quotes and with escape sequences left as they
   * are. `hash` is the hash of the bytes.
   */
  intern(data: DataView, from: number, to: number, hash = hashOf(data, from, to)): number {
    const mask = this.slots.length - 1
    let slot = hash & mask
    for (let id = this.slots[slot]; id !== 0; id = this.slots[slot]) {
      if (this.hashes[id] === hash && this.equals(id, data, from, to)) return id
      slot = (slot + 1) & mask
    }
    if (this.used + (to - from) > this.limit || this.ends.length > this.limit / 8) {
      this.overflowed = true
      return OTHER
    }
    return this.add(data, from, to, hash, slot)
  }

  /** The length of the string in bytes. */
  length(id: number): number {
    return this.ends[id] - this.ends[id - 1]
  }

  /** True if the bytes from `at` up to the next quote are the string with the given id. */
  isAt(id: number, data: DataView, at: number, end: number): boolean {
    const to = at + this.ends[id] - this.ends[id - 1]
    return to < end && data.getUint8(to) === QUOTE && this.equals(id, data, at, to)
  }

  text(id: number): string {
    return (this.texts[id] ??= this.decode(id))
  }

  private equals(id: number, data: DataView, from: number, to: number): boolean {
    let at = this.ends[id - 1]
    if (this.ends[id] - at !== to - from) return false
    const { words } = this
    for (; from + 4 <= to; from += 4, at += 4)
      if (words.getInt32(at, true) !== data.getInt32(from, true)) return false
    for (; from < to; from++, at++) if (words.getUint8(at) !== data.getUint8(from)) return false
    return true
  }

  private add(data: DataView, from: number, to: number, hash: number, slot: number): number {
    while (this.used + (to - from) > this.arena.length) {
      const grown = new Uint8Array(this.arena.length * 2)
      grown.set(this.arena)
      this.arena = grown
      this.words = viewOf(grown)
    }
    this.arena.set(new Uint8Array(data.buffer, data.byteOffset + from, to - from), this.used)
    this.used += to - from
    const id = this.ends.length
    this.ends.push(this.used)
    this.hashes.push(hash)
    this.texts.push(undefined)
    this.slots[slot] = id
    if (id * 2 > this.slots.length) this.rehash()
    return id
  }

  private rehash(): void {
    this.slots = new Int32Array(this.slots.length * 2)
    const mask = this.slots.length - 1
    for (let id = 1; id < this.ends.length; id++) {
      let slot = this.hashes[id] & mask
      while (this.slots[slot] !== 0) slot = (slot + 1) & mask
      this.slots[slot] = id
    }
  }

  private decode(id: number): string {
    const bytes = this.arena.subarray(this.ends[id - 1], this.ends[id])
    const text = new TextDecoder().decode(bytes)
    if (!text.includes('\\')) return text
    try {
      return JSON.parse(`"${text}"`) as string
    } catch {
      return text
    }
  }
}
