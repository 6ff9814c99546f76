/**
 * Divides the time of a rank in a trace by means of attribution.ts. The rank counts as one processor, on which compute
 * hides communication, and communication hides copies. For Arke's own runs, the events recorded inside kernels are used
 * instead: the rank computes while at least one of its programs is not blocked, on any worker.
 */
import { Column, float64 } from '../timeline/columns.ts'
import { activity, clip, intersection, union, unionOf } from '../timeline/intervals.ts'
import type { Intervals } from '../timeline/intervals.ts'
import { isDeviceWork, Kind, NONE, type RankTimeline, type Timeline } from '../timeline/timeline.ts'
import { recordedInside } from '../timeline/workers.ts'
import { attribute } from './attribution.ts'
import type { Collectives } from './collectiveTable.ts'
import { IdleTime } from './idle.ts'
import type { Partition } from './ledger.ts'

/** The division of a rank's communication time into sets that may overlap. */
export interface CommunicationTime {
  readonly waiting: Intervals
  readonly transferring: Intervals
}

/**
 * The window of a whole recording goes from the first device work with a recorded launch to the last end of device
 * work. Device work before this window was enqueued before the recording began, and the reason for its timing is
 * unknown. If the device work before the first recorded launch is more than half of the recorded time, the launches are
 * missing from the trace, and the whole trace is used.
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

/**
 * For each rank of the timeline: the time in collectives before the last rank arrived, and the time after it arrived.
 */
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
  communication: CommunicationTime,
): Partition {
  const { kind } = rank.events
  const during = (...kinds: readonly Kind[]): Intervals =>
    clip(
      activity(rank, (event) => kinds.includes(kind[event] as Kind)),
      from,
      to,
    )
  const kernels = during(Kind.kernel, Kind.memset)
  const communicating = during(Kind.communication)
  const copying = during(Kind.memcpy)
  const running = union(union(kernels, communicating), copying)
  const inside = recordedInside(rank)
  const waiting = clip(inside?.wait ?? communication.waiting, from, to)
  const transferring = clip(inside?.transfer ?? communication.transferring, from, to)
  const claims = inside
    ? {
        compute: intersection(running, inside.compute),
        transfer: intersection(running, transferring),
        wait: intersection(running, waiting),
        copy: copying,
      }
    : {
        compute: kernels,
        transfer: intersection(communicating, transferring),
        wait: intersection(communicating, waiting),
        communication: communicating,
        copy: copying,
      }
  const [parts] = attribute({
    from,
    to,
    processors: [claims],
    running,
    idle: (set) => new IdleTime(rank, names).divide(set, nextWork(rank)),
  })
  return {
    from,
    to,
    parts,
    communicating,
    copying,
    waiting,
    transferring,
  }
}

/**
 * Returns a function that finds the device work that starts at a given time. Times must ascend. If several works start
 * at that time, one with a known launch is preferred.
 */
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
