/**
 * Attributes time to the processors of a rank. The functions of this file serve the ledgers of Arke's own runs and the
 * audit of any trace.
 *
 * If the programs of the rank's kernels recorded events, each worker or multiprocessor of the rank is a processor. A
 * processor computes while one of its programs is not blocked. If the programs recorded no events, the rank is one
 * processor, on which compute hides communication, and communication hides copies.
 */
import { activity, clip, intersection, type Intervals, union, unionOf } from '../timeline/intervals.ts'
import { countBefore } from '../timeline/search.ts'
import { end, isDeviceWork, Kind, NONE, type RankTimeline } from '../timeline/timeline.ts'
import { processorsOf } from '../timeline/workers.ts'
import { attribute, type Claims } from './attribution.ts'
import { IdleTime } from './idle.ts'
import type { ProcessorTime } from './ledger.ts'

/** A selection of a rank's device work, such as all of its work or the kernels of one execution. */
export interface DeviceWork {
  /** The time during which work of one of the given kinds runs, clipped to a window. */
  readonly during: (from: number, to: number, ...kinds: readonly Kind[]) => Intervals
  /**
   * Returns a function that finds the work that starts at a given time, at which the device becomes busy. Times must
   * ascend. If several works start at the given time, work with a known launch is preferred.
   */
  readonly starts: () => (time: number) => number
}

/** The division of a rank's communication time into sets that may overlap. */
export interface CommunicationTime {
  readonly waiting: Intervals
  readonly transferring: Intervals
}

/**
 * The waiting time and the vacant time of all processors of a rank, from the end of its work to the end of its window.
 */
export type Ending = Pick<Claims, 'wait' | 'vacant'>

export interface WindowTime {
  readonly processors: readonly ProcessorTime[]
  readonly communicating: Intervals
  readonly copying: Intervals
  /** The time during which the device runs any work. */
  readonly running: Intervals
}

/**
 * Attributes the time of a rank between `from` and `to` to categories. `communication` follows from the traces of all
 * ranks and is used if the rank's programs recorded no events.
 */
export function windowTime(
  rank: RankTimeline,
  names: readonly string[],
  [from, to]: readonly [from: number, to: number],
  work: DeviceWork,
  communication: CommunicationTime = { waiting: none, transferring: none },
  ending: (running: Intervals) => Ending = () => ({}),
): WindowTime {
  const computing = work.during(from, to, Kind.kernel, Kind.memset)
  const communicating = work.during(from, to, Kind.communication)
  const copying = work.during(from, to, Kind.memcpy)
  const running = union(union(computing, communicating), copying)
  const during = (set: Intervals, when: Intervals): Intervals => intersection(clip(set, from, to), when)
  const recorded = processorsOf(rank)
  const claims: readonly (Claims & { readonly transfer: Intervals; readonly wait: Intervals })[] =
    recorded.length > 0
      ? recorded.map(({ compute, transfer, wait }) => ({
          compute: during(compute, running),
          transfer: during(transfer, running),
          wait: during(wait, running),
          copy: copying,
        }))
      : [
          {
            compute: computing,
            transfer: during(communication.transferring, communicating),
            wait: during(communication.waiting, communicating),
            communication: communicating,
            copy: copying,
          },
        ]
  const last = ending(running)
  const parts = attribute({
    from,
    to,
    processors: claims.map((own) => ({ ...own, ...last, wait: union(own.wait, last.wait ?? none) })),
    running,
    idle: (set) => idleTimeOf(rank, names).divide(set, work.starts()),
  })
  return {
    processors: parts.map((own, n) => ({
      parts: own,
      waiting: claims[n].wait,
      transferring: claims[n].transfer,
    })),
    communicating,
    copying,
    running,
  }
}

const none: Intervals = new Float64Array(0)

/** All device work of a rank. */
export function allWork(rank: RankTimeline): DeviceWork {
  const { kind } = rank.events
  return {
    during: (from, to, ...kinds) =>
      clip(
        activity(rank, (event) => kinds.includes(kind[event] as Kind)),
        from,
        to,
      ),
    starts: () => startsOf(rank),
  }
}

/** The given device work of a rank, ordered by its start. */
export function chosenWork({ events }: RankTimeline, chosen: readonly number[]): DeviceWork {
  return {
    during: (from, to, ...kinds) => {
      const own = chosen.filter((event) => kinds.includes(events.kind[event] as Kind))
      return clip(unionOf(own.flatMap((event) => [events.start[event], end(events, event)])), from, to)
    },
    starts: () => (time) => {
      let found = NONE
      for (
        let i = countBefore(chosen.length, (n) => events.start[chosen[n]] < time);
        i < chosen.length && events.start[chosen[i]] === time;
        i++
      )
        found = preferred(events, chosen[i], found)
      return found
    },
  }
}

/** Returns a function that finds work by its start time. Because times ascend, each stream is read only once. */
function startsOf({ events, tracks }: RankTimeline): (time: number) => number {
  const { start, kind } = events
  const streams = tracks.filter(({ role }) => role === 'stream')
  const at = streams.map(({ from }) => from)
  return (time) => {
    let found = NONE
    for (let i = 0; i < streams.length; i++) {
      const { to } = streams[i]
      while (at[i] < to && start[at[i]] < time) at[i]++
      for (let event = at[i]; event < to && start[event] === time; event++)
        if (isDeviceWork(kind[event])) found = preferred(events, event, found)
    }
    return found
  }
}

/** Work without a duration does not make a device busy, so it is not chosen. */
const preferred = ({ duration, launch }: RankTimeline['events'], event: number, found: number): number =>
  duration[event] > 0 && (found === NONE || launch[found] === NONE) ? event : found

/** A cache: the analysis of a rank's host calls is shared by all windows of the rank. */
const known = new WeakMap<RankTimeline, IdleTime>()
function idleTimeOf(rank: RankTimeline, names: readonly string[]): IdleTime {
  let idle = known.get(rank)
  if (!idle) known.set(rank, (idle = new IdleTime(rank, names)))
  return idle
}
