/**
 * The ranks' clocks, on the clock of the first rank. All ranks leave a synchronising collective at nearly the same time,
 * so the ends of shared collectives tell how far two clocks are apart. Where they agree with the trace's own clocks
 * within what ends scatter anyway, the trace's clocks stand; else they are corrected, by the median distance of ends
 * and, where that fits clearly better, by a drift.
 *
 * Ranks that share no collective with the first one are reached through others (the tree of the most shared
 * collectives); those that are not reached keep the trace's clock, or where that is years away begin together with the
 * first rank, which a warning says. Neither is a correction: there, nothing tells what the clock should be.
 *
 * Where the trace does not say which ranks are in a group, a correction is made only if the data prove it
 * (`clockProof.ts`).
 */
import { Column, float64 } from '../timeline/columns.ts'
import { rankNames } from '../timeline/ranges.ts'
import { sortBy } from '../timeline/sort.ts'
import { NONE, type Timeline } from '../timeline/timeline.ts'
import type { Warnings } from '../timeline/warnings.ts'
import { median } from './align.ts'
import { communicationOf, isSynchronising } from './calls.ts'
import { AGREEMENT, keepTraceClocks, type ProposedClock } from './clockProof.ts'
import type { Clock } from './collective.ts'
import type { Matches } from './matches.ts'

/** A difference counts where it is more than this often the median scatter of ends. */
const SIGNIFICANCE = 3
/** The share of collectives that a rank may leave before another arrived, before its clock is corrected. */
const MAXIMUM_VIOLATIONS = 0.05
/** A drift is looked for in this many ends or more, over this long or longer, and up to this size. */
const DRIFT = { ends: 16, span: 1e8, effect: 1_000, largest: 1e-3 } as const

/** Of more ends than this, medians are of as many, evenly chosen. */
const ENDS = 1 << 13

function evenly(values: Float64Array): Float64Array {
  if (values.length <= ENDS) return values
  return Float64Array.from({ length: ENDS }, (_, i) => values[Math.floor((i * values.length) / ENDS)])
}

/** What to add to a time of the rank to have it on the other's clock, by the trace; null beyond 2^52 ns. */
export function traceOffset({ ranks }: Timeline, rank: number, other = 0): number | null {
  const offset = ranks[rank].base - ranks[other].base
  const limit = 1n << 52n
  return offset > -limit && offset < limit ? Number(offset) : null
}

/** Two ranks that share collectives. `far` is reached from `near`. */
interface Edge {
  readonly near: number
  readonly far: number
  /** Ends on the far clock, ascending as a rule, and what to add to have them on the near clock. */
  readonly times: Float64Array
  readonly distances: Float64Array
  /** Between which the distance must be for neither rank to leave before the other arrived. */
  readonly least: Float64Array
  readonly most: Float64Array
  /** Whether a rank may leave these calls early: then ends that differ say nothing against the trace's clocks. */
  readonly loose: boolean
  /** Whether the trace does not say that the two are in one group. */
  readonly guessed: boolean
}

export { AGREEMENT } from './clockProof.ts'

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
  // From each component's lowest rank outwards; of the first component that is the first rank as a rule.
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
    // Where the trace's clocks would have it, seen from the rank by which its component is placed.
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

/** Every shared collective ties all its ranks to its first one. */
function edgesOf(timeline: Timeline, matches: Matches): Edge[] {
  const { ranks } = timeline
  // In the order in which they are used: known groups before guessed ones, and collectives that a rank may leave early
  // only where nothing better ties two ranks.
  const kinds = [0, 1, 2, 3].map(() => new Map<number, GrowingEdge>())
  for (const { members, events, guessed } of matches.shared()) {
    const near = members[0]
    const first = ranks[near].events
    const kind = communicationOf(ranks[near], events[0])?.collective ?? null
    const loose = !isSynchronising(kind)
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

/** Two ranks to which shared collectives are still added. */
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

  /** Matches come lane by lane; a drift is looked for along time. Empty afterwards. */
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

/** By rank, the edges of a spanning forest from it, the most shared collectives first. */
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

/** What to add to a time of the far rank: what the trace says (`expected`), or what ends say where they disagree. */
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
  // The correction at both ends of the trace, so that a drift counts even where it is nought in the middle.
  let furthest = 0
  for (const at of [times[0], times[length - 1]])
    furthest = Math.max(furthest, Math.abs(fitted.offset + fitted.drift * at - expected))
  return furthest > AGREEMENT && furthest > SIGNIFICANCE * scatter ? fitted : agreed
}

/** A line through the distances, that a minority of wild ones does not move: a constant unless a slope fits clearly better. */
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

/** By rank: the median distance of its ends from the middle one of each collective, and of how many. */
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

/** Up to this many, insertion beats the sort of typed arrays, which is called once a collective. */
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
  const microseconds = (time: number): string => `${(time / 1000).toFixed(3)} us`
  const reached = componentOf(0, tree)
  const untied = (is: (offset: number | null) => boolean): number[] =>
    clocks.filter((_, rank) => !reached.has(rank) && is(offsets[rank])).map(({ rank }) => rank)
  const alone = untied((offset) => offset !== null)
  if (alone.length > 0)
    warnings.add(
      'clock',
      () =>
        `no matched collective ties ${rankNames(alone)} to rank ${clocks[0].rank}; ` +
        `${alone.length === 1 ? 'it keeps' : 'they keep'} the trace's clock`,
      alone.length,
      'alone',
    )
  const placed = untied((offset) => offset === null)
  if (placed.length > 0)
    warnings.add(
      'clock',
      () =>
        `no matched collective ties ${rankNames(placed)} to rank ${clocks[0].rank}, and by the trace's clocks they were ` +
        `recorded weeks or years apart; they are shown from the same beginning`,
      placed.length,
      'placed',
    )
  if (kept.length > 0) {
    const [one] = kept
    warnings.add(
      'clock',
      () =>
        `collectives of ${rankNames(kept.map((rank) => clocks[rank].rank))} do not end together with those of the other ranks. ` +
        'The traces do not list process groups, so this may be another group rather than a wrong clock; ' +
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
      'clock',
      () =>
        (aligned.length === 1
          ? `the clock of rank ${worst.rank} disagrees with collective ends by `
          : `the clocks of ${aligned.length} ranks disagree with collective ends, rank ${worst.rank}'s by `) +
        `${microseconds(Math.abs(worst.correction))}; aligned, ends are ${microseconds(residual)} from ` +
        `the common one at the median`,
      aligned.length,
      'aligned',
    )
  }
}

function componentOf(root: number, tree: readonly (readonly Edge[])[]): Set<number> {
  const reached = new Set([root])
  for (const rank of reached) for (const { far } of tree[rank] ?? []) reached.add(far)
  return reached
}

/** The rank's time at which the common clock shows `time`. */
export const fromCommon = ({ offset, drift }: Clock, time: number): number => (time - offset) / (1 + drift)
