/**
 * Computes the partition of a rank's time in a trace: the window that is audited, the waiting and transfer times that
 * follow from the traces of all ranks, and the attribution of the window's time to the rank's processors
 * (processors.ts).
 */
import { Column, float64 } from '../timeline/columns.ts'
import { unionOf } from '../timeline/intervals.ts'
import { isDeviceWork, NONE, type RankTimeline, type Timeline } from '../timeline/timeline.ts'
import type { Collectives } from './collectiveTable.ts'
import type { Partition } from './ledger.ts'
import { allWork, type CommunicationTime, windowTime } from './processors.ts'

/**
 * The window of a whole recording goes from the first device work with a recorded launch to the last end of device
 * work. Device work before the audited window was enqueued before the recording began, so the trace does not show why
 * it ran when it did. If the device work before the first recorded launch is more than half of the recorded time, the
 * launches are missing from the trace, and the whole trace is used.
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
 * For each rank of the timeline: the time in collectives before the last rank arrived, and the time after the last rank
 * arrived.
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
  [from, to]: readonly [from: number, to: number],
  communication: CommunicationTime,
): Partition {
  const { processors, communicating, copying } = windowTime(
    rank,
    names,
    [from, to],
    allWork(rank),
    communication,
  )
  return { from, to, processors, communicating, copying }
}
