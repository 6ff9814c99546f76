/**
 * Aligns the clocks of all ranks to the clock of the first rank. All ranks leave a synchronising collective at nearly
 * the same time, so the ends of shared collectives show the offset between two clocks. If the measured offsets agree
 * with the trace's clocks within the usual scatter of end times, the trace's clocks are kept. If the measured offsets
 * disagree with the trace's clocks, a clock is corrected by the median distance of the end times. The correction also
 * contains a drift if the end times agree clearly better with a drift than without.
 *
 * Ranks that share no collective with the first rank are aligned through other ranks, along a spanning tree of the
 * pairs with the most shared collectives. Ranks that are not connected to the first rank keep the trace's clock. If the
 * trace clock of an unconnected rank differs by years, the rank is assumed to start together with the first rank, and a
 * warning states this assumption. An unconnected rank does not count as corrected, since no collective shows its true
 * clock.
 *
 * If the trace does not list the ranks of a group, a clock is corrected only if the data prove it wrong
 * (`clockProof.ts`).
 */
import { Column, float64 } from '../timeline/columns.ts'
import { rankNames } from '../timeline/ranges.ts'
import { sortBy } from '../timeline/sort.ts'
import { NONE, type Timeline } from '../timeline/timeline.ts'
import type { Warnings } from '../timeline/warnings.ts'
import { median } from './align.ts'
import { communicationOf, isSynchronising } from './calls.ts'
import { AGREEMENT } from './agreement.ts'
import { keepTraceClocks, type ProposedClock } from './clockProof.ts'
import type { Clock } from './collective.ts'
import type { Matches } from './matches.ts'

/** A difference between clocks is significant if it exceeds this multiple of the median scatter of end times. */
const SIGNIFICANCE = 3
/**
 * A clock is corrected if, without a correction, a rank would leave more than this fraction of collectives before
 * another rank has arrived.
 */
const MAXIMUM_VIOLATIONS = 0.05
/**
 * The conditions for fitting a drift: the minimum number of end times, the minimum time span and the minimum effect in
 * nanoseconds, and the maximum drift.
 */
const DRIFT = { ends: 16, span: 1e8, effect: 1_000, largest: 1e-3 } as const

/**
 * The maximum number of end times from which a median is computed. If there are more end times, the median is computed
 * from some of them at equal distances.
 */
const ENDS = 1 << 13

function evenly(values: Float64Array): Float64Array {
  if (values.length <= ENDS) return values
  return Float64Array.from({ length: ENDS }, (_, i) => values[Math.floor((i * values.length) / ENDS)])
}

/**
 * The nanoseconds to add to a time of the rank to place it on the other rank's clock, according to the trace's clocks,
 * or null if the clocks are more than 2^52 ns apart.
 */
function traceOffset({ ranks }: Timeline, rank: number, other = 0): number | null {
  const offset = ranks[rank].base - ranks[other].base
  const limit = 1n << 52n
  return offset > -limit && offset < limit ? Number(offset) : null
}

/** A pair of ranks that share collectives. The clock of the rank `far` is derived from the clock of the rank `near`. */
interface Edge {
  readonly near: number
  readonly far: number
  /**
   * End times on the clock of `far`, usually ascending, and for each end time the nanoseconds to add to place it on the
   * clock of `near`.
   */
  readonly times: Float64Array
  readonly distances: Float64Array
  /** The range of clock distances for which neither rank leaves a collective before the other has arrived. */
  readonly least: Float64Array
  readonly most: Float64Array
  /**
   * True if a rank can leave the calls of the two ranks before the other rank has arrived. If a rank can leave a call
   * before the other rank has arrived, differing end times are no evidence against the trace's clocks.
   */
  readonly loose: boolean
  /** True if neither the trace states nor an estimate shows that the two ranks are in one group. */
  readonly guessed: boolean
}

export function clocksOf(timeline: Timeline, matches: Matches, warnings: Warnings | null): Clock[] {
  const { ranks } = timeline
  const offsets = ranks.map((_, rank) => traceOffset(timeline, rank))
  const clocks: ProposedClock[] = offsets.map((offset, rank) => ({
    offset: offset ?? 0,
    drift: 0,
    root: NONE,
    block: rank,
  }))
  const tree = spanningTree(timeline, edgesOf(timeline, matches))
  // The alignment starts at the lowest rank of each component and proceeds to its neighbours. In the first component,
  // the lowest rank is usually the first rank of the timeline.
  ranks.forEach((_, root) => {
    if (clocks[root].root !== NONE) return
    clocks[root].root = root
    const open = [root]
    for (let near = open.pop(); near !== undefined; near = open.pop()) {
      for (const edge of tree[near]) {
        if (clocks[edge.far].root !== NONE) continue
        const fit = fitClock(edge, traceOffset(timeline, edge.far, near))
        const base = clocks[near]
        clocks[edge.far] = {
          offset: Math.round(base.offset + fit.offset * (1 + base.drift)),
          drift: base.drift + fit.drift + base.drift * fit.drift,
          root,
          block: edge.guessed ? edge.far : base.block,
        }
        open.push(edge.far)
      }
    }
  })

  const kept = keepTraceClocks(timeline, matches, clocks)
  const { residuals, counts } = residualsOf(timeline, matches, clocks)
  const made = clocks.map(({ offset, drift, root }, rank): Clock => {
    const middle = ranks[rank].deviceSpan ? (ranks[rank].deviceSpan[0] + ranks[rank].deviceSpan[1]) / 2 : 0
    // The clock offset according to the trace's clocks, relative to the first rank of the component.
    const before = clocks[root].offset + Number(ranks[rank].base - ranks[root].base)
    return {
      rank: ranks[rank].rank,
      offset,
      drift,
      aligned: offset !== before || drift !== 0,
      correction: Math.round(offset - before + drift * middle),
      residual: residuals[rank],
      collectives: counts[rank],
    }
  })
  if (warnings) warn(made, offsets, tree, kept, warnings)
  return made
}

/**
 * Builds the graph of ranks: every collective of several ranks adds edges from its first rank to all its other ranks.
 */
function edgesOf(timeline: Timeline, matches: Matches): Edge[] {
  const { ranks } = timeline
  // Known groups are preferred to guessed groups. Collectives that a rank can leave early are used only if nothing
  // better connects two ranks.
  const kinds = [0, 1, 2, 3].map(() => new Map<number, GrowingEdge>())
  for (const { members, events, source } of matches.shared()) {
    const guessed = source !== 'listed' && source !== 'corrected'
    const near = members[0]
    const first = ranks[near].events
    const call = communicationOf(ranks[near], events[0])
    // Calls of estimated groups were observed to end together, even if their kind of collective does not synchronise
    // ranks.
    const loose = !isSynchronising(call) && source !== 'estimated' && source !== 'corrected'
    const edges = kinds[2 * Number(loose) + Number(guessed)]
    const nearStart = first.start[events[0]]
    const nearEnd = nearStart + first.duration[events[0]]
    for (let k = 1; k < members.length; k++) {
      const far = members[k]
      const key = near * ranks.length + far
      let edge = edges.get(key)
      if (edge === undefined) edges.set(key, (edge = new GrowingEdge(near, far, loose, guessed)))
      const { start, duration } = ranks[far].events
      const farStart = start[events[k]]
      const farEnd = farStart + duration[events[k]]
      edge.add(nearStart, nearEnd, farStart, farEnd)
    }
  }
  const order = (a: Edge, b: Edge): number =>
    b.times.length - a.times.length || a.near - b.near || a.far - b.far
  return kinds.flatMap((edges) => Array.from(edges.values(), (edge) => edge.inOrder()).sort(order))
}

/** An edge of the graph of ranks, to which shared collectives are still being added. */
class GrowingEdge {
  private readonly near: number
  private readonly far: number
  private readonly loose: boolean
  private readonly guessed: boolean
  private readonly times = new Column(float64)
  private readonly distances = new Column(float64)
  private readonly least = new Column(float64)
  private readonly most = new Column(float64)

  constructor(near: number, far: number, loose: boolean, guessed: boolean) {
    this.near = near
    this.far = far
    this.loose = loose
    this.guessed = guessed
  }

  add(nearStart: number, nearEnd: number, farStart: number, farEnd: number): void {
    this.times.push(farEnd)
    this.distances.push(nearEnd - farEnd)
    this.least.push(nearStart - farEnd)
    this.most.push(nearEnd - farStart)
  }

  /**
   * Sorts the end times, since matched calls are added one communicator or stream after another, but a drift is fitted
   * along time. After a call of `inOrder`, the growing edge is empty.
   */
  inOrder(): Edge {
    const { near, far, loose, guessed, times } = this
    const order = Uint32Array.from({ length: times.length }, (_, i) => i)
    sortBy(order, (a, b) => times.get(a) - times.get(b))
    return {
      near,
      far,
      loose,
      guessed,
      distances: this.distances.take(order),
      least: this.least.take(order),
      most: this.most.take(order),
      times: times.take(order),
    }
  }
}

/** For each rank: its edges in a spanning forest. Edges with the most shared collectives are chosen first. */
function spanningTree({ ranks }: Timeline, edges: readonly Edge[]): Edge[][] {
  const parent = ranks.map((_, rank) => rank)
  const find = (rank: number): number => {
    while (parent[rank] !== rank) rank = parent[rank] = parent[parent[rank]]
    return rank
  }
  const tree: Edge[][] = ranks.map(() => [])
  for (const edge of edges) {
    const [a, b] = [find(edge.near), find(edge.far)]
    if (a === b) continue
    parent[a] = b
    tree[edge.near].push(edge)
    tree[edge.far].push(reversed(edge))
  }
  return tree
}

const reversed = ({ near, far, times, distances, most, least, loose, guessed }: Edge): Edge => ({
  near: far,
  far: near,
  times: times.map((time, i) => time + distances[i]),
  distances: distances.map((distance) => -distance),
  most: least.map((distance) => -distance),
  least: most.map((distance) => -distance),
  loose,
  guessed,
})

/**
 * The clock correction of the rank `far`: the trace's offset (`expected`), or the fit to the end times if the trace's
 * offset disagrees with the fit.
 */
function fitClock(edge: Edge, expected: number | null): { offset: number; drift: number } {
  const times = evenly(edge.times)
  const distances = evenly(edge.distances)
  const fitted = fitLine(times, distances)
  if (expected === null) return fitted
  const agreed = { offset: expected, drift: 0 }

  let violations = 0
  for (let i = 0; i < edge.most.length; i++)
    if (expected > edge.most[i] + AGREEMENT || expected < edge.least[i] - AGREEMENT) violations++
  if (violations > MAXIMUM_VIOLATIONS * edge.most.length) return fitted
  if (edge.loose) return agreed

  const length = distances.length
  const errors = new Float64Array(length)
  for (let i = 0; i < length; i++)
    errors[i] = Math.abs(distances[i] - fitted.offset - fitted.drift * times[i])
  const scatter = median(errors)
  // The fit is compared with the trace's offset at both ends of the trace, so that a drift counts even if the two agree
  // in the middle.
  let furthest = 0
  for (const at of [times[0], times[length - 1]])
    furthest = Math.max(furthest, Math.abs(fitted.offset + fitted.drift * at - expected))
  return furthest > AGREEMENT && furthest > SIGNIFICANCE * scatter ? fitted : agreed
}

/**
 * Fits a line through the clock distances by medians, so that a minority of outliers does not change the line. The
 * slope of the fitted line is 0 unless a clock drift fits clearly better.
 */
function fitLine(times: Float64Array, distances: Float64Array): { offset: number; drift: number } {
  const length = times.length
  const values = Float64Array.from(distances)
  const constant = median(values)
  for (let i = 0; i < length; i++) values[i] = Math.abs(distances[i] - constant)
  const scatter = median(values)

  const half = length >> 1
  const span = length > 0 ? times[length - 1] - times[0] : 0
  if (length < DRIFT.ends || span < DRIFT.span) return { offset: constant, drift: 0 }
  const slopes = new Float64Array(length - half)
  let count = 0
  for (let i = 0; i + half < length; i++) {
    const run = times[i + half] - times[i]
    if (run > span / 8) slopes[count++] = (distances[i + half] - distances[i]) / run
  }
  if (count === 0) return { offset: constant, drift: 0 }
  const drift = median(slopes.subarray(0, count))
  for (let i = 0; i < length; i++) values[i] = distances[i] - drift * times[i]
  const offset = median(values)
  for (let i = 0; i < length; i++) values[i] = Math.abs(distances[i] - drift * times[i] - offset)
  const clear =
    Math.abs(drift) * span > DRIFT.effect && Math.abs(drift) < DRIFT.largest && 2 * median(values) < scatter
  return clear ? { offset: Math.round(offset), drift } : { offset: constant, drift: 0 }
}

/**
 * For each rank: the median distance of its end times from the median end time of each collective, and the number of
 * collectives.
 */
function residualsOf(
  { ranks }: Timeline,
  matches: Matches,
  clocks: readonly { offset: number; drift: number }[],
): { residuals: (number | null)[]; counts: number[] } {
  const distances = ranks.map(() => new Column(float64))
  const order = new Float64Array(ranks.length)
  const ends = new Float64Array(ranks.length)
  for (const { members, events } of matches.shared()) {
    for (let k = 0; k < members.length; k++) {
      const { start, duration } = ranks[members[k]].events
      const { offset, drift } = clocks[members[k]]
      const time = start[events[k]] + duration[events[k]]
      ends[k] = time + offset + drift * time
    }
    const sorted = order.subarray(0, members.length)
    sorted.set(ends.subarray(0, members.length))
    if (members.length > FEW) sorted.sort()
    else insertionSort(sorted)
    const half = members.length >> 1
    const common = members.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2
    for (let k = 0; k < members.length; k++) distances[members[k]].push(Math.abs(ends[k] - common))
  }
  const counts = distances.map((of) => of.length)
  const residuals = distances.map((of) => (of.length > 0 ? Math.round(median(evenly(of.all()))) : null))
  return { residuals, counts }
}

/**
 * The number of values up to which insertion sort is faster than the sort method of typed arrays. Values are sorted
 * once per collective.
 */
const FEW = 16

function insertionSort(values: Float64Array): void {
  for (let i = 1; i < values.length; i++) {
    const value = values[i]
    let at = i
    for (; at > 0 && values[at - 1] > value; at--) values[at] = values[at - 1]
    values[at] = value
  }
}

function warn(
  clocks: readonly Clock[],
  offsets: readonly (number | null)[],
  tree: readonly (readonly Edge[])[],
  kept: readonly number[],
  warnings: Warnings,
): void {
  const microseconds = (time: number): string => `${(time / 1000).toFixed(3)} µs`
  const reached = componentOf(0, tree)
  const untied = (is: (offset: number | null) => boolean): number[] =>
    clocks.filter((_, rank) => !reached.has(rank) && is(offsets[rank])).map(({ rank }) => rank)
  const alone = untied((offset) => offset !== null)
  if (alone.length > 0)
    warnings.add(
      'clock',
      () =>
        `no matched collective connects ${rankNames(alone)} to rank ${clocks[0].rank}; ` +
        `${alone.length === 1 ? 'it keeps' : 'they keep'} the trace's clock`,
      alone.length,
      'alone',
    )
  const placed = untied((offset) => offset === null)
  if (placed.length > 0)
    warnings.add(
      'clock',
      () =>
        `no matched collective connects ${rankNames(placed)} to rank ${clocks[0].rank}, ` +
        `and by the trace's clocks they were recorded weeks or years apart; they are shown with the same start time`,
      placed.length,
      'placed',
    )
  if (kept.length > 0) {
    const [one] = kept
    warnings.add(
      'clock',
      () =>
        `collectives of ${rankNames(kept.map((rank) => clocks[rank].rank))} do not end together with those of the other ranks. ` +
        'The traces do not list process groups, so the cause may be a separate group and not a wrong clock; ' +
        `${kept.length === 1 ? `rank ${clocks[one].rank} keeps` : 'they keep'} the trace's clock`,
      kept.length,
      'kept',
    )
  }
  const aligned = clocks.filter(({ aligned, correction }) => aligned && correction !== 0)
  if (aligned.length > 0) {
    const worst = aligned.reduce((one, other) =>
      Math.abs(other.correction) > Math.abs(one.correction) ? other : one,
    )
    const residual = Math.max(...aligned.map((clock) => clock.residual ?? 0))
    warnings.add(
      'aligned',
      () =>
        (aligned.length === 1
          ? `the clock of rank ${worst.rank} disagrees with collective ends by `
          : `the clocks of ${aligned.length} ranks disagree with collective ends, rank ${worst.rank}'s by `) +
        `${microseconds(Math.abs(worst.correction))}; ` +
        `after alignment, the median distance from the common end is ${microseconds(residual)}`,
      aligned.length,
    )
  }
}

function componentOf(root: number, tree: readonly (readonly Edge[])[]): Set<number> {
  const reached = new Set([root])
  for (const rank of reached) for (const { far } of tree[rank] ?? []) reached.add(far)
  return reached
}

/** The time on the rank's clock when the common clock shows `time`. */
export const fromCommon = ({ offset, drift }: Clock, time: number): number => (time - offset) / (1 + drift)
