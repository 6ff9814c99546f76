/**
 * Defines two schedulers for the checker. The random scheduler is reproducible by its seed. The exhaustive scheduler
 * enumerates all schedules with at most a given number of preemptions, all values that reads may return, and all
 * positions in modification order that stores may take.
 */
import type { Agent } from './agent.ts'
import { RunOver } from './findings.ts'
import type { Machine, Scheduler } from './machine.ts'
import type { Sharing } from './strong.ts'

/** A small seeded pseudorandom generator (SplitMix32). */
function randomSource(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x9e3779b9) | 0
    let z = state
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return ((z ^ (z >>> 15)) >>> 0) / 4294967296
  }
}

/**
 * A scheduler that chooses agents at random. Each random run uses one of three styles, drawn at random. The style
 * `even` chooses agents uniformly. The style `priorities` changes priorities occasionally, which makes some agents very
 * slow. The style `straggler` delays one rank for as long as other ranks can continue.
 */
export class RandomScheduler implements Scheduler {
  readonly #random: () => number
  readonly #style: 'even' | 'priorities' | 'straggler'
  readonly #priorities = new Map<number, number>()
  #slowRank = -1

  constructor(seed: number) {
    this.#random = randomSource(seed)
    this.#random()
    const draw = this.#random()
    this.#style = draw < 0.4 ? 'even' : draw < 0.8 ? 'priorities' : 'straggler'
  }

  pick(count: number): number {
    if (count <= 1 || this.#random() < 0.5) return 0
    return Math.floor(this.#random() * count)
  }

  next(enabled: readonly Agent[], current: Agent | undefined, machine: Machine): Agent {
    if (enabled.length === 1) return enabled[0]
    if (this.#style === 'even') return this.#any(enabled)
    if (this.#style === 'straggler') {
      if (this.#slowRank < 0 || this.#random() < 0.01)
        this.#slowRank = Math.floor(this.#random() * machine.ranks)
      const others = enabled.filter((agent) => agent.rank !== this.#slowRank)
      return this.#any(others.length > 0 ? others : enabled)
    }
    if (this.#random() < 0.05 && current) this.#priorities.set(current.component, this.#random() - 1)
    let best = enabled[0]
    for (const agent of enabled) if (this.#priority(agent) > this.#priority(best)) best = agent
    // A polling loop must eventually let other agents run.
    if (best === current && this.#random() < 0.02) return this.#any(enabled)
    return best
  }

  #any(agents: readonly Agent[]): Agent {
    return agents[Math.floor(this.#random() * agents.length)]
  }

  #priority(agent: Agent): number {
    let priority = this.#priorities.get(agent.component)
    if (priority === undefined) this.#priorities.set(agent.component, (priority = this.#random()))
    return priority
  }
}

/** The error that ends a run whose continuation has already been explored. */
export class Seen extends RunOver {}

/** The error for a host program that behaved differently than in an earlier run with the same scheduling decisions. */
export class NotReproducible extends Error {
  override readonly name = 'NotReproducible'
  constructor() {
    super(
      'the scenario does not do the same in every run, so its interleavings cannot be searched: it must not depend on random numbers, on the time or on state left by an earlier run',
    )
  }
}

interface Decision {
  readonly count: number
  taken: number
}

/**
 * The number of consecutive steps that an agent in an unbounded loop may take before it must yield to other agents.
 */
const patience = 400

export class ExhaustiveSearch implements Scheduler {
  readonly searching = true
  readonly sharing: Sharing | undefined
  readonly #shared = new Set<string>()
  #learnt = false
  readonly #preemptions: number
  #trail: Decision[] = []
  #position = 0
  #left = 0
  #streak = 0
  #unfair = false
  /**
   * For each state that was reached, by its digest: the largest number of preemptions that the search still allowed
   * from this state on.
   */
  readonly #seen = new Map<string, number>()

  /**
   * If `reduce` is false, the search also tries interleavings that are equivalent to explored interleavings. Such a
   * search is slow and serves only to test that the reduction loses no findings.
   */
  constructor(preemptions: number, reduce = true) {
    this.#preemptions = preemptions
    if (!reduce) return
    this.sharing = {
      isShared: (place) => this.#shared.has(place),
      share: (place) => {
        if (this.#shared.has(place)) return
        this.#shared.add(place)
        this.#learnt = true
      },
    }
  }

  /** True if schedules were left out because an agent in an unbounded loop had to yield. */
  get isUnfair(): boolean {
    return this.#unfair
  }

  /** Prepares the next run of the search. */
  begin(): void {
    this.#position = 0
    this.#left = this.#preemptions
    this.#streak = 0
  }

  /** Advances to the next unexplored schedule. The result is false if no unexplored schedule is left. */
  advance(): boolean {
    if (this.#learnt) {
      // Some accesses that the search assumed to commute do not commute. The search starts over and varies the order of
      // these accesses.
      this.#learnt = false
      this.#unfair = false
      this.#trail = []
      this.#seen.clear()
      return true
    }
    // The last scheduling decision in the list differs from the previous run. A reproducible run must reach that
    // decision.
    if (this.#position < this.#trail.length) throw new NotReproducible()
    while (this.#trail.length > 0) {
      const last = this.#trail[this.#trail.length - 1]
      if (++last.taken < last.count) return true
      this.#trail.pop()
    }
    return false
  }

  pick(count: number): number {
    if (count <= 1) return 0
    const at = this.#position++
    if (at === this.#trail.length) this.#trail.push({ count, taken: 0 })
    if (this.#trail[at].count !== count) throw new NotReproducible()
    return this.#trail[at].taken
  }

  next(enabled: readonly Agent[], current: Agent | undefined, machine: Machine): Agent {
    const stays = current !== undefined && enabled.includes(current)
    const mustYield = stays && enabled.length > 1 && current.spins.size > 0 && this.#streak > patience
    this.#unfair ||= mustYield
    const others = stays ? enabled.filter((agent) => agent !== current) : enabled
    const options = mustYield ? others : stays ? [current, ...(this.#left > 0 ? others : [])] : others
    if (options.length === 1) return this.#take(options[0], current)
    if (this.#position === this.#trail.length) {
      const from = stays && Number.isFinite(this.#left) ? current.component : -1
      const key = `${machine.digest()}/${from}`
      const left = this.#seen.get(key)
      if (left !== undefined && left >= this.#left) throw new Seen()
      this.#seen.set(key, this.#left)
    }
    const chosen = options[this.pick(options.length)]
    if (stays && !mustYield && chosen !== current) this.#left--
    return this.#take(chosen, current)
  }

  #take(agent: Agent, current: Agent | undefined): Agent {
    this.#streak = agent === current ? this.#streak + 1 : 0
    return agent
  }
}
