/**
 * Keeps histories of memory locations that strong operations access. For each location, the history holds the stores in
 * modification order. A read may return any store that is not older than the newest store that the reader must observe.
 * A new store may be inserted in the history before stores that the writer need not have observed. Together, the
 * choices of reads and writes produce every behaviour of scoped release/acquire without load buffering
 * (docs/memory-model.md). The litmus tests compare the checker's behaviours with an independent axiomatic enumeration.
 */
import type { Node } from '../../ir/node.ts'
import type { Order, Scope } from '../../ir/ops/index.ts'
import type { Clock } from './clock.ts'
import type { Buffer } from './memory.ts'
import { covers, type Agent, type Identity, type Release } from './agent.ts'

/** The accesses of one agent to one message (a store in the history of a location). */
interface Touch {
  readonly by: Identity
  readonly scope: Scope
  readonly writes: boolean
  readonly first: number
  last: number
  node: Node | undefined
}

export interface Message {
  readonly value: number
  /** The releases with which an acquiring read of this store may synchronise. */
  readonly releases: readonly Release[]
  readonly touches: Touch[]
  /**
   * The store whose value a read-modify-write has read. No other store may be inserted between that store and the
   * read-modify-write.
   */
  readonly readFrom: Message | undefined
  /** A number that identifies the store in the digests (hashes) of runs. */
  readonly id: number
  /** The epoch of the signal that this store performs, if the location is a flag that counts signals. */
  readonly epoch: number | undefined
  /** True for the initial contents of an element that was never written. */
  readonly isUnwritten?: boolean
}

/** An agent or the host: its identity and its clock. */
export interface Party extends Knower, Identity {}

/**
 * The clock of an agent or of the host, which determines the stores that the agent or the host must have observed.
 */
interface Knower {
  readonly clock: Clock
  readonly stale?: ReadonlyMap<Location, Message>
}

export class Location {
  /** The stores of this location in modification order. */
  readonly messages: Message[]
  /**
   * The agents and asynchronous copies that have written the location (`writers`), and those that have written or read
   * it, not counting reads by waits (`users`).
   */
  readonly writers = new Set<number>()
  readonly users = new Set<number>()
  /** The distinct combinations of order and scope with which the flag at this location was signalled. */
  readonly signals = new Set<string>()
  /**
   * For each scope and each agent or asynchronous copy: its latest access to this location, no matter which store of
   * the history the access read or made. Storing the latest accesses avoids scanning long histories.
   */
  readonly #latest: Use[] = []
  readonly #buffer: Buffer
  readonly #i: number

  constructor(initial: Message, buffer: Buffer, i: number) {
    this.messages = [initial]
    this.#buffer = buffer
    this.#i = i
  }

  /**
   * Describes the location and its newest value in words, for example "lock[0] of rank 0, which is 1".
   */
  describe(): string {
    return `${this.#buffer.describe(this.#i)}, which is ${this.newest.value}`
  }

  /** Records that an agent has made a store (a message) or has read its value. */
  touch(
    message: Message,
    by: Identity,
    scope: Scope,
    writes: boolean,
    node: Node | undefined,
    time: number,
  ): void {
    const known = find(message.touches, by, scope, writes)
    if (known) {
      known.last = time
      known.node = node
    } else message.touches.push({ by, scope, writes, first: time, last: time, node })
    const latest = find(this.#latest, by, scope, writes)
    if (latest) latest.last = time
    else this.#latest.push({ by, scope, writes, last: time })
  }

  /**
   * Returns a strong access by another agent that is not ordered before this access and whose scope does not include
   * both agents.
   */
  scopeConflict(agent: Party, scope: Scope, writes: boolean): Touch | undefined {
    if (!firstConflict(this.#latest, agent, scope, writes)) return undefined
    for (const message of this.messages) {
      const found = firstConflict(message.touches, agent, scope, writes)
      if (found) return found
    }
    return undefined
  }

  inheritUse(from: Location, writer: number): void {
    for (const one of from.users) this.users.add(one)
    for (const one of from.writers) this.writers.add(one)
    this.users.add(writer)
    this.writers.add(writer)
  }

  get newest(): Message {
    return this.messages[this.messages.length - 1]
  }

  /**
   * The index of the oldest store that an agent may still read: the newest store that the agent must have observed.
   */
  floor({ clock, stale }: Knower): number {
    const known = this.#newestKnown(clock)
    const barred = stale?.get(this)
    if (!barred) return known
    // A polling loop may read the old value of this location again if another location that it polls has changed.
    for (const [other, message] of stale!) if (other !== this && other.hasNews(message)) return known
    return Math.max(known, this.#news(barred))
  }

  #newestKnown(clock: Clock): number {
    for (let i = this.messages.length - 1; i > 0; i--)
      for (const touch of this.messages[i].touches) if (clock.get(touch.by.component) >= touch.first) return i
    return 0
  }

  /**
   * The index of the first store after `since` whose value differs from that of `since`, or 0 if there is none.
   */
  #news(since: Message): number {
    const from = this.messages.lastIndexOf(since)
    for (let i = from + 1; i < this.messages.length; i++) if (this.messages[i].value !== since.value) return i
    return 0
  }

  /** True if a store after `since` has a different value than `since`. */
  hasNews(since: Message): boolean {
    return this.#news(since) > 0
  }

  /** The positions in modification order where a plain store may be inserted, as indices into `messages`. */
  places(by: Knower): number[] {
    const places: number[] = []
    for (let i = this.floor(by) + 1; i <= this.messages.length; i++)
      if (i === this.messages.length || this.messages[i].readFrom !== this.messages[i - 1]) places.push(i)
    return places
  }

  /** The indices of the stores whose values a read-modify-write by the agent may read. */
  modifiable(agent: Agent): number[] {
    const found: number[] = []
    for (let i = this.floor(agent); i < this.messages.length; i++)
      if (i + 1 === this.messages.length || this.messages[i + 1].readFrom !== this.messages[i]) found.push(i)
    return found
  }

  /**
   * Returns the access that stored this message (an entry of a history); a morally strong read of the message observes
   * the release of that store.
   */
  static writer(message: Message): Touch | undefined {
    return message.touches.find((touch) => touch.writes)
  }
}

type Use = Pick<Touch, 'by' | 'scope' | 'writes' | 'last'>

// The functions that look for an access in a list run at every strong access, so they do not allocate closures.

function find<T extends Use>(uses: readonly T[], by: Identity, scope: Scope, writes: boolean): T | undefined {
  for (const one of uses)
    if (one.by.component === by.component && one.scope === scope && one.writes === writes) return one
  return undefined
}

function firstConflict<T extends Use>(
  uses: readonly T[],
  agent: Party,
  scope: Scope,
  writes: boolean,
): T | undefined {
  for (const one of uses)
    if (
      (writes || one.writes) &&
      one.by.component !== agent.component &&
      agent.clock.get(one.by.component) < one.last &&
      !(covers(scope, agent, one.by) && covers(one.scope, one.by, agent))
    )
      return one
  return undefined
}

/**
 * The history of one element of memory. A new history begins with one message, which holds the element's contents at
 * that time.
 */
export function historyOf(buffer: Buffer, i: number): Location {
  let location = buffer.locations.get(i)
  if (!location) {
    const initial: Message = {
      value: buffer.data[i],
      releases: [],
      touches: [],
      readFrom: undefined,
      id: 0,
      epoch: undefined,
      isUnwritten: !buffer.isWritten(i),
    }
    location = new Location(initial, buffer, i)
    buffer.locations.set(i, location)
  }
  return location
}

const isRelease = (order: Order): boolean => order === 'release' || order === 'acqRel' || order === 'seqCst'
const isAcquire = (order: Order): boolean => order === 'acquire' || order === 'acqRel' || order === 'seqCst'

/**
 * The releases that a store at `scope` publishes: the agent's release fences, and the store itself if it has release
 * order.
 */
export function releasesOf(agent: Agent, order: Order, scope: Scope): Release[] {
  const releases = [...agent.releaseFences.values()]
  if (isRelease(order)) releases.push({ by: agent, scope, clock: agent.snapshot() })
  return releases
}

/**
 * Synchronises a reader: an acquiring read joins the published clocks at once. A relaxed read keeps the published
 * clocks for an acquire fence that may follow.
 */
export function acquire(agent: Agent, message: Message, order: Order, scope: Scope): void {
  const writer = Location.writer(message)
  if (!writer || !(covers(scope, agent, writer.by) && covers(writer.scope, writer.by, agent))) return
  for (const release of message.releases) {
    if (isAcquire(order) && synchronises(release, agent, scope)) agent.clock.join(release.clock)
    else agent.pending.push(release)
  }
}

export function synchronises(release: Release, agent: Agent, scope: Scope): boolean {
  return covers(release.scope, release.by, agent) && covers(scope, agent, release.by)
}

/** The releases that a read-modify-write inherits from the message it read (its release sequence). */
export function inherited(agent: Agent, message: Message, scope: Scope): readonly Release[] {
  const writer = Location.writer(message)
  return writer && covers(scope, agent, writer.by) && covers(writer.scope, writer.by, agent)
    ? message.releases
    : []
}

/**
 * Executes a fence of an agent. The `seqCst` fences are totally ordered: each fence synchronises with every preceding
 * `seqCst` fence if the scopes of both fences include both agents.
 */
export function fence(agent: Agent, order: Order, scope: Scope, sequential: Release[]): void {
  if (isAcquire(order)) {
    agent.pending = agent.pending.filter((release) => {
      if (!synchronises(release, agent, scope)) return true
      agent.clock.join(release.clock)
      return false
    })
  }
  if (order === 'seqCst')
    for (const earlier of sequential) if (synchronises(earlier, agent, scope)) agent.clock.join(earlier.clock)
  if (isRelease(order)) {
    const release: Release = { by: agent, scope, clock: agent.snapshot() }
    agent.releaseFences.set(scope, release)
    if (order === 'seqCst') sequential.push(release)
  }
}
