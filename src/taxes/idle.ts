/**
 * Why a rank's device ran nothing: an idle interval ends when some work starts, which some call enqueued. After that call has
 * returned, the work waits for an event of another stream (dependency) or for nothing but the device (gap). Before, it is the
 * host's doing: the thread of that call was waiting for the device (hostBlocked), was inside operators or calls (dispatch), or,
 * if neither it nor any other thread that enqueues work was running anything, it was elsewhere (hostAbsent).
 */
import { difference, type Intervals, SetWriter, union, unionInOrder } from '../timeline/intervals.ts'
import { countBefore } from '../timeline/search.ts'
import {
  isDeviceWork,
  isStreamWait,
  Kind,
  NONE,
  type RankTimeline,
  type Track,
} from '../timeline/timeline.ts'
import { type IdlePart, idleParts } from './ledger.ts'

const byCause = <T>(of: (cause: IdlePart) => T): Record<IdlePart, T> =>
  Object.fromEntries(idleParts.map((cause) => [cause, of(cause)])) as Record<IdlePart, T>

type Causes = Readonly<Record<IdlePart, SetWriter>>

export class IdleTime {
  private readonly rank: RankTimeline
  private readonly waits: StreamWaits
  private readonly hosts: Hosts

  constructor(rank: RankTimeline, names: readonly string[]) {
    this.rank = rank
    this.waits = new StreamWaits(rank, names)
    this.hosts = new Hosts(rank)
  }

  /** `next` gives the work that starts at the end of an idle interval, or `NONE`; it is asked in ascending order. */
  divide(idle: Intervals, next: (time: number) => number): Record<IdlePart, Intervals> {
    const { start, duration, kind, track, launch } = this.rank.events
    const causes = byCause(() => new SetWriter())
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
      this.hosts.divide(from, Math.min(called, enqueued), track[call], causes)
      causes.dispatch.add(called, enqueued)
      causes[this.waits.before(work, call) ? 'dependency' : 'gap'].add(enqueued, to)
    }
    return byCause((cause) => causes[cause].set())
  }
}

/** What the threads of a host did. */
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
  divide(from: number, to: number, thread: number, causes: Causes): void {
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

/** A set that is asked about times which mostly ascend: it is walked along. */
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
    const { set } = this
    if (this.at > 0 && set[this.at - 1] > time)
      this.at = 2 * countBefore(set.length / 2, (i) => set[2 * i + 1] <= time)
    while (this.at < set.length && set[this.at + 1] <= time) this.at += 2
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
