/**
 * Finds the collectives of all ranks. The analysis matches the calls of each collective, aligns the clocks, and splits
 * each rank's time in a collective into wait and transfer. A rank waits from its own arrival to the last arrival, but
 * no longer than the rank was inside the collective. In the remaining time in a collective, a rank moves data. If
 * groups are guessed and the end times do not agree, neither the last rank nor the waiting time is known.
 *
 * In two cases, the waiting time is known but no rank is blamed for it. In the first case, the last two arrivals differ
 * by no more than the residual of the clocks, so they are a tie. In the second case, no earlier collective links all
 * ranks of the collective, so the order of arrivals depends on when the ranks began recording.
 */
import { duration, percent } from '../timeline/figures.ts'
import { rankNames } from '../timeline/ranges.ts'
import { sortBy } from '../timeline/sort.ts'
import { type Communication, NONE, type Timeline, unknownCommunication } from '../timeline/timeline.ts'
import type { Warnings } from '../timeline/warnings.ts'
import { endTolerance } from './align.ts'
import { communicationOf, participantsOf } from './calls.ts'
import { clocksOf } from './clocks.ts'
import { type Clock, toCommon } from './collective.ts'
import { type CollectiveCall, Collectives, numberOfMeans, Unblamed } from './collectiveTable.ts'
import type { Estimate } from './estimate.ts'
import { estimateMatches } from './match.ts'
import type { GroupSource, Match, Matches } from './matches.ts'

/**
 * Returns all collectives, sorted by first arrival on the common clock. `world` is the number of ranks in the job, if
 * the traces state it. Calls that name no group are complete if all ranks of the world take part. `guessed` is the
 * number of collectives of several ranks whose group the traces do not list.
 */
export function collectivesOf(
  timeline: Timeline,
  warnings: Warnings,
  world: number | null = null,
): { collectives: Collectives; clocks: Clock[]; guessed: number; estimate: Estimate | null } {
  const { ranks } = timeline
  if (ranks.length === 0) return { collectives: Collectives.from([]), clocks: [], guessed: 0, estimate: null }
  const { matches, estimate } = estimateMatches(timeline)
  const clocks = clocksOf(timeline, matches, warnings)
  const groups = new Groups(timeline, world)
  const doubts = new Doubts(timeline, matches, clocks)

  const calls = new Calls()
  const call = new Uint32Array(matches.length)
  const complete = new Uint8Array(matches.length)
  const arrivals = new Float64Array(matches.length)
  const order = new Uint32Array(matches.length)
  for (let i = 0; i < matches.length; i++) {
    const { members, events, source } = matches.at(i)
    const judged = groups.judge(members, events, source)
    call[i] = calls.number(communicationOf(ranks[members[0]], events[0]), judged.groupSize)
    complete[i] = Number(judged.complete)
    arrivals[i] = Infinity
    for (let k = 0; k < members.length; k++)
      arrivals[i] = Math.min(
        arrivals[i],
        toCommon(clocks[members[k]], ranks[members[k]].events.start[events[k]]),
      )
    order[i] = i
  }
  groups.warn(warnings, world)
  sortBy(order, (a, b) => arrivals[a] - arrivals[b] || a - b)

  const collectives = new Collectives(calls.list, matches.length, matches.memberCount)
  const met = new Met(ranks.length)
  order.forEach((match, index) => {
    collectives.call[index] = call[match]
    collectives.complete[index] = complete[match]
    const one = matches.at(match)
    split(collectives, index, timeline, one, clocks, doubts, !met.connect(one.members))
  })
  return { collectives, clocks, guessed: doubts.guessed, estimate }
}

/** The sets of ranks that earlier collectives have linked, directly or through other ranks. */
class Met {
  private readonly parent: Int32Array

  constructor(ranks: number) {
    this.parent = Int32Array.from({ length: ranks }, (_, rank) => rank)
  }

  /** Links the ranks. Returns true if earlier collectives have already linked all the ranks. */
  connect(members: readonly number[]): boolean {
    let known = true
    const first = this.top(members[0])
    for (const member of members) {
      const other = this.top(member)
      if (other === first) continue
      known = false
      this.parent[other] = first
    }
    return known
  }

  private top(rank: number): number {
    const { parent } = this
    while (parent[rank] !== rank) rank = parent[rank] = parent[parent[rank]]
    return rank
  }
}

/**
 * Sets the members of a collective, the last rank, and the waiting time of each rank. `isFirst` is true if earlier
 * collectives do not link all ranks of this collective, directly or through other ranks.
 */
function split(
  collectives: Collectives,
  index: number,
  { ranks }: Timeline,
  match: Match,
  clocks: readonly Clock[],
  doubts: Doubts,
  isFirst: boolean,
): void {
  const { by, members, events } = match
  let [last, second, lastArrival, secondArrival] = [0, 0, -Infinity, -Infinity]
  let [firstEnd, lastEnd] = [Infinity, -Infinity]
  for (let k = 0; k < members.length; k++) {
    const { start, duration } = ranks[members[k]].events
    const clock = clocks[members[k]]
    const arrival = toCommon(clock, start[events[k]])
    const leave = toCommon(clock, start[events[k]] + duration[events[k]])
    if (arrival > lastArrival) {
      secondArrival = lastArrival
      second = last
      lastArrival = arrival
      last = members[k]
    } else if (arrival > secondArrival) {
      secondArrival = arrival
      second = members[k]
    }
    firstEnd = Math.min(firstEnd, leave)
    lastEnd = Math.max(lastEnd, leave)
  }

  // All ranks of an estimated group leave a call together, so the durations of the calls give the order of arrivals
  // without the clocks.
  const together = match.source === 'estimated' || match.source === 'corrected'
  if (together) [last, lastArrival, secondArrival] = arrivalsBefore(lastEnd, ranks, match)

  const alone = members.length < 2
  const doubtful = doubts.has(match)
  collectives.matchedBy[index] = numberOfMeans(alone ? null : by)
  const skew = lastEnd - firstEnd
  // If the group is certain, arrivals that differ by less than the ends of the call are a tie. If the ranks are
  // uncertain, the collective may really be two groups, each of at least two ranks, that ended together. If a
  // collective is really two groups, each group has its own last rank.
  const near = match.single ? skew : Math.max(together ? tieIn(lastEnd - lastArrival) : 0, 2 * skew)
  const least = match.single ? 3 : 4
  const mayBeTwo = match.source !== 'listed' && members.length >= least && lastArrival - secondArrival <= near
  const residual = Math.max(clocks[last].residual ?? 0, clocks[second].residual ?? 0)
  const unblamed = alone
    ? Unblamed.no
    : doubtful || mayBeTwo
      ? Unblamed.doubtful
      : isFirst
        ? Unblamed.first
        : lastArrival - secondArrival <= residual
          ? Unblamed.tied
          : Unblamed.no
  collectives.unblamed[index] = unblamed
  collectives.last[index] = alone || unblamed === Unblamed.doubtful ? NONE : last
  collectives.endSkew[index] = Math.round(lastEnd - firstEnd)
  const known = alone
    ? collectives.complete[index] === 1 && collectives.callOf(index).groupSize === 1
    : !doubtful
  const from = collectives.first[index]
  collectives.first[index + 1] = from + members.length
  for (let k = 0; k < members.length; k++) {
    const { start, duration } = ranks[members[k]].events
    const whole = duration[events[k]]
    const arrival = together ? lastEnd - whole : toCommon(clocks[members[k]], start[events[k]])
    const late = Math.round(lastArrival - arrival)
    const wait = Math.max(0, Math.min(whole, late))
    collectives.rank[from + k] = members[k]
    collectives.event[from + k] = events[k]
    collectives.wait[from + k] = known ? wait : NaN
    collectives.transfer[from + k] = known ? whole - wait : NaN
  }
}

/** The last rank, its arrival and the second-latest arrival, if all ranks leave a call at `end`. */
function arrivalsBefore(
  end: number,
  ranks: Timeline['ranks'],
  { members, events }: Match,
): [last: number, lastArrival: number, secondArrival: number] {
  let [last, least, second] = [0, Infinity, Infinity]
  members.forEach((member, k) => {
    const whole = ranks[member].events.duration[events[k]]
    if (whole < least) [second, least, last] = [least, whole, member]
    else second = Math.min(second, whole)
  })
  return [last, end - least, end - second]
}

/**
 * If the ranks of a collective may really be two groups, arrivals that differ by at most this time, in nanoseconds,
 * count as a tie. The transfers of two groups may differ by this time.
 */
export const tieIn = (transfer: number): number => Math.max(6_000, 0.05 * transfer)

/**
 * If the end times disagree in more than this fraction of the collectives in guessed groups, no collective of a guessed
 * group is trusted.
 */
const FEW = 0.05

/**
 * Identifies collectives of guessed groups whose ranks do not end together. The calls of such a collective may belong
 * to different groups, so its last rank is unknown.
 */
class Doubts {
  private readonly timeline: Timeline
  private readonly clocks: readonly Clock[]
  /** The number of collectives of several ranks that have a guessed group. */
  readonly guessed: number
  private readonly everywhere: boolean

  constructor(timeline: Timeline, matches: Matches, clocks: readonly Clock[]) {
    this.timeline = timeline
    this.clocks = clocks
    let [guessed, single, apart] = [0, 0, 0]
    for (const match of matches.shared()) {
      if (match.source === 'listed') continue
      guessed++
      // For estimated groups, the estimate has already compared the end times of all calls, so single calls are not
      // checked.
      if (match.source !== 'guessed') continue
      single++
      if (!this.endsAgree(match)) apart++
    }
    this.guessed = guessed
    this.everywhere = apart > FEW * single
  }

  has(match: Match): boolean {
    if (match.source === 'doubtful') return true
    if (match.source === 'listed') return false
    return (match.source === 'guessed' && this.everywhere) || !this.endsAgree(match)
  }

  private endsAgree({ members, events }: Match): boolean {
    let [first, last, transfer] = [Infinity, -Infinity, Infinity]
    members.forEach((rank, k) => {
      const { start, duration } = this.timeline.ranks[rank].events
      const end = toCommon(this.clocks[rank], start[events[k]] + duration[events[k]])
      first = Math.min(first, end)
      last = Math.max(last, end)
      transfer = Math.min(transfer, duration[events[k]])
    })
    return last - first <= endTolerance(transfer)
  }
}

/**
 * The number of collectives of several ranks whose last rank is unknown because their group is guessed, and the time
 * that ranks spent in such collectives.
 */
export function doubtfulOf(
  { ranks }: Timeline,
  { length, first, unblamed, rank, event }: Collectives,
): { readonly collectives: number; readonly time: number } {
  let [collectives, time] = [0, 0]
  for (let i = 0; i < length; i++) {
    if (unblamed[i] !== Unblamed.doubtful) continue
    collectives++
    for (let member = first[i]; member < first[i + 1]; member++)
      time += ranks[rank[member]].events.duration[event[member]]
  }
  return { collectives, time }
}

/** Assigns indices to the distinct call records. */
class Calls {
  readonly list: CollectiveCall[] = []
  private readonly numbers = new Map<Communication | null, number>()

  number(call: Communication | null, groupSize: number | null): number {
    let number = this.numbers.get(call)
    if (number === undefined) {
      const { collective: kind, library, group, groupDescription } = call ?? unknownCommunication
      number = this.list.push({ kind, library, group, groupDescription, groupSize }) - 1
      this.numbers.set(call, number)
    }
    return number
  }
}

/** The ranks of the process group of a call, as far as the trace states them. */
interface Group {
  readonly size: number | null
  /** The number of the group's ranks that have a trace. */
  readonly present: number
  /** The numbers of the group's ranks without a trace, if the trace lists the group. */
  readonly missing: readonly number[]
  /** The number of the group's ranks without a trace, if the trace does not list the group. */
  readonly unlisted: number
}

/** Tracks the ranks that are missing from process groups. */
class Groups {
  private readonly timeline: Timeline
  private readonly world: number
  /** The numbers of the ranks that have a trace. */
  private readonly present: ReadonlySet<number>
  private readonly known = new Map<Communication | null, Group>()
  private readonly counted = new Set<Group>()
  private readonly missing = new Set<number>()
  private unlisted = 0
  private unmatched = 0
  /** The time that the rank spent in unmatched calls, in nanoseconds. */
  private unmatchedTime = 0
  private example: string | null = null

  constructor(timeline: Timeline, world: number | null) {
    const { ranks } = timeline
    this.timeline = timeline
    this.present = new Set(ranks.map(({ rank }) => rank))
    // A group has at least two ranks, unless the trace states a smaller number.
    let atLeast = Math.max(2, world ?? 0, ranks[ranks.length - 1].rank + 1)
    for (const { communications } of ranks)
      for (const { groupSize } of communications) atLeast = Math.max(atLeast, groupSize ?? 0)
    this.world = atLeast
  }

  judge(
    members: readonly number[],
    events: readonly number[],
    source: GroupSource,
  ): { complete: boolean; groupSize: number | null } {
    const rank = this.timeline.ranks[members[0]]
    const call = communicationOf(rank, events[0])
    let group = this.known.get(call)
    if (group === undefined) this.known.set(call, (group = this.groupOf(call, rank.rank)))
    const groupSize = group.size
    if (members.length >= (groupSize ?? this.world)) return { complete: true, groupSize }

    // The missing ranks of each group are counted only once. Most collectives belong to groups that have already been
    // counted.
    if (!this.counted.has(group)) {
      this.counted.add(group)
      for (const one of group.missing) this.missing.add(one)
    }
    this.unlisted = Math.max(this.unlisted, group.unlisted)
    // The size of an estimated group is unknown. Its known ranks end all of their calls together, so none of them is
    // missing.
    if (members.length > 1 && (source === 'estimated' || source === 'corrected'))
      return { complete: group.unlisted === 0, groupSize }
    if (members.length < group.present) {
      this.unmatched++
      members.forEach((member, k) => {
        this.unmatchedTime += this.timeline.ranks[member].events.duration[events[k]]
      })
      this.example ??=
        `rank ${rank.rank}'s ${call?.collective ?? 'communication'}` +
        (call?.group ? ` of group ${call.group}` : '')
    }
    return { complete: false, groupSize }
  }

  private groupOf(call: Communication | null, self: number): Group {
    const participants = participantsOf(call, self)
    if (participants === null) {
      const size = call?.groupSize ?? null
      const unlisted = Math.max(0, (size ?? this.world) - this.present.size)
      return { size, present: Math.min(size ?? Infinity, this.present.size), missing: [], unlisted }
    }
    const missing = participants.filter((rank) => !this.present.has(rank))
    const size = participants.length
    return { size, present: size - missing.length, missing, unlisted: 0 }
  }

  private recorded(): number {
    return this.timeline.ranks.reduce((sum, { deviceSpan: span }) => sum + (span ? span[1] - span[0] : 0), 0)
  }

  warn(warnings: Warnings, world: number | null): void {
    if (this.unmatched > 0)
      warnings.add(
        'unmatched',
        () =>
          (this.unmatched === 1 ? `${this.example} has` : `${this.unmatched} calls have`) +
          ' no counterpart on other ranks that have a trace' +
          `${this.unmatched === 1 ? '' : `, first ${this.example}`}; ` +
          `${this.unmatched === 1 ? 'it takes' : 'they take'} ${duration(this.unmatchedTime / 1000)} ` +
          `(${percent(this.unmatchedTime, this.recorded())} of the recorded time, over all ranks); ` +
          'the waiting time in such calls is a lower bound or unknown',
        this.unmatched,
      )
    if (world !== null && this.unlisted > 0)
      for (let rank = 0; rank < world; rank++) if (!this.present.has(rank)) this.missing.add(rank)
    const missing = [...this.missing].sort((a, b) => a - b)
    const known = 'the waiting time in collectives with these ranks is a lower bound or unknown'
    if (missing.length > 0)
      warnings.add(
        'missing-ranks',
        () => `there is no trace of ${rankNames(missing)}; ${known}`,
        missing.length,
      )
    else if (this.unlisted > 0)
      warnings.add(
        'missing-ranks',
        () =>
          `there is no trace of at least ${this.unlisted} more rank${this.unlisted > 1 ? 's' : ''}, and no trace states their numbers; ${known}`,
        this.unlisted,
      )
  }
}
