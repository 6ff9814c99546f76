/**
 * Implements strong accesses: loads, stores and read-modify-writes with an order and a scope, and fences. The scheduler
 * makes the choices that the memory model leaves open: which store a load returns, and where a store is inserted in
 * modification order.
 */
import type { Node } from '../../ir/node.ts'
import type { Order, Scope } from '../../ir/ops/index.ts'
import { accessOf, partyOf, type Memory } from './access.ts'
import { describe, noteIn, type Agent, type ComponentRecord, type Identity, type Release } from './agent.ts'
import { acquire, fence, historyOf, inherited, releasesOf, type Location, type Message } from './atomics.ts'
import { mix } from './clock.ts'
import type { Accessor, Buffer } from './memory.ts'

/** The data of one strong access of one element. */
export interface StrongAccess {
  readonly agent: Agent
  readonly node: Node
  readonly buffer: Buffer
  readonly i: number
  readonly order: Order
  readonly scope: Scope
  /** The epoch of the flag, if the access is a signal. */
  readonly epoch?: number
}

/**
 * Makes a run's choices between the stores that a read may return, or the positions at which a store may be inserted.
 * Choice 0 is the newest store or position.
 */
export interface Choices {
  pick(count: number): number
  /** True if the search compares runs by their digests. */
  readonly searching?: boolean
  /** If the field `sharing` is present, the search varies only the order of accesses that do not commute. */
  readonly sharing?: Sharing
}

/**
 * The elements whose accesses do not commute, collected during a search of schedules. The accesses to an element do not
 * commute if several agents write it, or if one agent reads what another writes. Waits do not count as reads: a wait
 * ends once its flag is signalled, and overwriting a signal with an older epoch is reported as a finding. The order of
 * accesses that commute makes no difference, so the search does not vary it.
 */
export interface Sharing {
  isShared(place: string): boolean
  share(place: string): void
}

export class StrongMemory {
  readonly #memory: Memory
  readonly #choices: Choices
  readonly #keyOf: (component: number) => number
  readonly #sequentialFences: Release[] = []

  constructor(memory: Memory, choices: Choices, identify: (component: number) => ComponentRecord) {
    this.#memory = memory
    this.#choices = choices
    this.#keyOf = (component) => identify(component).key
  }

  load(access: StrongAccess): number {
    const { agent, node, buffer, i } = access
    if (!buffer.isWritten(i)) return this.#memory.read(accessOf(agent, node), buffer, i)
    const { location, message } = this.choose(access)
    return this.read(access, location, message)
  }

  /** Chooses one of the stores that a load may return. */
  choose(access: StrongAccess): { readonly location: Location; readonly message: Message } {
    const { agent, buffer, i } = access
    const location = historyOf(buffer, i)
    this.#noteSharing(access, agent, location, false)
    const choice = this.#choices.pick(location.messages.length - location.floor(agent))
    return { location, message: location.messages[location.messages.length - 1 - choice] }
  }

  store(access: StrongAccess, value: number): void {
    const { agent, buffer, i, order, scope, epoch } = access
    const location = historyOf(buffer, i)
    this.#check(access, location, true)
    this.#noteSharing(access, agent, location, true)
    const places = location.places(agent)
    const at = places[places.length - 1 - this.#choices.pick(places.length)]
    if (location.newest.value !== value) agent.noteEffect()
    const { time } = agent
    const releases = releasesOf(agent, order, scope)
    this.#insert(access, { by: agent, record: agent.record }, location, at, time, {
      value,
      releases,
      readFrom: undefined,
      epoch,
    })
  }

  /** Models a host store of a word that kernels may poll: a release store at system scope. */
  storeFromHost(host: Accessor, record: ComponentRecord, buffer: Buffer, i: number, value: number): void {
    const location = historyOf(buffer, i)
    this.#memory.checkWeak(host, buffer, i, true)
    this.#noteSharing({ buffer, i }, record, location, true)
    const places = location.places(host)
    const at = places[places.length - 1 - this.#choices.pick(places.length)]
    const scope = 'system'
    const releases = [{ by: record, scope, clock: host.clock.copy() } as const]
    const content = { value, releases, readFrom: undefined, epoch: undefined }
    this.#insert({ buffer, i, scope }, { by: record, record }, location, at, host.time, content)
  }

  /**
   * Models a host load of a word: an acquire load at system scope. A host that polls makes progress, because the host
   * does not read the same store twice if there is a newer store. The argument `last` is the store that the host read
   * last.
   */
  loadIntoHost(
    host: Accessor,
    record: ComponentRecord,
    buffer: Buffer,
    i: number,
    last: ReadonlyMap<Location, Message>,
  ): { readonly location: Location; readonly message: Message } {
    const location = historyOf(buffer, i)
    const { messages } = location
    this.#memory.checkWeak(host, buffer, i, false)
    const party = { ...record, clock: host.clock }
    const other = location.scopeConflict(party, 'system', false)
    const place = buffer.describe(i)
    if (other)
      this.#memory.say(
        'scope-race',
        host,
        `${place} is read by the host and written at ${other.scope} scope, which does not include the host: write it at system scope`,
        [
          { who: describe(other.by), what: `writes it at ${other.scope} scope`, site: other.node?.site },
          partyOf(host, 'reads it'),
        ],
      )
    this.#noteSharing({ buffer, i }, record, location, false)
    const seen = messages.indexOf(last.get(location)!)
    const from = Math.max(location.floor(host), Math.min(seen + 1, messages.length - 1))
    const message = messages[messages.length - 1 - this.#choices.pick(messages.length - from)]
    if (message.isUnwritten)
      this.#memory.say('uninitialised', host, `${place} is read, but may not have been written yet`, [
        partyOf(host, `reads ${place}`),
      ])
    location.touch(message, record, 'system', false, undefined, host.time)
    for (const release of message.releases) if (release.scope === 'system') host.clock.join(release.clock)
    noteIn(record, mix(message.id, 3))
    return { location, message }
  }

  /**
   * Performs an atomic read-modify-write. If the function `change` returns undefined, the element is left unchanged and
   * the access is a plain read.
   */
  modify(access: StrongAccess, change: (old: number) => number | undefined): number {
    const { agent, node, buffer, i, order, scope, epoch } = access
    if (!buffer.isWritten(i)) this.#memory.read(accessOf(agent, node), buffer, i)
    const location = historyOf(buffer, i)
    this.#noteSharing(access, agent, location, true)
    const candidates = location.modifiable(agent)
    const from = candidates[candidates.length - 1 - this.#choices.pick(candidates.length)]
    const message = location.messages[from]
    const value = change(message.value)
    const old = this.read(access, location, message, value !== undefined)
    if (value === undefined) return old
    if (value !== old) agent.noteEffect()
    const { time } = agent
    const releases = [...inherited(agent, message, scope), ...releasesOf(agent, order, scope)]
    this.#insert(access, { by: agent, record: agent.record }, location, from + 1, time, {
      value,
      releases,
      readFrom: message,
      epoch,
    })
    return old
  }

  /**
   * Reads the value of a store (a message) that the scheduler has already chosen. An acquiring access also synchronises
   * with the release of that store.
   */
  read(access: StrongAccess, location: Location, message: Message, writes = false): number {
    const { agent, order, scope } = access
    this.glance(access, location, message, writes)
    acquire(agent, message, order, scope)
    return message.value
  }

  /** Reads the value of a store, but does not synchronise with the store's release. */
  glance(access: StrongAccess, location: Location, message: Message, writes = false): void {
    const { agent, node, scope } = access
    this.#check(access, location, writes)
    if (message.isUnwritten) {
      const [by, place] = [accessOf(agent, node), access.buffer.describe(access.i)]
      this.#memory.say('uninitialised', by, `${place} is read, but may not have been written yet`, [
        partyOf(by, `reads ${place}`),
      ])
    }
    location.touch(message, agent, scope, false, node, agent.time)
    agent.noteFresh(location, message)
    // For the detection of polling, only the first read of a location in an iteration counts. If the first read of a
    // location had returned a newer value, the iteration might have taken another path.
    for (const { spin } of agent.spins.values())
      if (!spin.reads.has(location)) spin.reads.set(location, message)
    agent.note(mix(message.id, 3))
  }

  fence(agent: Agent, order: Order, scope: Scope): void {
    fence(agent, order, scope, this.#sequentialFences)
    this.noteClock(agent)
  }

  /** Adds the agent's clock to the digest (hash) of what the agent has done. Digests are compared only in a search. */
  noteClock(agent: Agent): void {
    if (this.#choices.searching) agent.note(agent.clock.hash(this.#keyOf))
  }

  /** True if the result of a run may depend on the order of the accesses to an element. */
  isShared(buffer: Buffer, i: number): boolean {
    return this.isSharedPlace(`${buffer.key}/${i}`)
  }

  /**
   * True if the result of a run may depend on the order of the accesses to the object that `key` identifies. If the
   * search varies the order of all accesses, the result is always true.
   */
  isSharedPlace(key: string): boolean {
    return this.#choices.sharing?.isShared(key) ?? true
  }

  sharePlace(key: string): void {
    this.#choices.sharing?.share(key)
  }

  pick(count: number): number {
    return this.#choices.pick(count)
  }

  #insert(
    { buffer, i, scope, node }: Pick<StrongAccess, 'buffer' | 'i' | 'scope'> & { readonly node?: Node },
    { by, record }: { readonly by: Identity; readonly record: ComponentRecord },
    location: Location,
    at: number,
    time: number,
    content: Omit<Message, 'touches' | 'id'>,
  ): void {
    const { messages } = location
    const id = mix(mix(record.key, 0x1234567), ++record.messages)
    noteIn(record, mix(mix(id, messages[at - 1].id), messages[at]?.id ?? 1))
    const message: Message = { ...content, id, touches: [] }
    messages.splice(at, 0, message)
    location.touch(message, by, scope, true, node, time)
    buffer.noteStrongWrite(i, location.newest.value)
  }

  #noteSharing(
    { buffer, i }: Pick<StrongAccess, 'buffer' | 'i'>,
    { component }: Identity,
    location: Location,
    writes: boolean,
  ): void {
    const { sharing } = this.#choices
    if (!sharing) return
    for (const other of writes ? location.users : location.writers)
      if (other !== component) {
        sharing.share(`${buffer.key}/${i}`)
        break
      }
    location.users.add(component)
    if (writes) location.writers.add(component)
  }

  #check(access: StrongAccess, location: Location, writes: boolean): void {
    const { agent, node, buffer, i, scope } = access
    const by = accessOf(agent, node)
    this.#memory.checkWeak(by, buffer, i, writes)
    const other = location.scopeConflict(agent, scope, writes)
    if (!other) return
    const verb = (write: boolean, at: Scope): string => `${write ? 'writes' : 'reads'} it at ${at} scope`
    this.#memory.say(
      'scope-race',
      by,
      `${buffer.describe(i)} is accessed by two agents at ${other.scope} and ${scope} scope, of which at least one does not include both agents: neither agent is guaranteed to ever observe the other's accesses`,
      [
        { who: describe(other.by), what: verb(other.writes, other.scope), site: other.node?.site },
        partyOf(by, verb(writes, scope)),
      ],
    )
  }
}
