/**
 * Matches the calls of several ranks that belong to one collective. Calls are matched by communicator and sequence
 * number if the trace has both, else by process group and order, else by order on the stream. The sequences of calls
 * are aligned first (`align.ts`), because the recordings of two ranks begin and end at different calls. Calls match
 * only if all of their ranks were inside a call at the same time.
 */
import { Column, int32 } from '../timeline/columns.ts'
import { sequenceOf, type Timeline } from '../timeline/timeline.ts'
import { align, pairByOrder, type Alignment, type Hint, type Spans } from './align.ts'
import { type Calls, type Lane, lanesOf } from './calls.ts'
import { clocksOf, fromCommon } from './clocks.ts'
import { type Clock, toCommon } from './collective.ts'
import { type Estimate, estimateGroups } from './estimate.ts'
import { GrowingMatches, type GroupSource, Matches } from './matches.ts'
import { takeEstimated, takeMessages } from './unlisted.ts'

/**
 * Lanes (communicators or streams) in which each rank has fewer than `SHORT` calls are matched last, when the clocks
 * are known from other lanes.
 */
const SHORT = 16
/** The maximum number of ranks for which all pairs of ranks are compared to find groups whose calls look alike. */
const ALL_PAIRS = 16
/** The number of calls per rank that are used to compare two ranks. */
const SAMPLE = 128
/** The largest average number of kernels per call with a sequence number. */
const KERNELS_PER_CALL = 8
/**
 * If the end times of most calls of two ranks differ by at most this time, in nanoseconds, the ranks are certainly in
 * one group.
 */
const CERTAIN = 4e3
/** If only few calls match, the match is accepted only if it would occur by chance with less than this probability. */
const CHANCE = 1e-4

/** The minimum fraction of calls that must match and end together for two ranks to be in one group. */
const MOST = 0.75

/** Matches all communication calls of the timeline. Each call is in exactly one match. */
export function matchCalls(timeline: Timeline): Matches {
  return estimateMatches(timeline).matches
}

/**
 * Matches all communication calls, and returns the estimated process groups as well. The estimate is null if the traces
 * list the ranks of all process groups.
 */
export function estimateMatches(timeline: Timeline): { matches: Matches; estimate: Estimate | null } {
  const lanes = lanesOf(timeline)
  const matches = new Matches()
  const callsOf = (lane: Lane): number => lane.ranks.reduce((sum, { events }) => sum + events.length, 0)

  const numbered = lanes.filter((lane) => lane.numbered && numbersTell(timeline, lane))
  for (const lane of numbered) matchNumbers(timeline, lane, matches)
  const ordered = lanes
    .filter((lane) => !numbered.includes(lane))
    .sort((a, b) => Number(b.oneGroup) - Number(a.oneGroup) || callsOf(b) - callsOf(a))
  const isShort = (lane: Lane): boolean => lane.ranks.every(({ events }) => events.length < SHORT)
  const unlisted = ordered.filter((lane) => isUnlisted(lane, timeline))
  const listed = ordered.filter((lane) => !unlisted.includes(lane))
  matchOrdered(
    timeline,
    listed.filter((lane) => !isShort(lane)),
    matches,
  )
  matchOrdered(timeline, listed.filter(isShort), matches)
  if (unlisted.length === 0) return { matches, estimate: null }
  const estimate = estimateGroups(timeline, unlisted, clocksOf(timeline, matches, null))
  const rest = unlisted.map((lane) => takeEstimated(lane, estimate, matches))
  const known = new KnownClocks(timeline, matches)
  const left = takeMessages(rest, estimate, clocksOf(timeline, matches, null), known, matches)
  matchOrdered(
    timeline,
    left.filter((lane) => !isShort(lane)),
    matches,
  )
  matchOrdered(timeline, left.filter(isShort), matches)
  return { matches, estimate }
}

/**
 * True if the traces list neither the ranks nor the size of the groups of a lane (communicator or stream), and the
 * groups can be estimated.
 */
const isUnlisted = ({ oneGroup, size }: Lane, { ranks }: Timeline): boolean =>
  !oneGroup && size === null && ranks.length > 2

function matchOrdered(timeline: Timeline, ordered: readonly Lane[], matches: Matches): void {
  if (ordered.length === 0) return
  const clocks = new KnownClocks(timeline, matches)
  for (const lane of ordered)
    for (const group of groupsOf(lane, clocks))
      matchOrder(lane, group, isGuessed(lane, timeline) ? 'guessed' : 'listed', clocks, matches)
}

/**
 * True if the ranks that communicate in a lane (communicator or stream) are inferred only from the ends of their calls.
 */
const isGuessed = ({ oneGroup, size }: Lane, { ranks }: Timeline): boolean =>
  !oneGroup && size !== ranks.length

/**
 * True if the sequence numbers distinguish calls. A sequence number that most calls have does not identify a call.
 */
function numbersTell({ ranks }: Timeline, lane: Lane): boolean {
  return lane.ranks.every(({ rank, events }) => {
    const numbers = new Set<number>()
    for (const event of events) numbers.add(sequenceOf(ranks[rank].events, event))
    return KERNELS_PER_CALL * numbers.size >= events.length
  })
}

function matchNumbers({ ranks }: Timeline, lane: Lane, matches: Matches): void {
  if (lane.ranks.length === 1) {
    const { rank, events } = lane.ranks[0]
    for (const event of events) matches.alone(rank, event)
    return
  }
  const known = new Map<number, number>()
  const growing = new GrowingMatches()
  for (const { rank, events } of lane.ranks) {
    const times = new Map<number, number>()
    for (const event of events) {
      // The kernels of one call have the same sequence number. The k-th kernel of a rank matches the k-th kernel of
      // every other rank.
      const number = sequenceOf(ranks[rank].events, event)
      const time = times.get(number) ?? 0
      times.set(number, time + 1)
      const key = number * 2 ** 21 + time
      const match = known.get(key)
      if (match === undefined) known.set(key, growing.begin(rank, event))
      else growing.add(match, rank, event)
    }
  }
  for (let match = 0; match < growing.length; match++) growing.finish(match, lane.by, 'listed', matches)
}

/**
 * The clocks of the ranks, as far as they are known before the calls of a lane (communicator or stream) are matched.
 */
class KnownClocks {
  private readonly clocks: readonly Clock[]
  private readonly timeline: Timeline
  /**
   * For each rank: an id that is equal for all ranks that matched collectives link, directly or through other ranks.
   */
  private readonly tied: number[]

  constructor(timeline: Timeline, matches: Matches) {
    this.timeline = timeline
    this.clocks = clocksOf(timeline, matches, null)
    this.tied = timeline.ranks.map((_, rank) => rank)
    for (const { members } of matches.shared()) for (const member of members) this.tie(members[0], member)
  }

  /** True if matched collectives link the two ranks, directly or through other ranks. */
  isTied(a: number, b: number): boolean {
    return this.tied[a] === this.tied[b]
  }

  private tie(a: number, b: number): void {
    const [one, other] = [this.tied[a], this.tied[b]]
    if (one !== other)
      for (let rank = 0; rank < this.tied.length; rank++) if (this.tied[rank] === other) this.tied[rank] = one
  }

  /** The nanoseconds to add to a time of rank `from` near time `at` to place it on the clock of rank `to`. */
  hint(from: number, to: number, at: number): Hint | null {
    const [one, other] = [this.clocks[from], this.clocks[to]]
    const trusted = this.tied[from] === this.tied[to]
    const gap = this.timeline.ranks[from].base - this.timeline.ranks[to].base
    if (!trusted && (gap > 2n ** 52n || gap < -(2n ** 52n))) return null
    return { distance: trusted ? fromCommon(other, toCommon(one, at)) - at : Number(gap), trusted }
  }
}

const middleOf = ({ ends }: Spans): number => (ends[0] + ends[ends.length - 1]) / 2

/**
 * Separates the calls of a lane (communicator or stream) by group, if the trace does not distinguish several groups in
 * the lane.
 */
function groupsOf(lane: Lane, clocks: KnownClocks): (readonly Calls[])[] {
  const { size, ranks } = lane
  if (lane.oneGroup || size === null || size >= ranks.length) return [ranks]
  if (size < 2) return ranks.map((calls) => [calls])
  return ranks.length <= ALL_PAIRS ? groupsByPairs(ranks, size, clocks) : groupsByPlace(ranks, size, clocks)
}

const sample = (calls: Calls): Spans => ({
  signatures: calls.signatures.subarray(0, SAMPLE),
  loose: calls.loose.subarray(0, SAMPLE),
  starts: calls.starts.subarray(0, SAMPLE),
  ends: calls.ends.subarray(0, SAMPLE),
})

/** The median difference between the end times of two ranks, or infinity if no calls of the two ranks match. */
function disagreement(a: Calls, b: Calls, clocks: KnownClocks): number {
  const [one, other] = [sample(a), sample(b)]
  const found = align(one, other, clocks.hint(b.rank, a.rank, middleOf(other)))
  return holds(found, one, other) ? found.skew : Infinity
}

/** Forms groups of at most `size` ranks. The ranks whose end times agree best are merged first. */
function groupsByPairs(ranks: readonly Calls[], size: number, clocks: KnownClocks): Calls[][] {
  const pairs: { a: number; b: number; skew: number }[] = []
  for (let a = 0; a < ranks.length; a++)
    for (let b = a + 1; b < ranks.length; b++)
      pairs.push({ a, b, skew: disagreement(ranks[a], ranks[b], clocks) })
  pairs.sort((one, other) => one.skew - other.skew || one.a - other.a || one.b - other.b)
  const groups = ranks.map((calls) => [calls])
  const groupOf = ranks.map((_, index) => index)
  for (const { a, b, skew } of pairs) {
    const [into, from] = [groupOf[a], groupOf[b]]
    if (skew === Infinity || into === from || groups[into].length + groups[from].length > size) continue
    groups[into].push(...groups[from])
    groups[from] = []
    for (let i = 0; i < groupOf.length; i++) if (groupOf[i] === from) groupOf[i] = into
  }
  return groups
    .filter((group) => group.length > 0)
    .map((group) => group.sort((one, other) => one.rank - other.rank))
}

/**
 * Forms groups either of neighbouring ranks or of ranks at equal distances, which are the usual layouts of process
 * groups. Of the two layouts, the one in which end times agree better is used.
 */
function groupsByPlace(ranks: readonly Calls[], size: number, clocks: KnownClocks): Calls[][] {
  const groups = Math.ceil(ranks.length / size)
  const layouts = [
    (place: number): number => Math.floor(place / size),
    (place: number): number => place % groups,
  ]
  const tried = layouts.map((groupOf) => {
    const made: Calls[][] = Array.from({ length: groups }, () => [])
    ranks.forEach((calls, place) => made[groupOf(place)].push(calls))
    let sum = 0
    for (const [first, ...others] of made)
      for (const other of others) sum += Math.min(1e9, disagreement(first, other, clocks))
    return { made, sum }
  })
  return tried[0].sum <= tried[1].sum ? tried[0].made : tried[1].made
}

/**
 * True if the calls of two ranks, which need not be in one group, match better than calls of unrelated ranks would by
 * chance.
 */
function holds({ matched, together, maximumSkew }: Alignment, a: Spans, b: Spans): boolean {
  const [na, nb] = [a.ends.length, b.ends.length]
  if (matched === 0 || together < MOST * matched) return false
  if (matched >= MOST * Math.min(na, nb)) return true
  // The number of calls of unrelated ranks that would end this close together by chance. The estimate uses a Poisson
  // distribution.
  const span = Math.max(b.ends[nb - 1] - b.ends[0], a.ends[na - 1] - a.ends[0])
  const expected = (na * nb * 2 * maximumSkew) / span
  if (expected >= 1) return false
  let chance = 1
  for (let k = 1; k <= matched && chance > 0; k++) chance *= expected / k
  return chance < CHANCE
}

/**
 * Adds the ranks one after the other, each to the matches of the given group or to the matches of another group whose
 * calls look alike.
 */
function matchOrder(
  lane: Lane,
  group: readonly Calls[],
  source: GroupSource,
  clocks: KnownClocks,
  matches: Matches,
): void {
  if (group.length === 1) {
    for (const event of group[0].events) matches.alone(group[0].rank, event)
    return
  }
  const merged: Merged[] = []
  for (const calls of group) {
    let best: { into: Merged; found: Alignment } | null = null
    // Neighbouring ranks are usually in one group.
    for (const into of merged.toReversed()) {
      const found = align(into.spans, calls, clocks.hint(calls.rank, into.rank, middleOf(calls)))
      if (lane.oneGroup) found.matched += pairByOrder(into.spans, calls, found.pairs)
      else if (!holds(found, into.spans, calls)) continue
      if (best === null || isBetter(found, best.found)) best = { into, found }
      if (found.matched >= MOST * calls.events.length && found.skew <= CERTAIN) break
    }
    if (best === null) merged.push(new Merged(calls))
    else best.into.add(calls, best.found)
  }
  for (const { order, growing } of merged)
    for (const match of order) growing.finish(match, lane.by, source, matches)
}

/** True if one alignment matches clearly more calls than the other, or about as many calls with closer end times. */
const isBetter = (one: Alignment, other: Alignment): boolean =>
  one.matched > 1.1 * other.matched || (one.matched > 0.9 * other.matched && one.skew < other.skew)

/** The calls of several ranks, merged into one sequence, with times on the clock of the first rank. */
class Merged {
  readonly rank: number
  spans: Spans
  readonly growing = new GrowingMatches()
  /** For each call: the index of its collective. */
  order: Uint32Array

  constructor({ rank, events, signatures, loose, starts, ends }: Calls) {
    this.rank = rank
    this.spans = { signatures, loose, starts: starts.slice(), ends }
    this.order = Uint32Array.from(events, (event) => this.growing.begin(rank, event))
  }

  add(calls: Calls, { pairs, distances, matched }: Alignment): void {
    const { starts } = this.spans
    for (let j = 0; j < pairs.length; j++) {
      if (pairs[j] < 0) continue
      this.growing.add(this.order[pairs[j]], calls.rank, calls.events[j])
      starts[pairs[j]] = Math.max(starts[pairs[j]], calls.starts[j] + distances[j])
    }
    if (matched < pairs.length) this.insert(calls, pairs, distances)
  }

  /** Inserts the calls that only the given rank has into the sequence, so that calls of later ranks can match them. */
  private insert(calls: Calls, pairs: Int32Array, distances: Float64Array): void {
    const old = this.spans
    // An entry is either the index of a call in the old sequence, or the bitwise complement of a new call's index.
    const entries = new Column(int32)
    const following = new Int32Array(pairs.length + 1).fill(old.ends.length)
    for (let j = pairs.length - 1; j >= 0; j--) following[j] = pairs[j] < 0 ? following[j + 1] : pairs[j]
    let i = 0
    for (let j = 0; j <= pairs.length; j++) {
      if (j < pairs.length && pairs[j] < 0) {
        const end = calls.ends[j] + distances[j]
        while (i < following[j] && old.ends[i] <= end) entries.push(i++)
        entries.push(~j)
      } else {
        const stop = j < pairs.length ? pairs[j] + 1 : old.ends.length
        while (i < stop) entries.push(i++)
      }
    }
    const spans = {
      signatures: new Int32Array(entries.length),
      loose: new Uint8Array(entries.length),
      starts: new Float64Array(entries.length),
      ends: new Float64Array(entries.length),
    }
    const order = new Uint32Array(entries.length)
    for (let at = 0; at < entries.length; at++) {
      const entry = entries.get(at)
      const isNew = entry < 0
      const call = isNew ? ~entry : entry
      const from = isNew ? calls : old
      const distance = isNew ? distances[call] : 0
      spans.signatures[at] = from.signatures[call]
      spans.loose[at] = from.loose[call]
      spans.starts[at] = from.starts[call] + distance
      spans.ends[at] = from.ends[call] + distance
      order[at] = isNew ? this.growing.begin(calls.rank, calls.events[call]) : this.order[call]
    }
    this.spans = spans
    this.order = order
  }
}
