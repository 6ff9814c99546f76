/**
 * Watches whether scenarios ask for chance or for the time. Chance makes every run another one, so that a finding cannot be shown
 * again; the time may, and is told where a run turns out to differ.
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
  /** The first call of each run, chance before time. */
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

  /** What a run of a scenario asked for. */
  get seen(): Call | undefined {
    return this.#seen
  }

  /** Watches one run. */
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
