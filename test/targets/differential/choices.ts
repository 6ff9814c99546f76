/**
 * Reads the decisions of a generator from a list of numbers. After the end of the list, every decision takes the first
 * option, which gives the simplest kernel. A shorter list with smaller numbers therefore yields a simpler kernel, and
 * fast-check can shrink kernels without knowing their structure.
 */
import fc from 'fast-check'

export class Choices {
  readonly #genes: readonly number[]
  #next = 0
  constructor(genes: readonly number[]) {
    this.#genes = genes
  }
  /** An integer from 0 to `count` - 1. */
  below(count: number): number {
    return (this.#genes[this.#next++] ?? 0) % count
  }
  between(low: number, high: number): number {
    return low + this.below(high - low + 1)
  }
  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)]
  }
  /** True with a probability of one in `oneIn`. */
  rarely(oneIn: number): boolean {
    return this.below(oneIn) === oneIn - 1
  }
  get ended(): boolean {
    return this.#next >= this.#genes.length
  }
}

export const genes = (size: number): fc.Arbitrary<number[]> =>
  fc.array(fc.nat(5039), { minLength: 40, maxLength: size, size: 'max' })

/** Pseudo-random numbers from a seed, for inputs that are equal on every target. */
export function randomNumbers(seed: number): () => number {
  let state = (seed ^ 0x9e3779b9) >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
