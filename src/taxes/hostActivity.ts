/**
 * Finds the host's activity while a rank's device was idle because of the host: the innermost call, operator,
 * annotation or Python frame on the threads that enqueue work. Idle time in which the threads recorded nothing is
 * listed separately, so the listed times add up to the time of each category.
 *
 * The caller can set intervals apart, such as one-off events, so that their time is listed separately. The time of an
 * interval that was set apart is listed under the number of the interval and is not included in the times of the
 * categories.
 */
import { Column, float64, uint32 } from '../timeline/columns.ts'
import type { Intervals } from '../timeline/intervals.ts'
import { isAllocation, isModuleLoad, isTelling } from '../timeline/hostCallNames.ts'
import { isDeviceWork, Kind, NONE, type RankTimeline, type Track } from '../timeline/timeline.ts'
import { type IdlePart, idleTime, type Partition } from './ledger.ts'

/**
 * The categories of idle time that the host's activity can explain. In idle time of any other category, the next work
 * was already enqueued.
 */
export const hostParts = [
  'dispatch',
  'hostBlocked',
  'hostAbsent',
  'unattributed',
] as const satisfies readonly IdlePart[]
export type HostPart = (typeof hostParts)[number]

export const hostActivities = [
  'dataLoading',
  'allocation',
  'moduleLoading',
  'synchronising',
  'launching',
  'runtimeCall',
  'operator',
  'annotation',
  'frame',
  'notRecorded',
] as const
export type HostActivity = (typeof hostActivities)[number]

/** One activity of the host in one category of the idle time of one rank. Times are in nanoseconds. */
export interface HostTime {
  readonly part: HostPart
  /** The number of the interval that was set apart, or -1. */
  readonly apart: number
  readonly activity: HostActivity
  /** The name of the call, operator, annotation or Python frame; null if the threads recorded nothing. */
  readonly name: string | null
  /** The operator, annotation or Python frame that contains the activity, or null. */
  readonly inside: string | null
  readonly time: number
  /** The number of uninterrupted intervals in which the activity ran. */
  readonly count: number
  /** The longest uninterrupted interval. */
  readonly from: number
  readonly to: number
}

/** Bits for the meanings that the name of a host event can have. */
const LOADING = 1
const ALLOCATION = 2
const MODULE = 4
const FOREIGN = 8

const dataLoading = /data_?load|prefetch|next_?batch|get_?batch|data_?iter/i
/**
 * True for Python frames of libraries and built-in functions, which explain less than the program's own frame that
 * called them.
 */
export const isForeignFrame = (name: string): boolean => foreign.test(name)
const foreign =
  /^<|^nn\.Module: |site-packages|dist-packages|(^|\/)torch\/|lib\/python|^(threading|contextlib|functools|selectors|queue|socket|enum|typing|copy|inspect|re|os|abc)\.py\(/

/**
 * The activities of the host in the idle time of a rank, with the longest first. `apart` holds the intervals whose time
 * is listed separately; they are disjoint and in order of time.
 */
export function hostTimes(
  rank: RankTimeline,
  names: readonly string[],
  partition: Partition,
  apart: Intervals = new Float64Array(0),
): HostTime[] {
  const sums = new Sums(names)
  let open = piecesOf(partition, apart)
  const enqueues = enqueuingOperators(rank)
  const isNamed = (event: number): boolean =>
    rank.events.kind[event] === Kind.operator ? enqueues[event] > 0 : sums.isTelling(rank.events.name[event])
  for (const track of enqueuingThreads(rank)) {
    if (open.length === 0) break
    open = explain(rank, track, open, sums, isNamed)
  }
  for (let i = 0; i < open.length; i++) sums.addNothing(open.code[i], open.from[i], open.to[i])
  return sums.list()
}

/** The threads that enqueue work, with the thread that enqueues the most work first. */
function enqueuingThreads({ tracks, events: { kind } }: RankTimeline): Track[] {
  return tracks
    .filter(({ role }) => role === 'thread')
    .map((track) => {
      let launches = 0
      for (let event = track.from; event < track.to; event++) if (kind[event] === Kind.launch) launches++
      return { track, launches }
    })
    .filter(({ launches }) => launches > 0)
    .sort((a, b) => b.launches - a.launches)
    .map(({ track }) => track)
}

/** Marks the operators that enqueue device work themselves, not only through inner operators. */
function enqueuingOperators({ events: { length, kind, operator } }: RankTimeline): Uint8Array {
  const enqueues = new Uint8Array(length)
  for (let event = 0; event < length; event++)
    if (operator[event] !== NONE && isDeviceWork(kind[event])) enqueues[operator[event]] = 1
  return enqueues
}

/**
 * Idle intervals in order. The code of an interval is its category, plus a multiple of the number of categories if the
 * interval was set apart.
 */
interface Pieces {
  readonly length: number
  readonly from: Float64Array
  readonly to: Float64Array
  readonly code: Uint32Array
}

class PiecesWriter {
  private readonly from = new Column(float64)
  private readonly to = new Column(float64)
  private readonly code = new Column(uint32)

  add(from: number, to: number, code: number): void {
    if (to <= from) return
    this.from.push(from)
    this.to.push(to)
    this.code.push(code)
  }

  pieces(): Pieces {
    return { length: this.from.length, from: this.from.all(), to: this.to.all(), code: this.code.all() }
  }
}

const PARTS = hostParts.length

/** Merges the categories of idle time, which are disjoint sets of time, into one list of intervals in order. */
function piecesOf(partition: Partition, apart: Intervals): Pieces {
  const causes = idleTime(partition)
  const sets = hostParts.map((part) => causes[part])
  const next = hostParts.map(() => 0)
  const pieces = new PiecesWriter()
  let hole = 0
  for (;;) {
    let part = -1
    for (let i = 0; i < PARTS; i++)
      if (next[i] < sets[i].length && (part < 0 || sets[i][next[i]] < sets[part][next[part]])) part = i
    if (part < 0) return pieces.pieces()
    const stop = sets[part][next[part] + 1]
    for (let at = sets[part][next[part]]; at < stop;) {
      while (hole < apart.length && apart[hole + 1] <= at) hole += 2
      const isInside = hole < apart.length && apart[hole] <= at
      const edge = hole >= apart.length ? Infinity : isInside ? apart[hole + 1] : apart[hole]
      const to = Math.min(stop, edge)
      pieces.add(at, to, part + (isInside ? PARTS * (hole / 2 + 1) : 0))
      at = to
    }
    next[part] += 2
  }
}

/**
 * Adds the idle time that the events of a thread explain to the sums. Returns the idle intervals that the events of the
 * thread do not explain.
 */
function explain(
  rank: RankTimeline,
  track: Track,
  open: Pieces,
  sums: Sums,
  isNamed: (event: number) => boolean,
): Pieces {
  const { from: starts, to: stops, code: codes, length } = open
  const left = new PiecesWriter()
  const stack: number[] = []
  let i = 0
  let at = starts[0]
  const segment = (from: number, to: number): number => {
    while (i < length && starts[i] < to) {
      const stop = stops[i]
      if (stop > from) {
        const start = Math.max(from, at)
        const until = Math.min(to, stop)
        if (until > start && sums.add(rank, stack, codes[i], start, until)) {
          left.add(at, start, codes[i])
          at = until
        }
      }
      if (stop > to) return to
      left.add(at, stop, codes[i])
      if (++i < length) at = starts[i]
    }
    return i < length ? starts[i] : Infinity
  }
  walk(rank, track, stack, [starts[0], stops[length - 1]], segment, isNamed)
  for (; i < length; i++) left.add(Math.max(at, starts[i]), stops[i], codes[i])
  return left.pieces()
}

/**
 * Calls `segment` for each interval during which the innermost host event of a thread does not change. During a call of
 * `segment`, `stack` holds the host events that are running, the innermost one last. `segment` returns the start of the
 * next idle interval, so that events before this time can be skipped.
 *
 * Operators and calls inside an operator count as the outer operator, unless `isNamed` accepts them. A trace reader may
 * have left out inner operators and calls (`Detail` in timeline/builder.ts), and the result must not depend on the
 * reader's choice.
 */
function walk(
  { events }: RankTimeline,
  track: Track,
  stack: number[],
  [first, last]: readonly [number, number],
  segment: (from: number, to: number) => number,
  isNamed: (event: number) => boolean,
): void {
  const { start, kind, duration } = events
  let covered = -Infinity
  const ends: number[] = []
  let at = -Infinity
  let wanted = first
  const advance = (time: number): void => {
    while (ends.length > 0) {
      const stop = ends[ends.length - 1]
      if (stop > time) break
      if (stop > at) {
        if (stop > wanted) wanted = segment(at, stop)
        at = stop
      }
      ends.pop()
      stack.pop()
    }
    if (time <= at) return
    if (ends.length > 0 && time > wanted) wanted = segment(at, time)
    at = time
  }
  for (let event = track.from; event < track.to && start[event] < last; event++) {
    const stop = start[event] + duration[event]
    if (stop <= wanted || kind[event] === Kind.step || duration[event] === 0) continue
    const mayBeAbsent = kind[event] === Kind.operator || kind[event] === Kind.runtime
    if (mayBeAbsent && stop <= covered && !isNamed(event)) continue
    if (kind[event] === Kind.operator) covered = Math.max(covered, stop)
    advance(start[event])
    stack.push(event)
    ends.push(stop)
  }
  advance(Infinity)
}

interface Sum {
  readonly code: number
  readonly activity: HostActivity
  readonly name: number
  readonly inside: number
  time: number
  count: number
  from: number
  to: number
  /** The start and end of the uninterrupted interval that was added last. */
  since: number
  until: number
}

class Sums {
  private readonly names: readonly string[]
  private readonly sums = new Map<number, Sum>()
  /** For each name: the activity that the name stands for, or undefined if the name was not classified yet. */
  private readonly says: (number | undefined)[] = []
  private readonly tells: (boolean | undefined)[] = []

  constructor(names: readonly string[]) {
    this.names = names
  }

  /**
   * Adds an interval in which the events of `stack` ran. Returns false if the events of `stack` do not explain the
   * interval's category of idle time.
   */
  add(rank: RankTimeline, stack: readonly number[], code: number, from: number, to: number): boolean {
    const { kind, name } = rank.events
    const part = hostParts[code % PARTS]
    let place = stack.length - 1
    // If the category is `hostBlocked`, the synchronisation call is the activity, and calls inside the synchronisation
    // are ignored.
    if (part === 'hostBlocked') while (place >= 0 && kind[stack[place]] !== Kind.synchronize) place--
    if (part === 'dispatch') while (place >= 0 && kind[stack[place]] > Kind.operator) place--
    if (place < 0) return false
    const leaf = stack[place]
    const isCall = kind[leaf] <= Kind.runtime
    const loader = isCall ? -1 : this.loader(rank, stack, place)
    const chosen = loader >= 0 ? loader : leaf
    const around = this.around(rank, stack, loader >= 0 ? stack.indexOf(loader) : place)
    this.put(
      code,
      loader >= 0 ? 'dataLoading' : this.activity(kind[leaf], name[leaf]),
      name[chosen],
      around === NONE ? NONE : name[around],
      from,
      to,
    )
    return true
  }

  isTelling(name: number): boolean {
    return (this.tells[name] ??= isTelling(this.names[name]))
  }

  addNothing(code: number, from: number, to: number): void {
    this.put(code, 'notRecorded', NONE, NONE, from, to)
  }

  list(): HostTime[] {
    const text = (name: number): string | null => (name === NONE ? null : this.names[name] || null)
    return [...this.sums.values()]
      .sort((a, b) => b.time - a.time || a.from - b.from)
      .map(({ code, activity, name, inside, time, count, from, to }) => ({
        part: hostParts[code % PARTS],
        apart: Math.floor(code / PARTS) - 1,
        activity,
        name: text(name),
        inside: text(inside),
        time,
        count,
        from,
        to,
      }))
  }

  private put(
    code: number,
    activity: HostActivity,
    name: number,
    inside: number,
    from: number,
    to: number,
  ): void {
    const size = this.names.length + 1
    const key =
      ((code * hostActivities.length + hostActivities.indexOf(activity)) * size + name + 1) * size +
      inside +
      1
    let sum = this.sums.get(key)
    if (sum === undefined) {
      sum = { code, activity, name, inside, time: 0, count: 0, from, to: from, since: NaN, until: NaN }
      this.sums.set(key, sum)
    }
    sum.time += to - from
    if (from === sum.until) sum.until = to
    else {
      sum.count++
      sum.since = from
      sum.until = to
    }
    if (sum.until - sum.since > sum.to - sum.from) {
      sum.from = sum.since
      sum.to = sum.until
    }
  }

  private activity(kind: number, name: number): HostActivity {
    const says = this.of(name, kind)
    switch (kind) {
      case Kind.launch:
        return 'launching'
      case Kind.synchronize:
        return says & ALLOCATION ? 'allocation' : 'synchronising'
      case Kind.runtime:
        return says & ALLOCATION ? 'allocation' : says & MODULE ? 'moduleLoading' : 'runtimeCall'
      case Kind.operator:
        return 'operator'
      case Kind.frame:
        return 'frame'
      default:
        return 'annotation'
    }
  }

  /** The outermost event of the stack that loads data, or -1. */
  private loader({ events }: RankTimeline, stack: readonly number[], place: number): number {
    for (let i = 0; i <= place; i++)
      if (this.of(events.name[stack[i]], events.kind[stack[i]]) & LOADING) return stack[i]
    return -1
  }

  /**
   * Returns the nearest operator, annotation or frame of the program that encloses a position in the stack, or `NONE`.
   */
  private around({ events: { kind, name } }: RankTimeline, stack: readonly number[], place: number): number {
    for (let i = place - 1; i >= 0; i--) {
      const event = stack[i]
      if (kind[event] <= Kind.runtime || name[event] === name[stack[place]]) continue
      if (kind[event] === Kind.operator && kind[stack[place]] > Kind.operator) continue
      if (kind[event] === Kind.frame && this.of(name[event], Kind.frame) & FOREIGN) continue
      return event
    }
    return NONE
  }

  private of(name: number, kind: number): number {
    return (this.says[name] ??= saysOf(this.names[name], kind))
  }
}

/** Classifies a host event of the given kind by its name. Nearly all events with one name have the same kind. */
function saysOf(name: string, kind: number): number {
  if (kind <= Kind.runtime) return (isAllocation(name) ? ALLOCATION : 0) | (isModuleLoad(name) ? MODULE : 0)
  return (dataLoading.test(name) ? LOADING : 0) | (kind === Kind.frame && isForeignFrame(name) ? FOREIGN : 0)
}
