/**
 * Who allocated what: the n-th allocation of every rank must be the same. Kept only for allocations that some rank has not made
 * yet, so that a program may allocate and free for ever.
 */
import { Site } from '../ir/site.ts'

interface Request {
  readonly text: string
  readonly site: Site
}

export interface Disagreement {
  readonly message: string
  readonly parties: readonly {
    readonly who: string
    readonly what: string
    readonly site: Site | undefined
  }[]
}

const plain = (ranks: readonly number[]): string =>
  `${ranks.length === 1 ? 'rank' : 'ranks'} ${ranks.join(', ')}`

export class Requests<T> {
  /** By rank, without the first `#agreed`, which every rank has made. */
  readonly #requests: Request[][]
  readonly #made: T[] = []
  #agreed = 0

  constructor(ranks: number) {
    this.#requests = Array.from({ length: ranks }, () => [])
  }

  /** The allocation that these ranks ask for now; `make` is called for the first rank that asks for it. */
  add(ranks: readonly number[], text: string, make: (number: number) => T): T {
    const site = Site.here()
    let allocation: T | undefined
    for (const rank of ranks) {
      const at = this.#requests[rank].push({ text, site }) - 1
      if (at >= this.#made.length) this.#made.push(make(this.#agreed + at))
      allocation = this.#made[at]
    }
    return allocation!
  }

  /** How the ranks differ, if they do. 'so far': a rank may have allocated less than the others yet. */
  disagreement(when: 'so far' | 'now'): Disagreement | undefined {
    // Every rank has made every allocation: so it is at nearly every launch.
    if (this.#made.length === 0) return undefined
    const requests = this.#requests
    const longest = Math.max(...requests.map((list) => list.length))
    for (let at = 0; at < longest; at++) {
      const byText = new Map<string, number[]>()
      for (let rank = 0; rank < requests.length; rank++) {
        const text = requests[rank][at]?.text ?? 'nothing'
        if (requests[rank][at] === undefined && when === 'so far') continue
        const same = byText.get(text)
        if (same) same.push(rank)
        else byText.set(text, [rank])
      }
      if (byText.size < 2) continue
      const parties = [...byText].map(([text, ranks]) => ({
        who: plain(ranks),
        what: `${ranks.length === 1 ? 'allocates' : 'allocate'} ${text}`,
        site: requests[ranks[0]][at]?.site,
      }))
      return {
        message: `allocation ${this.#agreed + at} differs between ranks: ${parties.map(({ who, what }) => `${who} ${what}`).join('; ')}. Every rank must allocate the same, in the same order`,
        parties,
      }
    }
    this.#forget()
    return undefined
  }

  /** Of what all ranks have made, and alike, nothing needs to be known. */
  #forget(): void {
    const shortest = Math.min(...this.#requests.map((list) => list.length))
    if (shortest === 0) return
    for (const list of this.#requests) list.splice(0, shortest)
    this.#made.splice(0, shortest)
    this.#agreed += shortest
  }
}
