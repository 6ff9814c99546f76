/**
 * A map from integers to event indexes. Ids of a profiler are nearly consecutive, so they are kept in pages, 4 bytes
 * each; those that are not, as in a damaged trace, in a hash table of at most 48 bytes each.
 */

const PAGE = 1 << 12
/** Pages may have this many places for each key, beyond the first few. */
const SPARSEST = 8
const FEW = 64

export class IntegerMap {
  size = 0
  private readonly pages = new Map<number, Int32Array>()
  private readonly scattered = new HashTable()
  /** The page of the last key; most are on it. */
  private lastNumber = -1
  private last: Int32Array | undefined

  /** The value of a key, or -1. */
  get(key: number): number {
    const page = this.page(key)
    // A key may have come before its page.
    return page && page[key % PAGE] >= 0 ? page[key % PAGE] : this.scattered.get(key)
  }

  set(key: number, value: number): void {
    let page = this.page(key)
    if (!page && this.mayHavePage(key)) {
      page = new Int32Array(PAGE).fill(-1)
      this.pages.set(Math.floor(key / PAGE), page)
      this.lastNumber = -1
    }
    if (page) {
      if (page[key % PAGE] < 0) this.size++
      page[key % PAGE] = value
    } else if (this.scattered.set(key, value)) this.size++
  }

  private page(key: number): Int32Array | undefined {
    if (!(key >= 0) || !Number.isSafeInteger(key)) return undefined
    const number = Math.floor(key / PAGE)
    if (number !== this.lastNumber) {
      this.last = this.pages.get(number)
      this.lastNumber = number
    }
    return this.last
  }

  private mayHavePage(key: number): boolean {
    if (!(key >= 0) || !Number.isSafeInteger(key)) return false
    return (
      (this.pages.size < FEW || this.pages.size * PAGE <= SPARSEST * this.size) && this.scattered.get(key) < 0
    )
  }
}

class HashTable {
  private size = 0
  private keys = new Float64Array(64).fill(NaN)
  private values = new Int32Array(64)

  get(key: number): number {
    const slot = this.slot(key)
    return this.keys[slot] === key ? this.values[slot] : -1
  }

  /** Whether the key is new. */
  set(key: number, value: number): boolean {
    let slot = this.slot(key)
    const isNew = this.keys[slot] !== key
    if (isNew) {
      if (++this.size * 2 > this.keys.length) {
        this.grow()
        slot = this.slot(key)
      }
      this.keys[slot] = key
    }
    this.values[slot] = value
    return isNew
  }

  private slot(key: number): number {
    const mask = this.keys.length - 1
    let slot = Math.imul(key % 0x7fffffff, 0x9e3779b1) >>> 0
    slot = (slot ^ (slot >>> 15)) & mask
    while (this.keys[slot] !== key && !Number.isNaN(this.keys[slot])) slot = (slot + 1) & mask
    return slot
  }

  private grow(): void {
    const { keys, values } = this
    this.keys = new Float64Array(keys.length * 2).fill(NaN)
    this.values = new Int32Array(values.length * 2)
    for (let i = 0; i < keys.length; i++) {
      if (Number.isNaN(keys[i])) continue
      const slot = this.slot(keys[i])
      this.keys[slot] = keys[i]
      this.values[slot] = values[i]
    }
  }
}
