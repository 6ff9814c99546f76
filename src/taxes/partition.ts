/**
 * Where a rank's time went: every nanosecond of the window in exactly one part (ledger.ts has the list). Busy time is
 * split by what hides what, where a kernel of our own computes only while one of its programs is not blocked; idle time by
 * what kept the next work from running:
 *
 * an idle interval ends when some work starts, which some call enqueued. After that call has returned, the work waits
 * for an event of another stream (dependency) or for nothing but the device (gap). Before, it is the host's doing: the
 * thread of that call was waiting for the device (hostBlocked), was inside operators or calls (dispatch), or, if
 * neither it nor any other thread that enqueues work was running anything, it was elsewhere (hostAbsent).
 */
import { Column, float64 } from '../timeline/columns.ts'
import {
  activity,
  clip,
  complement,
  difference,
  intersection,
  union,
  SetWriter,
  unionInOrder,
  unionOf,
} from '../timeline/intervals.ts'
import type { Intervals } from '../timeline/intervals.ts'
import {
  isDeviceWork,
  isStreamWait,
  Kind,
  NONE,
  type RankTimeline,
  type Timeline,
  type Track,
} from '../timeline/timeline.ts'
import { blockedTime } from '../timeline/workers.ts'
import type { Collectives } from './collectiveTable.ts'
import type { Partition } from './ledger.ts'

/** How a rank's communication divides; sets that need not be disjoint. */
export interface CommunicationTime {
  readonly waiting: Intervals
  readonly transferring: Intervals
}

/**
 * The window of a whole recording: from the first device work that was enqueued while it ran to the last end of any.
 * Work before that was enqueued before the recording began, and nothing is known of why it ran when it did. If that would
 * be more than half of the recorded time, launches are missing rather than early, and the trace is taken whole.
 */
export function recordedSpan(rank: RankTimeline): readonly [from: number, to: number] | null {
  const { start, kind, launch } = rank.events
  if (!rank.deviceSpan) return null
  let first = Infinity
  for (const { role, from, to } of rank.tracks) {
    if (role !== 'stream') continue
    for (let event = from; event < to; event++)
      if (launch[event] !== NONE && isDeviceWork(kind[event])) {
        first = Math.min(first, start[event])
        break
      }
  }
  const [from, to] = rank.deviceSpan
  return [first - from <= (to - from) / 2 ? first : from, to]
}

/** By rank of the timeline: when it was in a collective before the last rank arrived, and when after. */
export function communicationTimes(
  { ranks }: Timeline,
  { rank: ranksOf, event: events, wait: waitOf }: Collectives,
): readonly CommunicationTime[] {
  const waits = ranks.map(() => new Column(float64))
  const transfers = ranks.map(() => new Column(float64))
  for (let member = 0; member < events.length; member++) {
    if (Number.isNaN(waitOf[member])) continue
    const rank = ranksOf[member]
    const { start, duration } = ranks[rank].events
    const from = start[events[member]]
    const split = from + waitOf[member]
    const to = from + duration[events[member]]
    if (split > from) {
      waits[rank].push(from)
      waits[rank].push(split)
    }
    if (to > split) {
      transfers[rank].push(split)
      transfers[rank].push(to)
    }
  }
  return ranks.map((_, i) => ({
    waiting: unionOf(waits[i].all()),
    transferring: unionOf(transfers[i].all()),
  }))
}

export function partitionOf(
  rank: RankTimeline,
  names: readonly string[],
  [from, to]: readonly [number, number],
  { waiting, transferring }: CommunicationTime,
): Partition {
  const { kind } = rank.events
  const all = {
    kernels: activity(rank, (event) => kind[event] === Kind.kernel || kind[event] === Kind.memset),
    communicating: activity(rank, (event) => kind[event] === Kind.communication),
    copying: activity(rank, (event) => kind[event] === Kind.memcpy),
  }
  const kernels = clip(all.kernels, from, to)
  const blocked = blockedTime(rank)
  const computing = difference(kernels, union(blocked.transferring, blocked.waiting))
  const communicating = clip(all.communicating, from, to)
  const copying = clip(all.copying, from, to)
  const exposed = difference(communicating, computing)
  const transfer = intersection(exposed, transferring)
  const notTransferring = difference(exposed, transferring)
  const inside = (set: Intervals): Intervals => difference(intersection(kernels, set), communicating)
  const busy = union(kernels, communicating)
  return {
    from,
    to,
    computing,
    communicating,
    copying,
    waiting: clip(waiting, from, to),
    transferring: clip(transferring, from, to),
    parts: {
      compute: computing,
      transfer: union(transfer, inside(blocked.transferring)),
      wait: union(intersection(notTransferring, waiting), inside(blocked.waiting)),
      communication: difference(notTransferring, waiting),
      copy: difference(copying, busy),
      ...idleCauses(rank, names, complement(union(busy, copying), from, to)),
    },
  }
}

type IdleCauses = Pick<
  Partition['parts'],
  'dispatch' | 'gap' | 'hostBlocked' | 'hostAbsent' | 'dependency' | 'unattributed'
>

function idleCauses(rank: RankTimeline, names: readonly string[], idle: Intervals): IdleCauses {
  const { start, duration, kind, track, launch } = rank.events
  const next = nextWork(rank)
  const waits = new StreamWaits(rank, names)
  const hosts = new Hosts(rank)
  const causes = {
    dispatch: new SetWriter(),
    gap: new SetWriter(),
    hostBlocked: new SetWriter(),
    hostAbsent: new SetWriter(),
    dependency: new SetWriter(),
    unattributed: new SetWriter(),
  }
  for (let i = 0; i < idle.length; i += 2) {
    const [from, to] = [idle[i], idle[i + 1]]
    const work = next(to)
    const call = work === NONE ? NONE : launch[work]
    if (call === NONE) {
      causes.unattributed.add(from, to)
      continue
    }
    const enqueued = Math.min(Math.max(start[call] + duration[call], from), to)
    // A call that enqueues a copy and waits for it is not waiting yet.
    const called = kind[call] === Kind.synchronize ? Math.max(start[call], from) : enqueued
    hosts.divide(from, Math.min(called, enqueued), track[call], causes)
    causes.dispatch.add(called, enqueued)
    causes[waits.before(work, call) ? 'dependency' : 'gap'].add(enqueued, to)
  }
  return {
    dispatch: causes.dispatch.set(),
    gap: causes.gap.set(),
    hostBlocked: causes.hostBlocked.set(),
    hostAbsent: causes.hostAbsent.set(),
    dependency: causes.dependency.set(),
    unattributed: causes.unattributed.set(),
  }
}

/** What the threads of a host did. Times are asked for in ascending order, so that each set is walked along once. */
class Hosts {
  private readonly rank: RankTimeline
  private readonly threads = new Map<number, { blocked: Walk; running: Walk }>()
  /** Of all threads that enqueue work. */
  private readonly anyRunning: Walk
  private readonly anyBlocked: Walk

  constructor(rank: RankTimeline) {
    this.rank = rank
    let running: Intervals = new Float64Array(0)
    let blocked: Intervals = new Float64Array(0)
    rank.tracks.forEach((track, i) => {
      if (track.role !== 'thread' || !enqueues(rank, track)) return
      const time = hostTime(rank, track)
      this.threads.set(i, { blocked: new Walk(time.blocked), running: new Walk(time.running) })
      running = union(running, time.running)
      blocked = union(blocked, time.blocked)
    })
    this.anyRunning = new Walk(running)
    this.anyBlocked = new Walk(blocked)
  }

  /** Divides idle time before a call by what its thread did, and where that did nothing, what others did. */
  divide(
    from: number,
    to: number,
    thread: number,
    causes: Readonly<Record<'dispatch' | 'hostBlocked' | 'hostAbsent', SetWriter>>,
  ): void {
    if (from >= to) return
    const { anyRunning, anyBlocked } = this
    const { blocked, running } = this.thread(thread)
    for (let at = from; at < to;) {
      let until = Math.min(to, blocked.next(at))
      let cause: SetWriter
      if (blocked.has(at)) cause = causes.hostBlocked
      else {
        until = Math.min(until, running.next(at))
        if (running.has(at)) cause = causes.dispatch
        else {
          until = Math.min(until, anyRunning.next(at))
          if (anyRunning.has(at)) cause = causes.dispatch
          else {
            until = Math.min(until, anyBlocked.next(at))
            cause = anyBlocked.has(at) ? causes.hostBlocked : causes.hostAbsent
          }
        }
      }
      cause.add(at, until)
      at = until
    }
  }

  private thread(track: number): { blocked: Walk; running: Walk } {
    let thread = this.threads.get(track)
    if (!thread) {
      const time = hostTime(this.rank, this.rank.tracks[track])
      thread = { blocked: new Walk(time.blocked), running: new Walk(time.running) }
      this.threads.set(track, thread)
    }
    return thread
  }
}

/** A set that is asked about ascending times. */
class Walk {
  private readonly set: Intervals
  private at = 0

  constructor(set: Intervals) {
    this.set = set
  }

  /** Whether the time is in it. */
  has(time: number): boolean {
    this.go(time)
    return this.at < this.set.length && this.set[this.at] <= time
  }

  /** When that changes. */
  next(time: number): number {
    this.go(time)
    if (this.at >= this.set.length) return Infinity
    return this.set[this.at] <= time ? this.set[this.at + 1] : this.set[this.at]
  }

  private go(time: number): void {
    while (this.at < this.set.length && this.set[this.at + 1] <= time) this.at += 2
  }
}

function hostTime(rank: RankTimeline, { from, to }: Track): { blocked: Intervals; running: Intervals } {
  const { start, duration, kind } = rank.events
  const blocked = unionInOrder(start, duration, from, to, (event) => kind[event] === Kind.synchronize)
  const any = unionInOrder(
    start,
    duration,
    from,
    to,
    (event) => kind[event] >= Kind.launch && kind[event] <= Kind.operator,
  )
  return { blocked, running: difference(any, blocked) }
}

function enqueues({ events: { kind } }: RankTimeline, { from, to }: Track): boolean {
  for (let event = from; event < to; event++) if (kind[event] === Kind.launch) return true
  return false
}

/** Finds the work that starts at a time; times must ascend. Of several, one whose launch is known. */
function nextWork(rank: RankTimeline): (time: number) => number {
  const { start, duration, kind, launch } = rank.events
  const streams = rank.tracks.filter(({ role }) => role === 'stream')
  const at = streams.map(({ from }) => from)
  return (time) => {
    let found = NONE
    for (let i = 0; i < streams.length; i++) {
      const { to } = streams[i]
      while (at[i] < to && start[at[i]] < time) at[i]++
      for (let event = at[i]; event < to && start[event] === time; event++)
        if (isDeviceWork(kind[event]) && duration[event] > 0 && (found === NONE || launch[found] === NONE))
          found = event
    }
    return found
  }
}

/** Which work had to wait for an event of another stream, as far as the trace shows. */
class StreamWaits {
  private readonly rank: RankTimeline
  /** By name: whether it is a stream's wait, on the device or as the host's call. */
  private readonly isWait: Uint8Array
  /** By call: whether its thread told a stream to wait after the call before it that enqueued work. */
  private readonly told: Uint8Array

  constructor(rank: RankTimeline, names: readonly string[]) {
    this.rank = rank
    this.isWait = Uint8Array.from(names, (name) => Number(isStreamWait(name)))
    const { length, kind, name, launch } = rank.events
    // A blocking copy enqueues work as a launch does.
    const enqueued = new Uint8Array(length)
    for (let event = 0; event < length; event++) if (launch[event] !== NONE) enqueued[launch[event]] = 1
    this.told = new Uint8Array(length)
    for (const { role, from, to } of rank.tracks) {
      if (role !== 'thread') continue
      let told = 0
      for (let event = from; event < to; event++) {
        this.told[event] = told
        if (kind[event] === Kind.launch || enqueued[event]) told = 0
        else if (kind[event] === Kind.runtime && this.isWait[name[event]]) told = 1
      }
    }
  }

  /** Between the work ahead of it on its stream, or the thread's call before its own that enqueued work, and the work. */
  before(work: number, call: number): boolean {
    const { kind, name, track, launch } = this.rank.events
    const stream = this.rank.tracks[track[work]]
    let ahead = work - 1
    for (; ahead >= stream.from && !isDeviceWork(kind[ahead]); ahead--)
      if (kind[ahead] === Kind.wait && this.isWait[name[ahead]]) return true
    // Of the kernels of one graph launch only the first waited for what the host asked for.
    if (ahead >= stream.from && launch[ahead] === call) return false
    return this.told[call] === 1
  }
}
