/**
 * Packs a timeline for the page. The data contains the stream events as columns of small integers on the common clock,
 * the division of each rank's time into categories (partition), and the collectives with their member events. The data
 * format is described in packed.ts.
 */
import { toCommon, type Clock } from '../taxes/collective.ts'
import { isForeignFrame } from '../taxes/hostActivity.ts'
import { partNames, type Partition } from '../taxes/ledger.ts'
import {
  isDeviceWork,
  Kind,
  NONE,
  type RankTimeline,
  type Timeline,
  type Track,
} from '../timeline/timeline.ts'
import { Column, float64, uint32, uint8 } from '../timeline/columns.ts'
import { countBefore } from '../timeline/search.ts'
import { sortBy } from '../timeline/sort.ts'
import { Boundaries } from './boundaries.ts'
import { culpritOf } from './culprit.ts'
import type { AuditDocument } from './document.ts'
import { fold, IntegerWriter } from './integers.ts'
import { mostCommonParts } from './mostCommon.ts'
import {
  blockOfRank,
  collectivesBlock,
  UNCLAIMED,
  type PackedHeader,
  type PackedLane,
  type PackedRank,
} from './packed.ts'

export interface ReportInput {
  readonly document: AuditDocument
  readonly timeline: Timeline
  readonly clocks: readonly Clock[]
  /** The partitions are in the order of the timeline's ranks. */
  readonly partitions: readonly Partition[]
}

export interface Block {
  readonly id: string
  readonly bytes: Uint8Array
}

/** The largest number of host events in a page. */
const HOST_EVENTS = 300_000

/** The largest number of rows that a stream or a thread gets for concurrent work. */
const ROWS = 6

/**
 * The largest number of event boundaries inside one segment of the partition. If a segment has more boundaries, the
 * duration of the segment is written instead of their number.
 */
const STEPS = 8

/**
 * How much the start of a collective and the start of its event may differ, in nanoseconds, because times in the
 * document are rounded.
 */
const TOLERANCE = 1000

/** Yields the blocks of data, one rank at a time. The header of the data is complete only after the last block. */
export function* pack(input: ReportInput): Generator<Block, PackedHeader> {
  const { document, timeline } = input
  const clocks = timeline.ranks.map(
    ({ rank }) => input.clocks.find((clock) => clock.rank === rank) ?? still(rank),
  )
  const origin = originOf(input, clocks)
  const common = (rank: number, time: number): number => Math.round(toCommon(clocks[rank], time) - origin)

  const collectives = packCollectives(document, timeline)
  yield { id: collectivesBlock, bytes: collectives.bytes }

  const names = new Names(timeline.names)
  const ranks: PackedRank[] = []
  const window: [number, number] = [Infinity, -Infinity]
  for (const [i, rank] of timeline.ranks.entries()) {
    const clock = (time: number): number => common(i, time)
    const out = new IntegerWriter()
    const lanes: PackedLane[] = []
    const times: Times[] = []
    for (const track of [...rank.tracks].sort((a, b) => a.owner - b.owner || a.id - b.id))
      if (track.role === 'stream')
        lanes.push(...packTrack(rank, track, clock, names, collectives.byRank[i], times, out, isShown(rank)))
    const partition = input.partitions[i]
    const packed = partition
      ? packPartition(partition, clock, new Boundaries(times), out)
      : { from: 0, length: 0 }
    if (partition && partition.to > partition.from) {
      window[0] = Math.min(window[0], clock(partition.from))
      window[1] = Math.max(window[1], clock(partition.to))
    }
    const { hosts, leftOut } = packHosts(
      rank,
      clock,
      names,
      out,
      Math.floor(HOST_EVENTS / timeline.ranks.length),
    )
    ranks.push({ rank: rank.rank, device: rank.device, lanes, partition: packed, hosts, leftOut })
    yield { id: blockOfRank(i), bytes: out.take() }
  }
  return {
    names: names.used,
    ranks,
    window: window[0] < window[1] ? window : [0, 1],
    labels: collectives.labels,
    collectives: document.collectives.length,
    members: collectives.members,
    culprit: culpritOf(document),
    figures: document.ranks,
    steps: document.steps,
  }
}

/**
 * The time on the common clock that is time 0 of the document. Time 0 is computed from a rank whose start both the
 * timeline and the document contain.
 */
function originOf({ document, timeline, partitions }: ReportInput, clocks: readonly Clock[]): number {
  for (const { rank, startUs } of document.ranks) {
    const i = timeline.ranks.findIndex((one) => one.rank === rank)
    if (i >= 0 && partitions[i]) return toCommon(clocks[i], partitions[i].from) - 1000 * startUs
  }
  return 0
}

const still = (rank: number): Clock => ({
  rank,
  offset: 0,
  drift: 0,
  aligned: false,
  correction: 0,
  residual: null,
  collectives: 0,
})

/** The names that the page needs, numbered in order of first use. */
class Names {
  readonly used: string[] = []
  private readonly numbers: Int32Array
  readonly all: readonly string[]

  constructor(all: readonly string[]) {
    this.all = all
    this.numbers = new Int32Array(all.length).fill(-1)
  }

  number(name: number): number {
    if (this.numbers[name] < 0) this.numbers[name] = this.used.push(this.all[name]) - 1
    return this.numbers[name]
  }
}

/** The columns of the events of one timeline row (lane), on the common clock. */
interface Times {
  readonly start: Float64Array
  readonly end: Float64Array
}

interface Members {
  /** The events that belong to collectives, in order, and for each event its index among the members of collectives. */
  readonly starts: Float64Array
  readonly durations: Float64Array
  readonly members: Uint32Array
}

const isShown =
  ({ events: { kind } }: RankTimeline) =>
  (event: number): boolean =>
    isDeviceWork(kind[event]) || kind[event] === Kind.wait || kind[event] === Kind.transfer

/**
 * Packs the events of the host threads that enqueue work. If the threads have more than `most` events, only the longest
 * events are packed, so that the page of a large job does not become too large.
 */
function packHosts(
  rank: RankTimeline,
  clock: (time: number) => number,
  names: Names,
  out: IntegerWriter,
  most: number,
): Pick<PackedRank, 'hosts' | 'leftOut'> {
  const { kind, duration, name } = rank.events
  const threads = rank.tracks.filter(({ role, from, to }) => {
    if (role !== 'thread') return false
    for (let event = from; event < to; event++) if (kind[event] === Kind.launch) return true
    return false
  })
  const isFrame = (event: number): boolean =>
    kind[event] === Kind.frame && !isForeignFrame(names.all[name[event]])
  const isHost = (event: number): boolean =>
    kind[event] >= Kind.launch && kind[event] !== Kind.step && kind[event] !== Kind.frame
  const lengths = new Column(float64)
  for (const { from, to } of threads)
    for (let event = from; event < to; event++)
      if (isHost(event) || isFrame(event)) lengths.push(duration[event])
  const all = lengths.all().sort()
  const shortest = all.length > most ? all[all.length - most] : 0
  const leftOut = shortest === 0 ? 0 : countBefore(all.length, (i) => all[i] < shortest)
  const none: Members = {
    starts: new Float64Array(0),
    durations: new Float64Array(0),
    members: new Uint32Array(0),
  }
  const lanes = (track: Track, chosen: (event: number) => boolean): PackedLane[] =>
    packTrack(
      rank,
      track,
      clock,
      names,
      none,
      [],
      out,
      (event) => chosen(event) && duration[event] >= shortest,
    )
  const hosts = threads.flatMap((track) => [
    ...lanes(track, isHost),
    ...lanes(track, isFrame).map((lane) => ({ ...lane, frames: true })),
  ])
  return { hosts, leftOut: { events: leftOut, shortest } }
}

function packTrack(
  rank: RankTimeline,
  track: Track,
  clock: (time: number) => number,
  names: Names,
  members: Members,
  times: Times[],
  out: IntegerWriter,
  shown: (event: number) => boolean,
): PackedLane[] {
  const { events } = rank

  // Each event is placed in the first row that is free at its start.
  const row = new Int8Array(track.to - track.from).fill(-1)
  const counts = new Array<number>(ROWS).fill(0)
  const ends = new Array<number>(ROWS).fill(-Infinity)
  let hidden = 0
  for (let event = track.from; event < track.to; event++) {
    if (!shown(event)) continue
    const start = clock(events.start[event])
    let free = 0
    while (free < ROWS && ends[free] > start) free++
    if (free === ROWS) {
      hidden++
      continue
    }
    row[event - track.from] = free
    ends[free] = Math.max(start, clock(events.start[event] + events.duration[event]))
    counts[free]++
  }

  const lanes: PackedLane[] = []
  for (let r = 0; r < ROWS && counts[r] > 0; r++) {
    const chosen = new Uint32Array(counts[r])
    for (let event = track.from, n = 0; event < track.to; event++)
      if (row[event - track.from] === r) chosen[n++] = event
    const starts = new Float64Array(chosen.length)
    const stops = new Float64Array(chosen.length)
    for (let n = 0; n < chosen.length; n++) {
      const event = chosen[n]
      starts[n] = clock(events.start[event])
      stops[n] = Math.max(starts[n], clock(events.start[event] + events.duration[event]))
    }
    times.push({ start: starts, end: stops })
    for (let n = 0; n < chosen.length; n++) out.push(n === 0 ? 0 : starts[n] - stops[n - 1])
    for (let n = 0; n < chosen.length; n++) out.push(stops[n] - starts[n])
    for (const event of chosen) out.push(events.kind[event])
    for (const event of chosen) out.push(names.number(events.name[event]))
    for (const event of chosen) {
      const launch = events.launch[event]
      const own = events.operator[event]
      const operator = own !== NONE || launch === NONE ? own : events.operator[launch]
      out.push(operator === NONE ? 0 : names.number(events.name[operator]) + 1)
    }
    for (const event of chosen) {
      const launch = events.launch[event]
      out.push(launch === NONE ? 0 : fold(events.start[event] - events.start[launch]) + 1)
    }
    const found = packMembers(chosen, starts, stops, rank, members, out)
    lanes.push({
      device: track.owner,
      stream: track.id,
      row: r,
      events: chosen.length,
      members: found,
      hidden: r === 0 ? hidden : 0,
      from: starts[0],
    })
  }
  return lanes
}

/**
 * Finds the events that are members of collectives by their start times. If the start times of several members match an
 * event, the durations decide which member it is.
 */
function packMembers(
  chosen: Uint32Array,
  starts: Float64Array,
  stops: Float64Array,
  rank: RankTimeline,
  members: Members,
  out: IntegerWriter,
): number {
  const found = { events: new Column(uint32), members: new Column(uint32) }
  let low = 0
  for (let n = 0; n < chosen.length; n++) {
    if (rank.events.kind[chosen[n]] !== Kind.communication) continue
    while (low < members.starts.length && members.starts[low] < starts[n] - TOLERANCE) low++
    let [best, distance] = [-1, Infinity]
    for (let m = low; m < members.starts.length && members.starts[m] <= starts[n] + TOLERANCE; m++) {
      const away =
        Math.abs(members.starts[m] - starts[n]) + Math.abs(members.durations[m] - (stops[n] - starts[n]))
      if (away < distance) [best, distance] = [m, away]
    }
    if (best < 0 || distance > 2 * TOLERANCE) continue
    found.events.push(n)
    found.members.push(members.members[best])
  }
  const { length } = found.events
  for (let i = 0, last = 0; i < length; i++) {
    out.push(found.events.get(i) - last)
    last = found.events.get(i)
  }
  for (let i = 0, last = 0; i < length; i++) {
    out.push(fold(found.members.get(i) - last))
    last = found.members.get(i)
  }
  return length
}

/** The segments of a partition in order of time, including the time that no category claims. */
function packPartition(
  partition: Partition,
  clock: (time: number) => number,
  boundaries: Boundaries,
  out: IntegerWriter,
): PackedRank['partition'] {
  const parts = mostCommonParts(partition.processors)
  const sets = partNames.map((part) => parts[part])
  const at = new Uint32Array(sets.length)
  const codes = new Column(uint8)
  const from = clock(partition.from)
  let now = from
  const emit = (to: number, code: number): void => {
    if (to <= now) return
    const steps = stepsTo(boundaries, now, to)
    out.push(steps)
    if (steps === 0) out.push(to - now)
    codes.push(code)
    now = to
  }
  for (;;) {
    let next = -1
    for (let i = 0; i < sets.length; i++)
      if (at[i] < sets[i].length && (next < 0 || sets[i][at[i]] < sets[next][at[next]])) next = i
    if (next < 0) break
    emit(clock(sets[next][at[next]]), UNCLAIMED)
    emit(clock(sets[next][at[next] + 1]), next)
    at[next] += 2
  }
  emit(clock(partition.to), UNCLAIMED)
  for (let i = 0; i < codes.length; i++) out.push(codes.get(i))
  return { from, length: codes.length }
}

/** The number of event boundaries from time `now` to time `to`, or 0 if `to` is none of the next `STEPS` boundaries. */
function stepsTo(boundaries: Boundaries, now: number, to: number): number {
  let time = now
  for (let steps = 1; steps <= STEPS; steps++) {
    time = boundaries.after(time)
    if (time === to) return steps
    if (time > to) return 0
  }
  return 0
}

function packCollectives(
  document: AuditDocument,
  timeline: Timeline,
): { bytes: Uint8Array; labels: string[]; members: number; byRank: Members[] } {
  const places = new Map(timeline.ranks.map(({ rank }, i) => [rank, i]))
  const labels: string[] = ['']
  const numbers = new Map<string, number>()
  const label = (text: string | null): number => {
    if (text === null) return 0
    let number = numbers.get(text)
    if (number === undefined) numbers.set(text, (number = labels.push(text) - 1))
    return number
  }
  const nanoseconds = (us: number): number => Math.round(us * 1000)
  const orNone = (us: number | null): number => (us === null ? 0 : Math.max(0, nanoseconds(us)) + 1)

  // The page reads the columns in the order in which they are listed here.
  const columns = Array.from({ length: 13 }, () => new IntegerWriter())
  const [kinds, groups, libraries, means, complete, last, skews, counts, ...ofMembers] = columns
  const [ranks, starts, durations, waits, transfers] = ofMembers
  const byRank = timeline.ranks.map(() => new RankMembers())
  let [members, before] = [0, 0]
  for (const one of document.collectives) {
    kinds.push(label(one.kind))
    groups.push(label(one.group))
    libraries.push(label(one.library))
    means.push(label(one.matchedBy))
    complete.push(one.complete ? 1 : 0)
    last.push(one.lastRank === null ? 0 : (places.get(one.lastRank) ?? -1) + 1)
    skews.push(Math.max(0, nanoseconds(one.endSkewUs)))
    const from = members
    for (const { rank, startUs, durUs, waitUs, transferUs } of one.perRank) {
      const place = places.get(rank)
      if (place === undefined) continue
      const [start, duration] = [nanoseconds(startUs), nanoseconds(durUs)]
      ranks.push(place)
      starts.push(fold(start - before))
      before = start
      durations.push(Math.max(0, duration))
      waits.push(orNone(waitUs))
      transfers.push(orNone(transferUs))
      byRank[place].add(members++, start, duration)
    }
    counts.push(members - from)
  }
  const out = new IntegerWriter()
  for (const column of columns) out.append(column)
  return { bytes: out.take(), labels, members, byRank: byRank.map((own) => own.inOrder()) }
}

/** The members of collectives that are events of one rank. */
class RankMembers {
  private readonly members = new Column(uint32)
  private readonly starts = new Column(float64)
  private readonly durations = new Column(float64)

  add(member: number, start: number, duration: number): void {
    this.members.push(member)
    this.starts.push(start)
    this.durations.push(duration)
  }

  /** Returns the members sorted by start, and empties this collection. */
  inOrder(): Members {
    const order = Uint32Array.from({ length: this.members.length }, (_, i) => i)
    sortBy(order, (a, b) => this.starts.get(a) - this.starts.get(b))
    return {
      members: this.members.take(order),
      starts: this.starts.take(order),
      durations: this.durations.take(order),
    }
  }
}
