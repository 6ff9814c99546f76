/**
 * Explains why a rank was late: because it had more work (more tokens, larger operands, more kernels), because it was
 * slower at equal work, or because its device was idle. The compute of the late rank since the previous collective is
 * compared with the compute of the second-latest rank, kernel by kernel. The amount of work follows from the shapes of
 * operators. Without shapes, only the number of kernels is compared, and the difference in time per kernel has an
 * unknown cause.
 */
import { lowerBound } from '../timeline/search.ts'
import { end, Kind, NONE, type RankTimeline, type Timeline } from '../timeline/timeline.ts'
import { type Clock, toCommon } from './collective.ts'
import { type Collectives, Unblamed } from './collectiveTable.ts'
import { RankTraffic } from './rankTraffic.ts'

/** The time by which the late rank took longer than the second-latest rank, in nanoseconds, and its causes. */
export interface Slowness {
  /** The additional time of the late rank that follows from more work. */
  readonly more: number
  /** The additional time that the late rank took for equal work. */
  readonly slower: number
  /** The additional time of kernels whose amount of work the trace does not state. */
  readonly unknown: number
  /** The additional time in which no kernel ran: idle time, and copies. */
  readonly other: number
  /** The kernels whose times differ most between the late rank and the second-latest rank. */
  readonly kernels: readonly {
    readonly name: string
    readonly more: number
    readonly slower: number
    readonly unknown: number
    /**
     * The amount of work of the late rank divided by the amount of work of the second-latest rank, or null if unknown.
     */
    readonly work: number | null
    /**
     * The time per unit of work of the late rank divided by that of the second-latest rank, or null if it is unknown.
     */
    readonly pace: number | null
    /** The shape of the first operand in the largest call on the late rank and on the second-latest rank. */
    readonly shapes: readonly [late: string, other: string] | null
  }[]
}

/** The maximum number of collectives that are compared. The collectives at which the rank was latest are chosen. */
const COMPARED = 128
/**
 * The maximum number of collectives that are searched for the previous collective in which the same two ranks take
 * part.
 */
const BACK = 256
const SHOWN = 3

interface Segment {
  readonly late: number
  readonly other: number
  readonly lateFrom: number
  readonly lateTo: number
  readonly otherFrom: number
  readonly otherTo: number
  readonly by: number
}

/** Compares a late rank with the second-latest rank, or returns null if no earlier collective has both ranks. */
export function slownessOf(
  timeline: Timeline,
  collectives: Collectives,
  clocks: readonly Clock[],
  rank: number,
): Slowness | null {
  const segments = segmentsOf(timeline, collectives, clocks, rank)
  if (segments.length === 0) return null
  const sums = new Map<string, [late: Sum, other: Sum]>()
  const traffics = new Map<number, RankWork>()
  const workOf = (of: number): RankWork => {
    let known = traffics.get(of)
    if (!known) traffics.set(of, (known = new RankWork(timeline.ranks[of], timeline.names)))
    return known
  }
  let other = 0
  for (const one of segments) {
    const busy = workOf(one.late).add(sums, 0, one.lateFrom, one.lateTo)
    const otherBusy = workOf(one.other).add(sums, 1, one.otherFrom, one.otherTo)
    other += one.lateTo - one.lateFrom - busy - (one.otherTo - one.otherFrom - otherBusy)
  }
  const kernels = [...sums].map(([name, [late, reference]]) => compare(name, late, reference))
  const sum = (of: (one: (typeof kernels)[number]) => number): number =>
    kernels.reduce((all, one) => all + of(one), 0)
  return {
    more: sum(({ more }) => more),
    slower: sum(({ slower }) => slower),
    unknown: sum(({ unknown }) => unknown),
    other,
    kernels: kernels
      .sort((a, b) => b.more + b.slower + b.unknown - (a.more + a.slower + a.unknown))
      .slice(0, SHOWN),
  }
}

/**
 * The intervals from the previous common collective to the collective at which the rank was late, on the late rank and
 * on the second-latest rank.
 */
function segmentsOf(
  { ranks }: Timeline,
  { length, first, rank: rankOf, event: eventOf, last, unblamed }: Collectives,
  clocks: readonly Clock[],
  rank: number,
): Segment[] {
  const segments: Segment[] = []
  const startOf = (member: number): number => ranks[rankOf[member]].events.start[eventOf[member]]
  const memberOf = (collective: number, wanted: number): number => {
    for (let m = first[collective]; m < first[collective + 1]; m++) if (rankOf[m] === wanted) return m
    return NONE
  }
  for (let i = 0; i < length; i++) {
    if (last[i] !== rank || unblamed[i] !== Unblamed.no) continue
    const own = memberOf(i, rank)
    let second = NONE
    let arrival = -Infinity
    for (let m = first[i]; m < first[i + 1]; m++) {
      const at = toCommon(clocks[rankOf[m]], startOf(m))
      if (m !== own && at > arrival) [second, arrival] = [m, at]
    }
    if (own === NONE || second === NONE) continue
    const other = rankOf[second]
    for (let p = i - 1; p >= Math.max(0, i - BACK); p--) {
      const [a, b] = [memberOf(p, rank), memberOf(p, other)]
      if (a === NONE || b === NONE) continue
      const [lateFrom, otherFrom] = [
        end(ranks[rank].events, eventOf[a]),
        end(ranks[other].events, eventOf[b]),
      ]
      const [lateTo, otherTo] = [startOf(own), startOf(second)]
      if (lateFrom < lateTo && otherFrom <= otherTo)
        segments.push({
          late: rank,
          other,
          lateFrom,
          lateTo,
          otherFrom,
          otherTo,
          by: toCommon(clocks[rank], lateTo) - arrival,
        })
      break
    }
  }
  return segments.sort((a, b) => b.by - a.by).slice(0, COMPARED)
}

interface Sum {
  time: number
  count: number
  /** The amount of work of all calls of a kernel, or NaN if it is unknown for one of the calls. */
  work: number
  largest: number
  shape: readonly number[] | null
}

const emptySum = (): Sum => ({ time: 0, count: 0, work: 0, largest: -1, shape: null })

/** The kernels of a rank and their amounts of work. */
class RankWork {
  private readonly rank: RankTimeline
  private readonly names: readonly string[]
  private readonly traffic: RankTraffic

  constructor(rank: RankTimeline, names: readonly string[]) {
    this.rank = rank
    this.names = names
    this.traffic = new RankTraffic(rank, names)
  }

  /** Adds the kernels that start in the interval. Returns the time during which the added kernels ran. */
  add(sums: Map<string, [Sum, Sum]>, side: 0 | 1, from: number, to: number): number {
    const { tracks, events } = this.rank
    const { start, kind, name, operator } = events
    let busy = 0
    for (const track of tracks) {
      if (track.role !== 'stream') continue
      const starts = start.subarray(track.from, track.to)
      for (
        let event = track.from + lowerBound(starts, from);
        event < track.to && start[event] < to;
        event++
      ) {
        if (kind[event] !== Kind.kernel && kind[event] !== Kind.memset) continue
        const time = Math.min(to, end(events, event)) - start[event]
        busy += time
        const call = operator[event]
        const key = this.names[call === NONE ? name[event] : name[call]]
        let pair = sums.get(key)
        if (!pair) sums.set(key, (pair = [emptySum(), emptySum()]))
        const sum = pair[side]
        sum.time += time
        sum.count++
        const { work, shape } = this.work(event)
        sum.work += work
        if (work > sum.largest) {
          sum.largest = work
          sum.shape = shape
        }
      }
    }
    return busy
  }

  private work(event: number): { work: number; shape: readonly number[] | null } {
    const { operator, operands } = this.rank.events
    const call = operator[event]
    const record = call === NONE ? NONE : operands[call]
    if (record === NONE) return { work: NaN, shape: null }
    const shape = this.rank.operands[record].shapes.find((extents) => extents.length > 0) ?? null
    const computes = this.traffic.of(event)?.computes
    if (computes?.kind === 'product')
      return { work: computes.left.elements * computes.columns, shape: computes.left.shape }
    if (computes?.kind === 'attention')
      return {
        work: computes.query.elements * (computes.tokens ?? computes.queryTokens),
        shape: computes.query.shape,
      }
    return { work: shape === null ? NaN : shape.reduce((product, extent) => product * extent, 1), shape }
  }
}

function compare(name: string, late: Sum, other: Sum): Slowness['kernels'][number] {
  const [work, reference] = [late.work, other.work]
  const shapes = late.shape && other.shape ? ([late.shape.join('x'), other.shape.join('x')] as const) : null
  if (work > 0 && reference > 0) {
    const rate = other.time / reference
    const more = (work - reference) * rate
    return {
      name,
      more,
      slower: late.time - other.time - more,
      unknown: 0,
      work: work / reference,
      pace: rate > 0 ? late.time / work / rate : null,
      shapes,
    }
  }
  // If only one of the two ranks runs a kernel, the whole time of the kernel counts as a difference in work.
  const more =
    other.count === 0 || late.count === 0
      ? late.time - other.time
      : (late.count - other.count) * (other.time / other.count)
  return {
    name,
    more,
    slower: 0,
    unknown: late.time - other.time - more,
    work: null,
    pace: null,
    shapes: null,
  }
}
