/** A map from integers to event indexes in two typed arrays: millions of correlation ids in 24 bytes each or less. */

export class IntegerMap {
  size = 0
  private keys = new Float64Array(1024).fill(NaN)
  private values = new Int32Array(1024)

  /** The value of a key, or -1. */
  get(key: number): number {
    const slot = this.slot(key)
    return this.keys[slot] === key ? this.values[slot] : -1
  }

  set(key: number, value: number): void {
    let slot = this.slot(key)
    if (this.keys[slot] !== key) {
      if (++this.size * 2 > this.keys.length) {
        this.grow()
        slot = this.slot(key)
      }
      this.keys[slot] = key
    }
    this.values[slot] = value
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
