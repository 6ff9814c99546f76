/**
 * Interned strings by their bytes: a trace repeats the same few thousand names millions of times, and making a
 * JavaScript string of each would cost more than all the rest of reading. Text is decoded once for each string.
 * Past the limit every new string is `OTHER`, so that memory stays bounded.
 */

export const OTHER = 0
const FACTOR = 0x01000193
const OTHER_TEXT = '(beyond the limit of distinct names)'

/** A hash of the length, both ends and every `stride`-th byte between. */
function hashOf(data: Uint8Array, from: number, to: number, stride: number): number {
  let hash = (to - from) | 0
  if (to - from <= 24) {
    for (let i = from; i < to; i++) hash = Math.imul(hash ^ data[i], FACTOR)
    return hash
  }
  for (let i = from; i < from + 8; i++) hash = Math.imul(hash ^ data[i], FACTOR)
  for (let i = from + 8; i < to - 16; i += stride) hash = Math.imul(hash ^ data[i], FACTOR)
  for (let i = to - 16; i < to; i++) hash = Math.imul(hash ^ data[i], FACTOR)
  return hash
}

export class ByteStrings {
  overflowed = false
  private readonly limit: number
  private readonly stride: number
  private arena = new Uint8Array(1 << 16)
  private used = 0
  private readonly ends: number[] = [0]
  private readonly hashes: number[] = [0]
  private readonly texts: (string | undefined)[] = [OTHER_TEXT]
  private slots = new Int32Array(1 << 12)

  /**
   * At most `limit` bytes of distinct strings, and an eighth as many strings. Kernels' names have hundreds of bytes,
   * differ in many of them and are compared whole anyway, so every seventh byte is enough to hash them by; strings
   * that differ in a digit want a smaller stride.
   */
  constructor(limit = 64 << 20, stride = 7) {
    this.limit = limit
    this.stride = stride
  }

  get size(): number {
    return this.ends.length
  }

  /** The number of the string with these bytes, as between the quotes, escapes included. */
  intern(data: Uint8Array, from: number, to: number): number {
    const hash = hashOf(data, from, to, this.stride)
    const mask = this.slots.length - 1
    let slot = (hash ^ (hash >>> 15)) & mask
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

  text(id: number): string {
    return (this.texts[id] ??= this.decode(id))
  }

  private equals(id: number, data: Uint8Array, from: number, to: number): boolean {
    const start = this.ends[id - 1]
    if (this.ends[id] - start !== to - from) return false
    const { arena } = this
    for (let i = start, j = from; j < to; i++, j++) if (arena[i] !== data[j]) return false
    return true
  }

  private add(data: Uint8Array, from: number, to: number, hash: number, slot: number): number {
    while (this.used + (to - from) > this.arena.length) {
      const grown = new Uint8Array(this.arena.length * 2)
      grown.set(this.arena)
      this.arena = grown
    }
    this.arena.set(data.subarray(from, to), this.used)
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
      let slot = (this.hashes[id] ^ (this.hashes[id] >>> 15)) & mask
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
