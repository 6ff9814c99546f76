/**
 * What agents do to memory: weak accesses with race detection, strong ones on histories, flags and fences. Everything that
 * may find a mistake about memory is here.
 */
import { round, type DType } from '../../ir/dtype.ts'
import { attribute, type Node } from '../../ir/node.ts'
import { atomicMeaning, type Order, type Scope } from '../../ir/ops/index.ts'
import { describe, type Agent, type ComponentRecord, type Release } from './agent.ts'
import {
  acquire,
  fence,
  inherited,
  Location,
  releasesOf,
  scopeConflict,
  touch,
  type Message,
} from './atomics.ts'
import { mix } from './clock.ts'
import type { Finding, FindingKind, Party } from './findings.ts'
import type { Accessor, Buffer, Conflict } from './memory.ts'

/** Places in one buffer. An index of MASKED is left out; OUTSIDE is an error if it takes part. */
export interface Places {
  readonly buffer: Buffer
  readonly index: Int32Array
}
export const MASKED = -1
export const OUTSIDE = -2

export interface FlagSet {
  readonly name: string
  readonly shape: readonly number[]
  readonly arrivals: number
  readonly buffers: readonly Buffer[]
  /** Launches that have signalled, and waited, on each rank. */
  readonly signalled: number[]
  readonly waited: number[]
}

/** How an agent accesses memory, executing a node. */
export function accessOf(agent: Agent, node: Node): Accessor {
  return { identity: agent, clock: agent.clock, time: agent.time, node }
}

/** Decides what a run leaves open: which of several values a read returns, where a store goes. 0 is the newest. */
export interface Choices {
  pick(count: number): number
  /** A search looks only at the order of accesses to places that several agents access; see `Sharing`. */
  readonly sharing?: Sharing
}

/**
 * Places whose accesses do not commute, learnt as the search goes on: several agents write them, or one reads what another writes.
 * (A wait is no such read: it ends once its flag is signalled, and nothing takes that back.) The order of anything else makes
 * no difference, so it needs no exploring.
 */
export interface Sharing {
  isShared(place: string): boolean
  share(place: string): void
}

export class Memory {
  readonly #choices: Choices
  readonly #report: (finding: Finding) => void
  readonly #identify: (component: number) => ComponentRecord
  readonly #sequentialFences: Release[] = []

  constructor(
    choices: Choices,
    report: (finding: Finding) => void,
    identify: (component: number) => ComponentRecord,
  ) {
    this.#choices = choices
    this.#report = report
    this.#identify = identify
  }

  // Weak accesses

  read(by: Accessor, kernel: string, buffer: Buffer, i: number): number {
    if (!buffer.isWritten(i)) {
      this.#say('uninitialised', kernel, `${buffer.describe(i)} is read, but nobody has written it`, [
        this.#party(by, `reads ${buffer.describe(i)}`),
      ])
      return NaN
    }
    const conflict = buffer.conflictingWrite(i, by)
    if (conflict) this.#race(by, kernel, buffer, i, conflict, false)
    const location = buffer.locations.get(i)
    if (location) this.#mixedRace(by, kernel, buffer, i, location, false)
    buffer.noteRead(i, by)
    return buffer.data[i]
  }

  write(by: Accessor, kernel: string, buffer: Buffer, i: number, value: number): void {
    const conflict = buffer.conflictingWrite(i, by) ?? buffer.conflictingRead(i, by)
    if (conflict) this.#race(by, kernel, buffer, i, conflict, true)
    const location = buffer.locations.get(i)
    if (location) {
      this.#mixedRace(by, kernel, buffer, i, location, true)
      buffer.locations.delete(i)
    }
    buffer.noteWrite(i, by)
    buffer.data[i] = value
    // The history starts anew, but who uses the place is not forgotten.
    if (location) this.#location(buffer, i).inheritUse(location, by.identity.component)
  }

  outside(by: Accessor, kernel: string, buffer: Buffer, verb: string): void {
    const extents = buffer.shape.join(' x ')
    this.#say(
      'out-of-bounds',
      kernel,
      `an access of ${buffer.name} (${extents || 'one element'}) lies outside it`,
      [this.#party(by, `${verb} outside ${buffer.name}${buffer.rank >= 0 ? ` of rank ${buffer.rank}` : ''}`)],
    )
  }

  // Strong accesses

  #location(buffer: Buffer, i: number): Location {
    let location = buffer.locations.get(i)
    if (!location) {
      const initial: Message = {
        value: buffer.data[i],
        releases: [],
        touches: [],
        readFrom: undefined,
        id: 0,
        epoch: undefined,
      }
      location = new Location(initial, () => buffer.describe(i))
      buffer.locations.set(i, location)
    }
    return location
  }

  #checkStrong(
    agent: Agent,
    node: Node,
    buffer: Buffer,
    i: number,
    location: Location,
    scope: Scope,
    writes: boolean,
  ): void {
    const by = accessOf(agent, node)
    const kernel = agent.launch.kernel
    const conflict = buffer.conflictingWrite(i, by) ?? (writes ? buffer.conflictingRead(i, by) : undefined)
    if (conflict) this.#race(by, kernel, buffer, i, conflict, writes)
    const other = scopeConflict(location, agent, scope, writes)
    if (other)
      this.#say(
        'scope-race',
        kernel,
        `${buffer.describe(i)} is shared by agents that the scopes used (${other.scope} and ${scope}) do not cover: neither need ever see the other`,
        [
          {
            who: describe(other.by),
            what: `${other.writes ? 'writes' : 'reads'} it at ${other.scope} scope`,
            site: other.node?.site,
          },
          this.#party(by, `${writes ? 'writes' : 'reads'} it at ${scope} scope`),
        ],
      )
  }

  #readMessage(
    agent: Agent,
    node: Node,
    location: Location,
    message: Message,
    order: Order,
    scope: Scope,
  ): number {
    touch(message, agent, scope, false, node)
    acquire(agent, message, order, scope)
    for (const { spin } of agent.spins.values()) spin.reads.set(location, message)
    agent.note(mix(message.id, 3))
    return message.value
  }

  load(agent: Agent, node: Node, buffer: Buffer, i: number, order: Order, scope: Scope): number {
    if (!buffer.isWritten(i)) return this.read(accessOf(agent, node), agent.launch.kernel, buffer, i)
    const location = this.#location(buffer, i)
    this.#checkStrong(agent, node, buffer, i, location, scope, false)
    this.#noteSharing(agent, buffer, i, location, 'reads')
    const floor = location.floor(agent)
    const choice = this.#choices.pick(location.messages.length - floor)
    const message = location.messages[location.messages.length - 1 - choice]
    return this.#readMessage(agent, node, location, message, order, scope)
  }

  #insert(
    agent: Agent,
    node: Node,
    location: Location,
    buffer: Buffer,
    i: number,
    at: number,
    scope: Scope,
    message: Omit<Message, 'touches' | 'id'>,
    time: number,
  ): void {
    const { record } = agent
    const id = mix(mix(record.key, 0x1234567), ++record.messages)
    const made: Message = {
      ...message,
      id,
      touches: [{ by: agent, scope, writes: true, first: time, last: time, node }],
    }
    agent.note(mix(mix(id, location.messages[at - 1].id), location.messages[at]?.id ?? 1))
    location.messages.splice(at, 0, made)
    buffer.noteStrongWrite(i, location.newest.value)
  }

  store(
    agent: Agent,
    node: Node,
    buffer: Buffer,
    i: number,
    value: number,
    order: Order,
    scope: Scope,
    epoch?: number,
  ): void {
    const location = this.#location(buffer, i)
    this.#checkStrong(agent, node, buffer, i, location, scope, true)
    this.#noteSharing(agent, buffer, i, location, 'writes')
    const places = location.places(agent)
    const at = places[places.length - 1 - this.#choices.pick(places.length)]
    const { time } = agent
    if (location.newest.value !== value) agent.noteEffect()
    this.#insert(
      agent,
      node,
      location,
      buffer,
      i,
      at,
      scope,
      { value, releases: releasesOf(agent, order, scope), readFrom: undefined, epoch },
      time,
    )
  }

  /** A read-modify-write; `change` gives undefined if it leaves the place alone, which makes it a plain read. */
  modify(
    agent: Agent,
    node: Node,
    buffer: Buffer,
    i: number,
    change: (old: number) => number | undefined,
    order: Order,
    scope: Scope,
    epoch?: number,
  ): number {
    if (!buffer.isWritten(i)) this.read(accessOf(agent, node), agent.launch.kernel, buffer, i)
    const location = this.#location(buffer, i)
    this.#noteSharing(agent, buffer, i, location, 'writes')
    const candidates = location.modifiable(agent)
    const from = candidates[candidates.length - 1 - this.#choices.pick(candidates.length)]
    const message = location.messages[from]
    const value = change(message.value)
    this.#checkStrong(agent, node, buffer, i, location, scope, value !== undefined)
    const old = this.#readMessage(agent, node, location, message, order, scope)
    if (value === undefined) return old
    if (value !== old) agent.noteEffect()
    const { time } = agent
    const passedOn = inherited(agent, message, scope)
    const releases = [...passedOn, ...releasesOf(agent, order, scope)]
    this.#insert(
      agent,
      node,
      location,
      buffer,
      i,
      from + 1,
      scope,
      { value, releases, readFrom: message, epoch },
      time,
    )
    return old
  }

  fence(agent: Agent, order: Order, scope: Scope): void {
    fence(agent, order, scope, this.#sequentialFences)
    agent.note(this.#hash(agent))
  }

  // Flags

  signal(agent: Agent, node: Node, flags: FlagSet, rank: number, i: number, epoch: number): void {
    const order = attribute<Order>(node, 'order')
    const scope = attribute<Scope>(node, 'scope')
    const buffer = flags.buffers[rank]
    agent.noteEffect()
    if (flags.arrivals === 1) this.store(agent, node, buffer, i, epoch >>> 0, order, scope, epoch)
    else this.modify(agent, node, buffer, i, (old) => (old + 1) >>> 0, order, scope, epoch)
  }

  /** Messages that would end a wait. */
  #awaited(
    agent: Agent,
    flags: FlagSet,
    rank: number,
    i: number,
    wanted: number,
  ): { location: Location; found: Message[] } | undefined {
    const location = flags.buffers[rank].locations.get(i)
    if (!location) return undefined
    const found = location.messages
      .slice(location.floor(agent))
      .filter((message) => ((message.value - wanted) | 0) >= 0)
    return { location, found }
  }

  canWait(agent: Agent, flags: FlagSet, rank: number, i: number, epoch: number): boolean {
    const wanted = (epoch * flags.arrivals) >>> 0
    if (wanted === 0) return true
    return (this.#awaited(agent, flags, rank, i, wanted)?.found.length ?? 0) > 0
  }

  wait(agent: Agent, node: Node, flags: FlagSet, rank: number, i: number, epoch: number): void {
    const order = attribute<Order>(node, 'order')
    const scope = attribute<Scope>(node, 'scope')
    const wanted = (epoch * flags.arrivals) >>> 0
    if (wanted === 0) return
    const { location, found } = this.#awaited(agent, flags, rank, i, wanted)!
    const buffer = flags.buffers[rank]
    this.#checkStrong(agent, node, buffer, i, location, scope, false)
    // Of one signaller's signals the first that suffices tells least, so that a search need not try the others.
    const first = this.#choices.sharing && !this.isShared(buffer, i)
    const message = first ? found[0] : found[found.length - 1 - this.#choices.pick(found.length)]
    this.#readMessage(agent, node, location, message, order, scope)
    if (flags.arrivals > 1) this.#checkCounting(agent, node, buffer, i, location, message, epoch, wanted)
    agent.note(this.#hash(agent))
  }

  /** A wait for epoch e must not have counted a signal of a later epoch. */
  #checkCounting(
    agent: Agent,
    node: Node,
    buffer: Buffer,
    i: number,
    location: Location,
    message: Message,
    epoch: number,
    wanted: number,
  ): void {
    const counted = location.messages.slice(1, location.messages.indexOf(message) + 1)
    const early = counted.filter((one) => one.epoch !== undefined && one.epoch > epoch)
    if (early.length === 0 || counted.length - early.length >= wanted) return
    const signal = Location.writer(early[0])
    this.#say(
      'flag-reuse',
      agent.launch.kernel,
      `${buffer.describe(i)} counts a signal of epoch ${early[0].epoch} for epoch ${epoch}: a signaller ran ahead before this epoch was complete`,
      [
        {
          who: signal ? describe(signal.by) : 'somebody',
          what: `signals epoch ${early[0].epoch}`,
          site: signal?.node?.site,
        },
        this.#party(accessOf(agent, node), `waits for epoch ${epoch}`),
      ],
    )
  }

  #hash(agent: Agent): number {
    return agent.clock.hash((component) => this.#identify(component).key)
  }

  // Sharing

  /** Whether the order of this access against those of others can matter. */
  isShared(buffer: Buffer, i: number): boolean {
    return this.#choices.sharing?.isShared(`${buffer.key}/${i}`) ?? true
  }

  #noteSharing(
    agent: Agent,
    buffer: Buffer,
    i: number,
    location: Location,
    accesses: 'reads' | 'writes',
  ): void {
    const { sharing } = this.#choices
    if (!sharing) return
    const { component } = agent
    const others = accesses === 'writes' ? location.users : location.writers
    for (const other of others)
      if (other !== component) {
        sharing.share(`${buffer.key}/${i}`)
        break
      }
    location.users.add(component)
    if (accesses === 'writes') location.writers.add(component)
  }

  // Reports

  #say(kind: FindingKind, kernel: string, message: string, parties: readonly Party[]): void {
    this.#report({ kind, kernel, message, parties })
  }

  #party(by: Accessor, what: string): Party {
    return { who: describe(by.identity), what, site: by.node?.site }
  }

  #race(
    by: Accessor,
    kernel: string,
    buffer: Buffer,
    i: number,
    { earlier }: Conflict,
    writes: boolean,
  ): void {
    const place = buffer.describe(i)
    this.#say('race', kernel, `two accesses of ${place} are not ordered, and one of them writes`, [
      {
        who: describe(this.#identify(earlier.component)),
        what: `${earlier.writes ? 'writes' : 'reads'} ${place}`,
        site: earlier.node?.site,
      },
      this.#party(by, `${writes ? 'writes' : 'reads'} ${place}`),
    ])
  }

  /** A weak access of a place that others access with an order. */
  #mixedRace(
    by: Accessor,
    kernel: string,
    buffer: Buffer,
    i: number,
    location: Location,
    writes: boolean,
  ): void {
    for (const message of location.messages)
      for (const one of message.touches)
        if (
          one.by.component !== by.identity.component &&
          (writes || one.writes) &&
          by.clock.get(one.by.component) < one.last
        ) {
          const earlier = { component: one.by.component, node: one.node, writes: one.writes }
          this.#race(by, kernel, buffer, i, { earlier }, writes)
          return
        }
  }
}

/** The change an atomic node makes, as a function of the old value. A compare-and-swap that fails changes nothing. */
export function atomicChange(
  node: Node,
  dtype: DType,
  value: number,
  desired: number,
): (old: number) => number | undefined {
  if (node.op === 'atomic.cas') return (old) => (old === value ? desired : undefined)
  const meaning = atomicMeaning(node.op, (x) => round(dtype, x))
  return (old) => meaning(old, value, desired)
}
