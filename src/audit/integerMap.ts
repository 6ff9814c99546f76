/**
 * A map from integers to event indexes. The ids of a profiler are nearly consecutive, so most keys are stored in pages,
 * at 4 bytes per key. Scattered keys, as in a damaged trace, are stored in a hash table, at no more than 48 bytes per
 * key.
 */
import { Column, int32 } from '../timeline/columns.ts'

/** Keys per page. Pages are small because ids may come in bursts with gaps between the bursts. */
const PAGE = 1 << 7
/**
 * The maximum number of page entries per stored key. The first `FEW` pages are added even if the map then has more page
 * entries per stored key than the maximum.
 */
const SPARSEST = 8
const FEW = 1 << 11

export class IntegerMap {
  size = 0
  /** For each page number: the index of the page's first entry in `places`. */
  private readonly pages = new Map<number, number>()
  private readonly places = new Column(int32)
  private scattered = new HashTable()
  /** The page of the last key that was looked up. Most lookups need the page of the previous lookup. */
  private lastNumber = -1
  private last = -1

  /** The value of the key, or -1 if the key is absent. */
  get(key: number): number {
    const page = this.page(key)
    const value = page < 0 ? -1 : this.places.get(page + (key % PAGE))
    // The key may have been stored in the hash table before its page was added.
    return value >= 0 ? value : this.scattered.get(key)
  }

  set(key: number, value: number): void {
    let page = this.page(key)
    if (page < 0 && this.mayHavePage(key)) page = this.addPage(key)
    if (page >= 0) {
      const place = page + (key % PAGE)
      if (this.places.get(place) < 0) this.size++
      this.places.set(place, value)
    } else if (this.scattered.set(key, value)) this.size++
  }

  /** Removes all keys and frees the memory. */
  clear(): void {
    this.size = 0
    this.pages.clear()
    this.places.clear()
    this.scattered = new HashTable()
    this.lastNumber = this.last = -1
  }

  /** The index of the first entry in the key's page, or -1 if the key has no page. */
  private page(key: number): number {
    if (!(key >= 0) || !Number.isSafeInteger(key)) return -1
    const number = Math.floor(key / PAGE)
    if (number !== this.lastNumber) {
      this.last = this.pages.get(number) ?? -1
      this.lastNumber = number
    }
    return this.last
  }

  private addPage(key: number): number {
    const page = this.places.length
    for (let i = 0; i < PAGE; i++) this.places.push(-1)
    this.pages.set(Math.floor(key / PAGE), page)
    this.lastNumber = -1
    return page
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

  /** Returns true if the key is new. */
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
