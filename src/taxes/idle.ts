/**
 * Finds out why a rank's device was idle. An idle interval ends when device work starts that a host call had enqueued.
 * After the host call has returned, the work waits either for an event of another stream (part `dependency`) or only
 * for the device (part `gap`). Before the host call has returned, the host is the cause of the idle time. If the
 * calling thread was waiting for the device, the idle time belongs to the part `hostBlocked`. If the calling thread was
 * inside operators or calls, the idle time belongs to the part `dispatch`. If neither the calling thread nor any other
 * thread that enqueues work was active, the idle time belongs to the part `hostAbsent`.
 */
import {
  clip,
  difference,
  intersection,
  type Intervals,
  SetWriter,
  union,
  unionInOrder,
} from '../timeline/intervals.ts'
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

export class IdleTime {
  private readonly rank: RankTimeline
  private readonly waits: StreamWaits
  /** The host time of each thread, keyed by the thread's track. */
  private readonly threads = new Map<number, HostTime>()
  /** The combined host time of all threads that enqueue work. */
  private any: HostTime = { blocked: none, running: none }

  constructor(rank: RankTimeline, names: readonly string[]) {
    this.rank = rank
    this.waits = new StreamWaits(rank, names)
    for (const [i, track] of rank.tracks.entries()) {
      if (track.role !== 'thread' || !enqueues(rank, track)) continue
      const { blocked, running } = this.thread(i)
      this.any = { blocked: union(this.any.blocked, blocked), running: union(this.any.running, running) }
    }
  }

  /**
   * Divides idle time by cause. `next` returns the work that starts at the end of an idle interval, or `NONE`. `next`
   * is called with ascending times.
   */
  divide(idle: Intervals, next: (time: number) => number): Record<IdlePart, Intervals> {
    const { start, duration, kind, track, launch } = this.rank.events
    const causes = byCause(() => new SetWriter())
    /** For each thread: the device's idle time before the thread's host calls. */
    const before = new Map<number, SetWriter>()
    for (let i = 0; i < idle.length; i += 2) {
      const [from, to] = [idle[i], idle[i + 1]]
      const work = next(to)
      const call = work === NONE ? NONE : launch[work]
      if (call === NONE) {
        causes.unattributed.add(from, to)
        continue
      }
      const enqueued = Math.min(Math.max(start[call] + duration[call], from), to)
      // Idle time inside the call of a blocking copy counts as dispatch, because the call enqueues the copy before it
      // waits.
      const called = kind[call] === Kind.synchronize ? Math.max(start[call], from) : enqueued
      let host = before.get(track[call])
      if (!host) before.set(track[call], (host = new SetWriter()))
      host.add(from, Math.min(called, enqueued))
      causes.dispatch.add(called, enqueued)
      causes[this.waits.before(work, call) ? 'dependency' : 'gap'].add(enqueued, to)
    }
    const parts = byCause((cause) => causes[cause].set())
    for (const [thread, host] of before) this.divideHost(host.set(), this.thread(thread), parts)
    return parts
  }

  /**
   * Divides the time before the calls of a thread by the activity of that thread. If the thread that made the call was
   * inactive, the activity of the other threads counts.
   */
  private divideHost(set: Intervals, own: HostTime, parts: Record<IdlePart, Intervals>): void {
    let left = set
    const take = (cause: IdlePart, claim: Intervals): void => {
      if (left.length === 0) return
      const claimed = clip(claim, left[0], left[left.length - 1])
      parts[cause] = union(parts[cause], intersection(left, claimed))
      left = difference(left, claimed)
    }
    take('hostBlocked', own.blocked)
    take('dispatch', own.running)
    take('dispatch', this.any.running)
    take('hostBlocked', this.any.blocked)
    take('hostAbsent', left)
  }

  private thread(track: number): HostTime {
    let time = this.threads.get(track)
    if (!time) this.threads.set(track, (time = hostTime(this.rank, this.rank.tracks[track])))
    return time
  }
}

/** The activity of a thread, as disjoint sets of time. */
interface HostTime {
  readonly blocked: Intervals
  readonly running: Intervals
}

const none: Intervals = new Float64Array(0)

function hostTime(rank: RankTimeline, { from, to }: Track): HostTime {
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

/** Finds the device work that had to wait for an event of another stream, as far as the trace shows such waits. */
class StreamWaits {
  private readonly rank: RankTimeline
  /**
   * For each name: 1 if a device event or a host call with this name makes a stream wait for an event.
   */
  private readonly isWait: Uint8Array
  /** For each call: 1 if its thread has made a stream wait since the thread's previous call that enqueued work. */
  private readonly told: Uint8Array

  constructor(rank: RankTimeline, names: readonly string[]) {
    this.rank = rank
    this.isWait = Uint8Array.from(names, (name) => Number(isStreamWait(name)))
    const { length, kind, name, launch } = rank.events
    // Calls of blocking copies count as calls that enqueue work, just as launches do.
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

  /**
   * True if the work had to wait for another stream. The work had to wait if a stream wait lies between the work and
   * the previous work of its stream, or between its host call and the thread's previous call that enqueued work.
   */
  before(work: number, call: number): boolean {
    const { kind, name, track, launch } = this.rank.events
    const stream = this.rank.tracks[track[work]]
    let ahead = work - 1
    for (; ahead >= stream.from && !isDeviceWork(kind[ahead]); ahead--)
      if (kind[ahead] === Kind.wait && this.isWait[name[ahead]]) return true
    // Only the first kernel of a graph launch waited for the event for which the host requested a wait.
    if (ahead >= stream.from && launch[ahead] === call) return false
    return this.told[call] === 1
  }
}
