/**
 * Decides whether the ends of collectives prove that a clock is wrong, if the trace does not list the ranks of a group.
 *
 * Two groups that run the same program look like one group with a wrong clock. The calls of two groups that run the
 * same program have the same order, and if one group is late, all its calls end later by about the same time. One
 * effect distinguishes two groups from one group with a wrong clock. Within one collective, a rank that arrives early
 * waits for the others. In one group, arrivals therefore vary from call to call, while end times agree. In two separate
 * groups, no rank waits for the other group, so end times vary as much as arrivals.
 *
 * A clock correction is therefore kept only if three conditions hold: the end times are much closer with the correction
 * than without it; most of the end times agree; and the end times also agree for calls at which one set of ranks
 * arrived unusually early or late.
 */
import { Column, float64 } from '../timeline/columns.ts'
import type { Timeline } from '../timeline/timeline.ts'
import { AGREEMENT } from './agreement.ts'
import { endTolerance, median } from './align.ts'
import { communicationOf, isSynchronising } from './calls.ts'
import type { Matches } from './matches.ts'

/** The clock of a rank, as the end times of collectives suggest it. */
export interface ProposedClock {
  offset: number
  drift: number
  /** The first rank of the component, which is the set of ranks that are connected by shared collectives. */
  root: number
  /**
   * The first rank that is connected to this rank through known groups only. The clocks of ranks that are connected
   * through known groups are corrected together.
   */
  block: number
}

/** A clock correction is kept only if the ends of at least this fraction of calls agree. */
const MOST = 0.75
/**
 * A clock correction is kept only if one set of ranks arrives unusually early or late at more than this fraction of
 * calls. Fewer unusual arrivals may occur by chance.
 */
const TELLING = 0.1
/**
 * An arrival is unusual if it deviates by more than `LEAST` nanoseconds and by more than `FAR` times the scatter of the
 * end times.
 */
const LEAST = 2_000
const FAR = 4

/**
 * Resets corrected clocks to the trace's clocks unless the trace's clocks are proven wrong. Returns the ranks whose
 * clocks were reset.
 */
export function keepTraceClocks(
  timeline: Timeline,
  matches: Matches,
  clocks: readonly ProposedClock[],
): number[] {
  const corrections = clocks.map(({ offset, drift, root }, rank) => {
    const span = timeline.ranks[rank].deviceSpan
    return offset - byTrace(timeline, clocks, rank, root) + (span ? (drift * (span[0] + span[1])) / 2 : 0)
  })
  const isMoved = (block: number): boolean =>
    clocks[block].root !== block &&
    (Math.abs(corrections[block]) > 0.5 || clocks[block].drift !== 0) &&
    // If two clocks are more than 2^52 ns apart, times are not exact and the trace's clock is useless.
    Math.abs(corrections[block]) < 2 ** 52
  const sides = sidesOf(clocks, corrections)
  const moved = sides.map((ranks) => ranks.some((rank) => isMoved(clocks[rank].block)))
  if (!moved.includes(true)) return []

  // If the clock correction of one set of ranks is not proven, the corrections of all other sets are doubtful, because
  // ranks of the first set may be missing from their groups.
  const proofs = proofsOf(timeline, matches, clocks, sides, moved)
  const doubtful = new Set<number>()
  sides.forEach((ranks, side) => {
    if (moved[side] && !isProven(proofs[side])) doubtful.add(clocks[ranks[0]].root)
  })
  const before = clocks.map(({ offset, drift }) => ({ offset, drift }))
  const kept: number[] = []
  clocks.forEach((clock, rank) => {
    const { block, root } = clock
    if (!doubtful.has(root) || !isMoved(block)) return
    clock.offset -= before[block].offset - byTrace(timeline, before, block, root)
    clock.drift -= before[block].drift
    kept.push(rank)
  })
  return kept
}

/** The offset of a rank according to the trace's clocks, relative to the first rank of its component. */
const byTrace = (
  { ranks }: Timeline,
  clocks: readonly { readonly offset: number }[],
  rank: number,
  root: number,
): number => clocks[root].offset + Number(ranks[rank].base - ranks[root].base)

/**
 * Divides the ranks into sides: sets of ranks that share collectives and have the same clock correction. A side (a set
 * of ranks with one clock correction) is, for example, a process group or a machine.
 */
function sidesOf(clocks: readonly ProposedClock[], corrections: readonly number[]): number[][] {
  const order = clocks.map((_, rank) => rank)
  const of = (rank: number): number => corrections[clocks[rank].block]
  order.sort((a, b) => clocks[a].root - clocks[b].root || of(a) - of(b) || a - b)
  const sides: number[][] = []
  order.forEach((rank, i) => {
    const last = order[i - 1]
    if (i > 0 && clocks[last].root === clocks[rank].root && of(rank) - of(last) <= AGREEMENT)
      sides[sides.length - 1].push(rank)
    else sides.push([rank])
  })
  return sides
}

/**
 * For each call that one set of ranks shares with other sets: how much later than the other sets the set arrived and
 * ended, in nanoseconds.
 */
interface Proof {
  readonly arrivals: Column<Float64Array>
  readonly ends: Column<Float64Array>
  /** How much later the set of ranks ended than the other sets according to the trace's clock, in nanoseconds. */
  readonly before: Column<Float64Array>
  readonly tolerances: Column<Float64Array>
}

function proofsOf(
  timeline: Timeline,
  matches: Matches,
  clocks: readonly ProposedClock[],
  sides: readonly (readonly number[])[],
  moved: readonly boolean[],
): Proof[] {
  const { ranks } = timeline
  const sideOf = new Int32Array(ranks.length)
  sides.forEach((some, side) => some.forEach((rank) => (sideOf[rank] = side)))
  const proofs = sides.map(() => ({
    arrivals: new Column(float64),
    ends: new Column(float64),
    before: new Column(float64),
    tolerances: new Column(float64),
  }))
  for (const { members, events, source } of matches.shared()) {
    if (source === 'listed' || source === 'corrected' || members.every((rank) => !moved[sideOf[rank]]))
      continue
    // Ranks that can leave a collective before others have arrived need not end together with the others.
    const call = communicationOf(ranks[members[0]], events[0])
    if (call !== null && call.collective !== null && !isSynchronising(call)) continue
    const arrivals = new Latest()
    const ends = new Latest()
    const uncorrected = new Latest()
    let transfer = Infinity
    members.forEach((rank, k) => {
      const { start, duration } = ranks[rank].events
      const { offset, drift } = clocks[rank]
      const [from, to] = [start[events[k]], start[events[k]] + duration[events[k]]]
      arrivals.add(sideOf[rank], from + offset + drift * from)
      ends.add(sideOf[rank], to + offset + drift * to)
      uncorrected.add(sideOf[rank], to + byTrace(timeline, clocks, rank, clocks[rank].root))
      transfer = Math.min(transfer, to - from)
    })
    if (arrivals.bySide.size < 2) continue
    for (const side of arrivals.bySide.keys()) {
      if (!moved[side]) continue
      proofs[side].arrivals.push(arrivals.ahead(side))
      proofs[side].ends.push(ends.ahead(side))
      proofs[side].before.push((uncorrected.bySide.get(side) ?? NaN) - ends.latestBut(side))
      proofs[side].tolerances.push(endTolerance(transfer))
    }
  }
  return proofs
}

/** Tracks the latest time of each set of ranks in a call. */
class Latest {
  readonly bySide = new Map<number, number>()

  add(side: number, time: number): void {
    this.bySide.set(side, Math.max(this.bySide.get(side) ?? -Infinity, time))
  }

  latestBut(side: number): number {
    let others = -Infinity
    for (const [other, time] of this.bySide) if (other !== side) others = Math.max(others, time)
    return others
  }

  /** The difference between the latest time of a set of ranks and the latest time of all other sets. */
  ahead(side: number): number {
    return (this.bySide.get(side) ?? NaN) - this.latestBut(side)
  }
}

function isProven(proof: Proof): boolean {
  const [arrivals, ends, tolerances] = [proof.arrivals.all(), proof.ends.all(), proof.tolerances.all()]
  const distances = (values: Float64Array): Float64Array => values.map(Math.abs)
  const [before, after] = [median(distances(proof.before.all())), median(distances(ends))]
  if (after >= before / 2) return false
  const usual = median(arrivals.slice())
  const together = median(ends.slice())
  const scatter = median(ends.map((end) => Math.abs(end - together)))
  let [agree, telling, waited] = [0, 0, 0]
  for (let i = 0; i < ends.length; i++) {
    agree += Number(Math.abs(ends[i]) <= tolerances[i])
    const early = Math.abs(arrivals[i] - usual)
    if (early <= Math.max(LEAST, FAR * scatter)) continue
    telling++
    waited += Number(Math.abs(ends[i] - together) < early / 2)
  }
  return agree >= MOST * ends.length && telling > TELLING * ends.length && waited >= MOST * telling
}
