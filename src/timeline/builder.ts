/**
 * Builds a timeline from events that a trace reader adds. Trace readers add events in any order and link them by the
 * index that `add` returned. The function `freeze` sorts each track by start time and renumbers the links. Event names
 * are interned, so all ranks share one copy of each name.
 */
import { Column, float64, int32, signed, type Signed, together, uint32, uint8, unsigned } from './columns.ts'
import { sortBy } from './sort.ts'
import { isDeviceWork, Kind, NONE } from './timeline.ts'
import type {
  Communication,
  Events,
  Operands,
  RankTimeline,
  Sequence,
  TensorBytes,
  Timeline,
  Track,
} from './timeline.ts'

export class TimelineBuilder {
  private readonly ranks = new Map<number, Pick<RankBuilder, 'freeze'>>()
  private readonly names: string[] = []
  private readonly ids = new Map<string, number>()

  intern(name: string): number {
    let id = this.ids.get(name)
    if (id === undefined) {
      id = this.names.length
      this.names.push(name)
      this.ids.set(name, id)
    }
    return id
  }

  name(id: number): string {
    return this.names[id]
  }

  has(rank: number): boolean {
    return this.ranks.has(rank)
  }

  /** Adds a new, empty rank. */
  rank(rank: number): RankBuilder {
    const made = new RankBuilder()
    this.adopt(rank, made)
    return made
  }

  /**
   * Adds `events` as the rank with the number `rank`. The function `adopt` is for trace readers that learn the rank
   * number only at the end.
   */
  adopt(rank: number, events: Pick<RankBuilder, 'freeze'>): void {
    if (this.ranks.has(rank)) throw new Error(`rank ${rank} is already in the timeline; merge or renumber it`)
    this.ranks.set(rank, events)
  }

  /** Returns the finished timeline. After a call of `freeze`, the builder and its ranks are empty. */
  freeze(): Timeline {
    const ranks = [...this.ranks].sort(([a], [b]) => a - b).map(([rank, events]) => events.freeze(rank))
    this.ranks.clear()
    return { ranks, names: this.names }
  }
}

const LONG = 0xffff_ffff
const RECENT = 64

/**
 * States which host events the builder keeps. With the setting `all`, the builder keeps every host event. With the
 * setting `needed`, the builder drops two kinds of events: operators inside other operators that have no device work,
 * and calls inside operators that enqueue nothing, unless `keeps` accepts their name. The dropped events are most of
 * the host events of an eager program, and the analysis needs only the time of the outer operator.
 */
export type Detail = 'all' | { readonly keeps: (name: number) => boolean }

export interface Order {
  /** The indices of the events in their new order. */
  readonly order: Uint32Array
  /** The position in `order` at which each track begins, followed by the end of the last track. */
  readonly bounds: Uint32Array
}

export class RankBuilder {
  /** The time on the machine's clock, in nanoseconds, that corresponds to time 0 of the added events. */
  base = 0n
  device: string | null = null

  private readonly tracks: Omit<Track, 'from' | 'to'>[] = []
  /** A cache of track indices, keyed by a cheap hash of the tracks' ids. */
  private readonly recent = new Uint32Array(RECENT)
  private ordered: Order | null = null
  private readonly trackIds = new Map<string, number>()
  private readonly communications: Communication[] = []
  private readonly communicationIds = new Map<string, number>()
  private readonly starts = new Column(float64)
  /**
   * Most durations are below four seconds and fit into 32 bits. Durations that need more than 32 bits are in
   * `longDurations`.
   */
  private readonly durations = new Column(uint32)
  private readonly longDurations = new Map<number, number>()
  private bytes = new Map<number, number>()
  private readonly kinds = new Column(uint8)
  private readonly names = new Column(uint32)
  private readonly trackOf = new Column(uint32)
  private readonly launches = new Column(int32)
  private readonly operators = new Column(int32)
  /** The largest name id plus 1. */
  private nameCount = 0
  /**
   * The arguments of all calls of `setCommunication`, in order. If `setCommunication` is called several times for one
   * event, the last call counts.
   */
  private readonly communicating = new Column(uint32)
  private readonly communicationOf = new Column(int32)
  private readonly sequences = new Column(int32)
  private readonly operands: Operands[] = []
  private readonly operandsOf = new Column(int32)
  private readonly traffic = new Map<number, readonly TensorBytes[]>()

  get length(): number {
    return this.starts.length
  }

  track(role: Track['role'], owner: number, id: number): number {
    // Most events are on one of a few tracks, so the cache is searched first.
    const slot = (Math.imul(id, 31) + owner) & (RECENT - 1)
    const recent = this.tracks[this.recent[slot]] as Omit<Track, 'from' | 'to'> | undefined
    if (recent !== undefined && recent.id === id && recent.owner === owner && recent.role === role)
      return this.recent[slot]
    const key = `${role} ${owner} ${id}`
    let index = this.trackIds.get(key)
    if (index === undefined) {
      index = this.tracks.length
      this.tracks.push({ role, owner, id })
      this.trackIds.set(key, index)
    }
    this.recent[slot] = index
    return index
  }

  /**
   * Adds an event to the timeline. Event times are integers below 2^53, and `start` may be negative. The index that
   * `add` returns is valid until `freeze`.
   */
  add(kind: Kind, track: number, name: number, start: number, duration: number): number {
    if (!Number.isSafeInteger(start) || !Number.isSafeInteger(start + duration) || !(duration >= 0))
      throw new RangeError(
        `an event that starts at ${start} ns and lasts ${duration} ns does not fit the timeline`,
      )
    this.starts.push(start)
    if (duration >= LONG) this.longDurations.set(this.starts.length - 1, duration)
    this.durations.push(Math.min(duration, LONG))
    this.ordered = null
    this.kinds.push(kind)
    this.names.push(name)
    if (name >= this.nameCount) this.nameCount = name + 1
    this.trackOf.push(track)
    this.launches.push(NONE)
    this.operators.push(NONE)
    this.operandsOf.push(NONE)
    return this.starts.length - 1
  }

  start(event: number): number {
    return this.starts.get(event)
  }

  private duration(event: number): number {
    const duration = this.durations.get(event)
    return duration < LONG ? duration : (this.longDurations.get(event) ?? LONG)
  }

  end(event: number): number {
    return this.starts.get(event) + this.duration(event)
  }

  kind(event: number): Kind {
    return this.kinds.get(event) as Kind
  }

  trackIndex(event: number): number {
    return this.trackOf.get(event)
  }

  setBytes(event: number, bytes: number): void {
    if (bytes > 0) this.bytes.set(event, bytes)
    else this.bytes.delete(event)
  }

  linkLaunch(event: number, launch: number): void {
    this.launches.set(event, launch)
  }

  launchOf(event: number): number {
    return this.launches.get(event)
  }

  linkOperator(event: number, operator: number): void {
    this.operators.set(event, operator)
  }

  operatorOf(event: number): number {
    return this.operators.get(event)
  }

  /** Returns the index of a communication record. Equal records share one index. */
  communication(communication: Communication): number {
    const key = JSON.stringify(communication)
    let index = this.communicationIds.get(key)
    if (index === undefined) {
      index = this.communications.length
      this.communications.push(communication)
      this.communicationIds.set(key, index)
    }
    return index
  }

  setCommunication(event: number, communication: number, sequence: number): void {
    this.communicating.push(event)
    this.communicationOf.push(communication)
    this.sequences.push(sequence)
  }

  /**
   * Adds a record of operands and returns its index. The caller must use one record for all calls with equal operands.
   */
  addOperands(operands: Operands): number {
    return this.operands.push(operands) - 1
  }

  setOperands(event: number, operands: number): void {
    this.operandsOf.set(event, operands)
  }

  setTraffic(event: number, traffic: readonly TensorBytes[]): void {
    if (traffic.length > 0) this.traffic.set(event, traffic)
    else this.traffic.delete(event)
  }

  freeze(rank: number, detail: Detail = 'all'): RankTimeline {
    const { order, bounds } = detail === 'all' ? this.inOrder() : this.thin(this.inOrder(), detail)
    this.ordered = null
    const columns = together(order.length, {
      start: Float64Array,
      duration: this.longDurations.size > 0 ? Float64Array : Uint32Array,
      kind: Uint8Array,
      name: unsigned(this.nameCount),
      track: unsigned(this.tracks.length),
      launch: Int32Array,
      operator: Int32Array,
      communication: signed(this.communications.length),
      operands: signed(this.operands.length),
    })
    const { length } = this
    const { start, duration, launch, operator, communication } = columns
    this.starts.moveTo(start, order)
    let shift = order.length > 0 ? Infinity : 0
    for (let i = 0; i < start.length; i++) shift = Math.min(shift, start[i])
    for (let i = 0; i < start.length; i++) start[i] -= shift
    this.durations.moveTo(duration, order)
    this.kinds.moveTo(columns.kind, order)
    this.names.moveTo(columns.name, order)
    this.trackOf.moveTo(columns.track, order)
    this.operandsOf.moveTo(columns.operands, order)

    const position = new Int32Array(length).fill(NONE)
    for (let i = 0; i < order.length; i++) position[order[i]] = i
    this.launches.moveTo(launch, order)
    this.operators.moveTo(operator, order)
    for (const links of [launch, operator])
      for (let i = 0; i < links.length; i++) if (links[i] !== NONE) links[i] = position[links[i]]
    const renumberKeys = <T>(values: ReadonlyMap<number, T>): Map<number, T> => {
      const renumbered = new Map<number, T>()
      for (const [event, value] of values)
        if (position[event] !== NONE) renumbered.set(position[event], value)
      return renumbered
    }
    for (const [event, long] of this.longDurations)
      if (position[event] !== NONE) duration[position[event]] = long
    const events: Events = {
      ...columns,
      length: order.length,
      bytes: renumberKeys(this.bytes),
      sequence: this.settle(communication, position),
      traffic: renumberKeys(this.traffic),
    }
    return {
      rank,
      base: this.base + BigInt(shift),
      tracks: this.tracks.map((track, i) => ({ ...track, from: bounds[i], to: bounds[i + 1] })),
      events,
      communications: this.communications,
      operands: this.operands,
      device: this.device,
      deviceSpan: deviceSpan(events),
    }
  }

  /**
   * Fills a column with the index of each event's communication record. Returns the sequence numbers of the
   * communications.
   */
  private settle(communication: Signed, position: Int32Array): Sequence {
    const { communicating, communicationOf, sequences } = this
    communication.fill(NONE)
    const said = new Uint32Array(communicating.length)
    let count = 0
    for (let i = 0; i < said.length; i++) {
      const event = position[communicating.get(i)]
      if (event === NONE) continue
      communication[event] = communicationOf.get(i)
      said[count++] = i
    }
    const place = (i: number): number => position[communicating.get(i)]
    const order = said.subarray(0, count)
    sortBy(order, (a, b) => place(a) - place(b))
    const isLast = (i: number): boolean => i + 1 === count || place(order[i]) !== place(order[i + 1])
    const told = order.filter((one, i) => isLast(i) && sequences.get(one) !== NONE)
    const sequence = { events: Uint32Array.from(told, place), numbers: sequences.take(told) }
    communicating.clear()
    communicationOf.clear()
    return sequence
  }

  private thin({ order, bounds }: Order, { keeps }: Exclude<Detail, 'all'>): Order {
    const wanted = new Uint8Array(this.length)
    for (let event = 0; event < this.length; event++) {
      const operator = this.operators.get(event)
      if (operator !== NONE && isDeviceWork(this.kinds.get(event))) wanted[operator] = 1
    }
    const thinBounds = new Uint32Array(bounds.length)
    let kept = 0
    for (let track = 0; track < this.tracks.length; track++) {
      let covered = -Infinity
      for (let i = bounds[track]; i < bounds[track + 1]; i++) {
        const event = order[i]
        const kind = this.kinds.get(event)
        const inside = this.end(event) <= covered
        if (inside && kind === Kind.operator && !wanted[event]) continue
        if (inside && kind === Kind.runtime && !keeps(this.names.get(event))) continue
        if (kind === Kind.operator) covered = Math.max(covered, this.end(event))
        order[kept++] = event
      }
      thinBounds[track + 1] = kept
    }
    return { order: order.slice(0, kept), bounds: thinBounds }
  }

  /**
   * The events sorted by track, then by start, then by descending duration; and the position at which each track
   * begins.
   */
  inOrder(): Order {
    if (this.ordered) return this.ordered
    const bounds = new Uint32Array(this.tracks.length + 1)
    for (let i = 0; i < this.length; i++) bounds[this.trackOf.get(i) + 1]++
    for (let i = 0; i < this.tracks.length; i++) bounds[i + 1] += bounds[i]
    const order = new Uint32Array(this.length)
    const next = bounds.slice()
    for (let i = 0; i < this.length; i++) order[next[this.trackOf.get(i)]++] = i

    const { starts } = this
    const compare = (a: number, b: number): number =>
      starts.get(a) - starts.get(b) || this.duration(b) - this.duration(a) || a - b
    for (let track = 0; track < this.tracks.length; track++) {
      const events = order.subarray(bounds[track], bounds[track + 1])
      sortBy(events, compare)
    }
    this.ordered = { order, bounds }
    return this.ordered
  }
}

/** The interval from the first start to the last end of device work, or null if there is none. */
export function deviceSpan(events: Events): readonly [number, number] | null {
  let [from, to] = [Infinity, -Infinity]
  for (let i = 0; i < events.length; i++) {
    if (!isDeviceWork(events.kind[i])) continue
    from = Math.min(from, events.start[i])
    to = Math.max(to, events.start[i] + events.duration[i])
  }
  return from <= to ? [from, to] : null
}
