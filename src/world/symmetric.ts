/**
 * Checks that allocation is symmetric: the n-th allocation must be the same on every rank. Only allocations that some
 * rank has not made yet are stored, so a program may allocate and free any number of times.
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
  /** The allocations of each rank, without the first `#agreed` allocations, which every rank has made. */
  readonly #requests: Request[][]
  readonly #made: T[] = []
  #agreed = 0

  constructor(ranks: number) {
    this.#requests = Array.from({ length: ranks }, () => [])
  }

  /**
   * Returns the next allocation of the given ranks. The function `make` is called for the first rank that requests the
   * allocation. If `make` throws an error, the request does not count for any rank.
   */
  add(ranks: readonly number[], text: string, make: (number: number) => T): T {
    const site = Site.here()
    const most = Math.max(...ranks.map((rank) => this.#requests[rank].length))
    if (most >= this.#made.length) this.#made.push(make(this.#agreed + most))
    let allocation: T | undefined
    for (const rank of ranks) allocation = this.#made[this.#requests[rank].push({ text, site }) - 1]
    return allocation!
  }

  /**
   * Describes how the allocations of ranks differ; the result is undefined if they agree. With the argument 'so far',
   * ranks also agree if one has made fewer allocations than others.
   */
  disagreement(when: 'so far' | 'now'): Disagreement | undefined {
    // At the time of most launches, every rank has made every allocation, so `#made` is empty.
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

  /** Forgets the allocations that all ranks have made and that agree. */
  #forget(): void {
    const shortest = Math.min(...this.#requests.map((list) => list.length))
    if (shortest === 0) return
    for (const list of this.#requests) list.splice(0, shortest)
    this.#made.splice(0, shortest)
    this.#agreed += shortest
  }
}
