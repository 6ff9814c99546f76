/**
 * Detects whether a scenario uses random numbers or the time. Random numbers make every run different, so a finding
 * could not be reproduced. The use of a clock may make runs different, too, but is reported only if two runs actually
 * differ.
 */
import { Site } from '../../ir/site.ts'

interface Source {
  readonly name: string
  readonly of: object
  readonly key: string
  readonly isChance: boolean
}

const sources: readonly Source[] = [
  { name: 'Math.random()', of: Math, key: 'random', isChance: true },
  { name: 'crypto.getRandomValues()', of: crypto, key: 'getRandomValues', isChance: true },
  { name: 'crypto.randomUUID()', of: crypto, key: 'randomUUID', isChance: true },
  { name: 'Date.now()', of: Date, key: 'now', isChance: false },
  { name: 'performance.now()', of: performance, key: 'now', isChance: false },
]

export interface Call {
  readonly name: string
  readonly site: Site
  readonly isChance: boolean
}

export class Chance {
  /**
   * The first call of the run that reads a random source or a clock. A call of a random source takes precedence over a
   * call of a clock.
   */
  #seen: Call | undefined
  #isWatching = false
  readonly #restore: readonly (() => void)[]

  constructor() {
    this.#restore = sources.map(({ name, of, key, isChance }) => {
      const own = Object.getOwnPropertyDescriptor(of, key)
      const original = Reflect.get(of, key) as (...args: unknown[]) => unknown
      const value = (...args: unknown[]): unknown => {
        if (this.#isWatching && (!this.#seen || (isChance && !this.#seen.isChance)))
          this.#seen = { name, site: Site.here(), isChance }
        return original.apply(of, args)
      }
      Object.defineProperty(of, key, { configurable: true, writable: true, value })
      return () => {
        if (own) Object.defineProperty(of, key, own)
        else Reflect.deleteProperty(of, key)
      }
    })
  }

  /** The first random or clock call that the last watched run made, or undefined if it made none. */
  get seen(): Call | undefined {
    return this.#seen
  }

  /** Executes `run` and notes which random sources and clocks it calls. */
  async watch<T>(run: () => Promise<T>): Promise<T> {
    this.#seen = undefined
    this.#isWatching = true
    try {
      return await run()
    } finally {
      this.#isWatching = false
    }
  }

  close(): void {
    for (const restore of this.#restore) restore()
  }
}
