/**
 * Finds one-off events, which say nothing about the other steps: long idle intervals without similar intervals, and
 * calls of kernels that took far longer than the other calls of the same kernel.
 */
import { difference, type Intervals, union } from '../timeline/intervals.ts'
import { end, Kind, NONE, type RankTimeline } from '../timeline/timeline.ts'
import { Draft, type Evidence, type Fix, OUTLIER } from './fix.ts'
import { idleParts, idleTime, type Partition } from './ledger.ts'
import { type MeanMeasured, Measured } from './measured.ts'

/** The largest number of one-off idle intervals (holes) per rank. */
const HOLES = 3
/** A one-off event takes at least the fraction `LARGE` of the wall time, and at least `LONG` nanoseconds. */
const LARGE = 0.02
const LONG = 1_000_000
/** If a kind of event occurs more often than once in this many steps, it is not a one-off event. */
const RECURS = 8

/** The minimum duration of a one-off event of a rank, in nanoseconds. */
export const leastOnce = ({ from, to }: Partition): number => Math.max(LONG, LARGE * (to - from))

/** A one-off idle interval of one rank. */
export interface Hole {
  readonly rank: number
  readonly from: number
  readonly to: number
  /** The start and the end of the idle interval on the common clock. */
  readonly start: number
  readonly stop: number
  readonly evidence: readonly Evidence[]
}

/** The kernels with a call that took far longer than their other calls, and the compute time of these long calls. */
export function outliersOf(
  rank: RankTimeline,
  names: readonly string[],
  index: number,
  { from, to }: Partition,
  steps: number,
  compute: MeanMeasured,
): { readonly outliers: Fix[]; readonly claimed: number } {
  const { start, duration, name, kind, operator, operands } = rank.events
  const least = Math.max(LONG, LARGE * (to - from))
  const candidates = new Map<number, { count: number; sum: number; event: number; second: number }>()
  const records = rank.operands.length + 1
  const keyOf = (event: number): number =>
    name[event] * records + (operator[event] === NONE ? 0 : operands[operator[event]] + 1)
  for (const track of rank.tracks) {
    if (track.role !== 'stream') continue
    for (let event = track.from; event < track.to; event++)
      if (
        kind[event] === Kind.kernel &&
        duration[event] >= least &&
        start[event] < to &&
        end(rank.events, event) > from
      )
        candidates.set(keyOf(event), { count: 0, sum: 0, event, second: 0 })
  }
  const outliers: Fix[] = []
  if (candidates.size === 0) return { outliers, claimed: 0 }
  for (const track of rank.tracks) {
    if (track.role !== 'stream') continue
    for (let event = track.from; event < track.to; event++) {
      const known = kind[event] === Kind.kernel ? candidates.get(keyOf(event)) : undefined
      if (!known) continue
      known.count++
      known.sum += duration[event]
      if (event === known.event) continue
      if (duration[event] > duration[known.event]) {
        known.second = duration[known.event]
        known.event = event
      } else known.second = Math.max(known.second, duration[event])
    }
  }
  let claimed = 0
  let done = -Infinity
  const found = [...candidates.values()].sort((a, b) => start[a.event] - start[b.event])
  for (const { count, sum, event, second } of found) {
    const long = duration[event]
    // Without operand shapes, only a recording of several steps shows that the calls of a kernel did the same work.
    const comparable = steps >= 2 || (operator[event] !== NONE && operands[operator[event]] !== NONE)
    if (count < 4 || !comparable || long < OUTLIER * ((sum - long) / (count - 1)) || second > long / 2)
      continue
    const begin = Math.max(done, start[event])
    const stop = end(rank.events, event)
    if (stop <= begin) continue
    done = stop
    const time = compute.within(begin, stop)
    if (time <= 0) continue
    claimed += time
    const place = { rank: index, from: start[event], to: stop }
    const saves = Math.max(0, time - (sum - long) / (count - 1))
    outliers.push({
      cause: 'outlier',
      time,
      saves,
      least: saves,
      count: 1,
      ranks: [index],
      once: true,
      evidence: [
        {
          activity: 'kernel',
          name: names[name[event]],
          inside: operator[event] === NONE ? null : names[name[operator[event]]],
          time,
          count,
          bytes: null,
          running: sum,
          longest: place,
          longestTime: time,
        },
      ],
    })
  }
  return { outliers, claimed }
}

/** One-off idle intervals of several ranks that overlap in time are one event. */
export function mergedHoles(all: readonly Hole[]): Fix[] {
  const holes = [...all].sort((a, b) => a.start - b.start)
  const fixes: Fix[] = []
  for (let i = 0; i < holes.length;) {
    const draft = new Draft()
    let stop = -Infinity
    let time = 0
    let longest = holes[i]
    const ranks = new Set<number>()
    for (; i < holes.length && (stop === -Infinity || holes[i].start < stop); i++) {
      const hole = holes[i]
      stop = Math.max(stop, hole.stop)
      time += hole.to - hole.from
      ranks.add(hole.rank)
      if (hole.to - hole.from > longest.to - longest.from) longest = hole
      for (const one of hole.evidence) draft.add(one)
    }
    fixes.push({
      cause: 'hole',
      time,
      saves: time,
      least: time,
      count: 1,
      ranks: [...ranks].sort((a, b) => a - b),
      once: true,
      evidence: [
        {
          activity: 'idle',
          name: null,
          inside: null,
          time,
          count: 1,
          bytes: null,
          running: time,
          longest: { rank: longest.rank, from: longest.from, to: longest.to },
          longestTime: longest.to - longest.from,
        },
        ...draft.evidence(),
      ],
    })
  }
  return fixes
}

/**
 * The idle time after the host waited for the device, until the next work starts. Idle time counts only if the device
 * became idle while the host waited, and only outside the intervals `apart`.
 */
export function followingOf(partition: Partition, apart: Intervals): number {
  const parts = idleTime(partition)
  const blocked = parts.hostBlocked
  let idle: Intervals = new Float64Array(0)
  for (const part of idleParts) idle = union(idle, parts[part])
  const free = new Measured(difference(union(parts.dispatch, parts.hostAbsent), apart))
  let sum = 0
  for (let i = 0, at = 0; i < idle.length; i += 2) {
    while (at < blocked.length && blocked[at] < idle[i]) at += 2
    if (at < blocked.length && blocked[at] === idle[i]) sum += free.within(blocked[at + 1], idle[i + 1])
  }
  return sum
}

/**
 * The one-off idle intervals of a rank: long intervals such that hardly any other idle interval of the rank is even
 * half as long. In a recording of many steps, a few idle intervals of similar length are allowed.
 */
export function oneOffHoles(partition: Partition, steps: number): Intervals {
  const parts = idleTime(partition)
  const unexplained = new Measured(parts.unattributed)
  let idle: Intervals = new Float64Array(0)
  for (const part of idleParts) idle = union(idle, parts[part])
  const least = Math.max(LONG, LARGE * (partition.to - partition.from))
  const long: (readonly [from: number, to: number])[] = []
  for (let i = 0; i < idle.length; i += 2)
    // Idle time before work without a recorded launch has one remedy (recording launches), so it is never a one-off
    // event.
    if (
      idle[i + 1] - idle[i] >= least / 2 &&
      unexplained.within(idle[i], idle[i + 1]) <= (idle[i + 1] - idle[i]) / 2
    )
      long.push([idle[i], idle[i + 1]])
  long.sort((a, b) => b[1] - b[0] - (a[1] - a[0]))
  const few = Math.max(1, Math.floor(steps / RECURS))
  let chosen = 0
  while (chosen < Math.min(long.length, HOLES)) {
    const [from, to] = long[chosen]
    if (to - from < least) break
    const alike = long.slice(chosen).filter(([a, b]) => b - a >= (to - from) / 2).length
    if (alike > few) break
    chosen++
  }
  const found = long.slice(0, chosen).sort((a, b) => a[0] - b[0])
  return Float64Array.from(found.flat())
}
