/**
 * Finds the stragglers, which are the ranks for which other ranks waited. All waiting in a collective is charged to the
 * rank that arrived last, unless nobody is to blame (`Unblamed` in collectiveTable.ts). The sum of the waiting time
 * that is charged to stragglers is therefore all waiting time for which a rank is to blame, within the windows of the
 * ranks that waited. Only exposed waiting costs time, so stragglers are sorted by the exposed waiting time that they
 * caused. The activity of a straggler is determined for the time in which another rank waited for it. While the
 * straggler's device was busy, the device's work is the activity; while the device was idle, the host's activity
 * counts.
 */
import { Column, float64, uint32 } from '../timeline/columns.ts'
import { difference, intersection, total, type Intervals, unionOf } from '../timeline/intervals.ts'
import { countBefore } from '../timeline/search.ts'
import { sortBy } from '../timeline/sort.ts'
import { Kind, NONE, type RankTimeline, type Timeline } from '../timeline/timeline.ts'
import { fromCommon } from './clocks.ts'
import { type Clock, toCommon } from './collective.ts'
import { type CollectiveCall, type Collectives, Unblamed } from './collectiveTable.ts'
import { idleParts, idleTime, type Part, type Partition } from './ledger.ts'
import { MeanMeasured } from './measured.ts'
import { StreamColumn } from './streamColumn.ts'

/** A rank for which other ranks waited. Times are in nanoseconds. */
export interface Straggler {
  /** The index of the rank in the timeline. */
  readonly rank: number
  /** The waiting time that this rank caused, summed over the ranks that waited, each in its own window. */
  readonly keptWaiting: number
  /**
   * The time within `keptWaiting` that the ledger of the waiting rank counts as wait, because neither compute nor a
   * transfer hides it. An instant at which a rank waits in two collectives counts for each collective.
   */
  readonly exposed: number
  /**
   * The time from the second-latest arrival to the arrival of this rank, summed over the collectives at which this rank
   * was last.
   */
  readonly late: number
  /** The number of collectives at which another rank waited for this rank. */
  readonly collectives: number
  /** The ranks that waited, sorted by exposed waiting time, with the longest first. */
  readonly waiters: readonly { readonly rank: number; readonly wait: number; readonly exposed: number }[]
  /** The indices of the collectives with the most waiting time. */
  readonly worst: readonly {
    readonly collective: number
    readonly keptWaiting: number
    readonly late: number
  }[]
  /** The times at which another rank waited for this rank, on this rank's clock. */
  readonly windows: Intervals
  /** The straggler's activities, with the longest first. No instant of a straggler's time counts for two activities. */
  readonly meanwhile: readonly Meanwhile[]
}

/** What a straggler did while other ranks waited for it. */
export interface Meanwhile {
  readonly what: 'compute' | 'waiting' | 'collective' | 'copy' | Part
  /**
   * The name of the compute kernel, the rank that the straggler itself waited for, the kind and group of the
   * collective, or the name of the copy; null for idle time.
   */
  readonly name: string | null
  /** The operator to which a kernel belongs, or null if it is unknown. */
  readonly operator: string | null
  readonly time: number
}

/** The maximum number of worst collectives that are listed per straggler. */
const WORST = 10

/**
 * The stragglers, with the worst one first. `partitions` has one entry per rank of the timeline; the entry is null for
 * a rank without a ledger.
 */
export function stragglersOf(
  timeline: Timeline,
  collectives: Collectives,
  clocks: readonly Clock[],
  partitions: readonly (Partition | null)[],
): Straggler[] {
  const { ranks } = timeline
  const drafts = ranks.map(() => new Draft(ranks.length))
  const ledgers = ranks.map((_, rank) => {
    const partition = partitions[rank] ?? null
    return {
      from: partition?.from ?? -Infinity,
      to: partition?.to ?? Infinity,
      // For a rank without a ledger, all waiting counts as exposed.
      wait: partition && new MeanMeasured(partition.processors.map(({ parts }) => parts.wait)),
    }
  })
  const { first: firstOf, rank: rankOf, event: eventOf, wait: waitOf } = collectives
  for (let index = 0; index < collectives.length; index++) {
    if (collectives.unblamed[index] !== Unblamed.no) continue
    const last = collectives.last[index]
    const own = last === NONE ? NONE : memberOf(collectives, index, last)
    if (own === NONE) continue
    const arrived = toCommon(clocks[last], ranks[last].events.start[eventOf[own]])
    const draft = drafts[last]
    /** The interval in which a rank waited, and the arrival time of the last rank but one, on the common clock. */
    let [first, stop, before] = [Infinity, -Infinity, -Infinity]
    let keptWaiting = 0
    for (let member = firstOf[index]; member < firstOf[index + 1]; member++) {
      if (member === own) continue
      const rank = rankOf[member]
      const ledger = ledgers[rank]
      const arrival = ranks[rank].events.start[eventOf[member]]
      const until = arrival + (waitOf[member] || 0)
      before = Math.max(before, toCommon(clocks[rank], arrival))
      const from = Math.max(arrival, ledger.from)
      const to = Math.min(until, ledger.to)
      if (to <= from) continue
      keptWaiting += to - from
      draft.wait(rank, to - from, ledger.wait?.within(from, to) ?? to - from)
      first = Math.min(first, toCommon(clocks[rank], from))
      stop = Math.max(stop, until > to ? toCommon(clocks[rank], to) : arrived)
    }
    if (keptWaiting === 0) continue
    draft.add(
      index,
      keptWaiting,
      Math.max(0, Math.round(stop - Math.max(first, before))),
      Math.round(fromCommon(clocks[last], first)),
      Math.round(fromCommon(clocks[last], stop)),
    )
  }

  return drafts
    .map((draft, rank) => ({ draft, rank }))
    .filter(({ draft }) => draft.keptWaiting > 0)
    .sort(
      (a, b) =>
        b.draft.exposed - a.draft.exposed || b.draft.keptWaiting - a.draft.keptWaiting || a.rank - b.rank,
    )
    .map(({ draft, rank }) => ({ draft, rank, windows: draft.windows() }))
    .map(({ draft, rank, windows }) => ({
      rank,
      windows,
      keptWaiting: draft.keptWaiting,
      exposed: draft.exposed,
      late: draft.late,
      collectives: draft.count,
      waiters: draft.waiters(),
      worst: draft.worst,
      meanwhile: meanwhileOf(timeline, rank, collectives, partitions[rank] ?? null, windows),
    }))
}

class Draft {
  keptWaiting = 0
  exposed = 0
  late = 0
  count = 0
  readonly worst: { collective: number; keptWaiting: number; late: number }[] = []
  /** The time for which each rank waited for this rank, indexed by the rank that waited. */
  private readonly waits: Float64Array
  private readonly exposedWaits: Float64Array
  /** The intervals in which another rank waited, as pairs of start and end. */
  private readonly waited = new Column(float64)

  constructor(ranks: number) {
    this.waits = new Float64Array(ranks)
    this.exposedWaits = new Float64Array(ranks)
  }

  wait(rank: number, time: number, exposed: number): void {
    this.waits[rank] += time
    this.exposedWaits[rank] += exposed
    this.exposed += exposed
  }

  add(collective: number, keptWaiting: number, late: number, from: number, to: number): void {
    this.keptWaiting += keptWaiting
    this.late += late
    this.count++
    this.waited.push(from)
    this.waited.push(to)
    const { worst } = this
    if (worst.length === WORST && keptWaiting <= worst[WORST - 1].keptWaiting) return
    let at = worst.length
    while (at > 0 && worst[at - 1].keptWaiting < keptWaiting) at--
    worst.splice(at, 0, { collective, keptWaiting, late })
    if (worst.length > WORST) worst.pop()
  }

  waiters(): Straggler['waiters'] {
    return Array.from(this.waits, (wait, rank) => ({ rank, wait, exposed: this.exposedWaits[rank] }))
      .filter(({ wait }) => wait > 0)
      .sort((a, b) => b.exposed - a.exposed || b.wait - a.wait || a.rank - b.rank)
  }

  /** The times at which another rank waited for this rank, on this rank's clock. */
  windows(): Intervals {
    return unionOf(this.waited.all())
  }
}

/**
 * The activities of a straggler while others waited for it. Compute hides communication, and communication hides
 * copies. The remaining time is idle time, divided by its cause.
 */
function meanwhileOf(
  timeline: Timeline,
  index: number,
  collectives: Collectives,
  partition: Partition | null,
  windows: Intervals,
): Meanwhile[] {
  const rank = timeline.ranks[index]
  const { name, operator, start } = rank.events
  const sums = new Sums()
  let open = windows

  // The entries are keyed by a number that combines kernel and operator, since there are too many events to build a
  // text for each.
  const names = timeline.names.length + 1
  const compute = new Map<number, number>()
  open = sweep(rank, open, [Kind.kernel, Kind.memset], (event, from, to) => {
    const owner = operator[event] === NONE ? 0 : name[operator[event]] + 1
    const key = name[event] * names + owner
    compute.set(key, (compute.get(key) ?? 0) + to - from)
  })
  for (const [key, time] of compute)
    sums.add(
      'compute',
      timeline.names[Math.floor(key / names)] || '(no name)',
      key % names === 0 ? null : timeline.names[(key % names) - 1] || null,
      time,
    )
  const inside = new Inside(timeline, collectives, index)
  open = sweep(rank, open, [Kind.communication], (event, from, to) => {
    const collective = inside.collective(event)
    const arrived = Math.max(from, Math.min(to, start[event] + inside.wait(event)))
    const last = collective === NONE ? NONE : collectives.last[collective]
    if (arrived > from)
      sums.add(
        'waiting',
        last === NONE ? 'an unknown rank' : `rank ${timeline.ranks[last].rank}`,
        null,
        arrived - from,
      )
    if (to > arrived)
      sums.add(
        'collective',
        describe(collective === NONE ? null : collectives.callOf(collective)),
        null,
        to - arrived,
      )
  })
  open = sweep(rank, open, [Kind.memcpy], (event, from, to) =>
    sums.add('copy', timeline.names[name[event]] || '(no name)', null, to - from),
  )
  if (partition !== null) {
    const causes = idleTime(partition)
    for (const part of idleParts) {
      const idle = intersection(open, causes[part])
      sums.add(part, null, null, total(idle))
      open = difference(open, idle)
    }
  }
  sums.add('unattributed', null, null, total(open))
  return sums.list()
}

const describe = (call: CollectiveCall | null): string => {
  const kind = call?.kind ?? 'communication'
  const group = call?.groupDescription || call?.group || null
  return group === null ? kind : `${kind} of group ${group}`
}

/** The index of the rank's member in a collective, or `NONE`. */
function memberOf({ first, rank }: Collectives, collective: number, wanted: number): number {
  for (let member = first[collective]; member < first[collective + 1]; member++)
    if (rank[member] === wanted) return member
  return NONE
}

/** For the events of one rank: the collective of each event, and the rank's waiting time in the collective. */
class Inside {
  private readonly collectives: Collectives
  /** For each event: the index of the collective's member that it represents, or `NONE`. */
  private readonly member: StreamColumn

  constructor({ ranks }: Timeline, collectives: Collectives, wanted: number) {
    this.collectives = collectives
    this.member = new StreamColumn(ranks[wanted])
    const { rank, event } = collectives
    for (let member = 0; member < rank.length; member++)
      if (rank[member] === wanted) this.member.set(event[member], member)
  }

  /** The collective to which an event belongs, or `NONE`. */
  collective(event: number): number {
    const member = this.member.get(event)
    const { length, first } = this.collectives
    return member === NONE ? NONE : countBefore(length, (i) => first[i + 1] <= member)
  }

  wait(event: number): number {
    const member = this.member.get(event)
    return member === NONE ? 0 : this.collectives.wait[member] || 0
  }
}

/**
 * Calls `visit` for each interval of `open` that an event of the given kinds covers. Each instant is assigned to only
 * one event, the one that began first. Returns the time of `open` that no event of the given kinds covers.
 */
function sweep(
  { events, tracks }: RankTimeline,
  open: Intervals,
  kinds: readonly Kind[],
  visit: (event: number, from: number, to: number) => void,
): Intervals {
  if (open.length === 0) return open
  const { start, duration, kind } = events
  const stop = open[open.length - 1]
  let chosen = 0
  for (const one of kinds) chosen |= 1 << one
  const found = new Column(uint32)
  let streams = 0
  for (const { role, from, to } of tracks) {
    if (role !== 'stream') continue
    const before = found.length
    for (let event = from; event < to && start[event] < stop; event++)
      if ((chosen >> kind[event]) & 1 && start[event] + duration[event] > open[0]) found.push(event)
    if (found.length > before) streams++
  }
  const order = found.all()
  if (streams > 1) sortBy(order, (a, b) => start[a] - start[b] || a - b)

  const covered = new Float64Array(2 * order.length)
  let length = 0
  let at = -Infinity
  let window = 0
  for (const event of order) {
    const from = Math.max(at, start[event])
    const to = start[event] + duration[event]
    if (to <= from) continue
    at = to
    if (length > 0 && from <= covered[length - 1]) covered[length - 1] = to
    else {
      covered[length++] = from
      covered[length++] = to
    }
    while (window < open.length && open[window + 1] <= from) window += 2
    for (let w = window; w < open.length && open[w] < to; w += 2)
      visit(event, Math.max(from, open[w]), Math.min(to, open[w + 1]))
  }
  return difference(open, covered.slice(0, length))
}

class Sums {
  private readonly sums = new Map<string, { -readonly [K in keyof Meanwhile]: Meanwhile[K] }>()

  add(what: Meanwhile['what'], name: string | null, operator: string | null, time: number): void {
    if (time <= 0) return
    const key = `${what}\n${name ?? ''}\n${operator ?? ''}`
    const known = this.sums.get(key)
    if (known) known.time += time
    else this.sums.set(key, { what, name, operator, time })
  }

  list(): Meanwhile[] {
    return [...this.sums.values()].sort((a, b) => b.time - a.time)
  }
}
