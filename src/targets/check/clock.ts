/** Implements vector clocks: the latest known time of each component (an agent, or an asynchronous copy). */
/** New vector clocks get the length of the longest clock so far, so that they rarely grow. */
let usualLength = 16

export class Clock {
  #times: Int32Array

  constructor(times: Int32Array = new Int32Array(usualLength)) {
    this.#times = times
  }

  get(component: number): number {
    return component < this.#times.length ? this.#times[component] : 0
  }

  set(component: number, time: number): void {
    if (component >= this.#times.length) this.#grow(component + 1)
    this.#times[component] = time
  }

  tick(component: number): void {
    this.set(component, this.get(component) + 1)
  }

  join(other: Clock): void {
    const theirs = other.#times
    if (theirs.length > this.#times.length) this.#grow(theirs.length)
    const ours = this.#times
    for (let i = 0; i < theirs.length; i++) if (theirs[i] > ours[i]) ours[i] = theirs[i]
  }

  clear(): void {
    this.#times.fill(0)
  }

  copy(): Clock {
    return new Clock(this.#times.slice())
  }

  /** A digest (hash) of a vector clock that does not depend on the numbering of components. */
  hash(keyOf: (component: number) => number): number {
    let hash = 17
    const times = this.#times
    for (let i = 0; i < times.length; i++) if (times[i] !== 0) hash = (hash + mix(keyOf(i), times[i])) | 0
    return hash
  }

  #grow(length: number): void {
    let size = this.#times.length
    while (size < length) size *= 2
    usualLength = Math.max(usualLength, size)
    const grown = new Int32Array(size)
    grown.set(this.#times)
    this.#times = grown
  }
}

/** One round of a multiplicative hash on 32 bits. */
export function mix(hash: number, value: number): number {
  let h = Math.imul(hash ^ value, 0x9e3779b1)
  h ^= h >>> 15
  h = Math.imul(h, 0x85ebca6b)
  return (h ^ (h >>> 13)) | 0
}
