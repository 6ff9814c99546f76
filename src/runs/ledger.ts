/**
 * The ledger of a run of our own kernels, from its recorded timeline alone: where the time of each rank went in a window (parts of
 * wall that add up, in worker-time while kernels run: picture.ts), and what its kernels handed to each other through memory
 * (locality.ts). docs/taxes.md has the definitions and a worked example.
 *
 * All local ranks share one clock. Windows are nanoseconds after the base of the timeline's first rank.
 */
import { countBefore } from '../timeline/search.ts'
import { end, isDeviceWork, Kind, NONE, offsetBetween, streams } from '../timeline/timeline.ts'
import type { RankTimeline, Timeline } from '../timeline/timeline.ts'
import { bytesReadBack } from './locality.ts'
import { tracksOf } from './picture.ts'
import { type Picture, type RunLedger, runPartNames } from './results.ts'

export interface Window {
  readonly from: number
  readonly to: number
}

/** From the opening of a gate, when the last rank leaves it, to the end of the last kernel before the next gate. */
export interface Execution extends Window {
  /** By rank of the timeline: events, in order of their start. */
  readonly kernels: readonly (readonly number[])[]
}

export interface PictureOptions {
  /** Of a rank's memory, in bytes a second. */
  readonly bandwidth: number
}

/**
 * One for each launch of the kernel named `gate`, in order. Its kernels are those that start after the rank's gate and before its
 * next one, and that were enqueued before the host waited: what follows a host's wait is no part of an execution.
 */
export function executionsOf(timeline: Timeline, gate: string): readonly Execution[] {
  const { ranks, names } = timeline
  const gates = ranks.map((rank) => {
    const { name } = rank.events
    return kernelsOf(rank).filter((event) => names[name[event]] === gate)
  })
  gates.forEach((ofRank, i) => {
    if (ofRank.length !== gates[0].length)
      throw new Error(
        `rank ${ranks[0].rank} has passed ${gates[0].length} gates and rank ${ranks[i].rank} ${ofRank.length}: launch "${gate}" on all ranks, and take the timeline after a synchronize`,
      )
  })
  const members = ranks.map((rank, i) => kernelsBehind(rank, gates[i]))
  return (gates[0] ?? []).map((_, n) => {
    const kernels = members.map((ofRank) => ofRank[n])
    const from = lastEnd(
      ranks,
      gates.map((ofRank) => [ofRank[n]]),
      -Infinity,
    )
    return { from, to: lastEnd(ranks, kernels, from), kernels }
  })
}

/** What happened in a window: all kernels that run in it, or those of an execution. */
export function pictureOf(
  timeline: Timeline,
  window: Window | Execution,
  { bandwidth }: PictureOptions,
): Picture {
  const { ranks, names } = timeline
  const wall = window.to - window.from
  const kernels =
    'kernels' in window ? window.kernels : ranks.map((rank) => kernelsWithin(ranks[0], rank, window))
  const last = Math.min(lastEnd(ranks, kernels, window.from), window.to)
  return {
    wall,
    ranks: ranks.map((rank, i) => {
      const shift = offsetBetween(ranks[0], rank)
      const own = {
        from: window.from + shift,
        to: window.to + shift,
        lastEnd: last + shift,
        kernels: kernels[i],
      }
      const tracks = tracksOf(rank, names, own)
      const parts = meanParts(tracks)
      const bytes = bytesReadBack(rank, kernels[i])
      const most = Math.min((bytes / bandwidth) * 1e9, parts.useful)
      return { rank: rank.rank, ledger: { wall, parts, locality: { bytes, time: [0, most] } }, tracks }
    }),
  }
}

/** The mean of some ledgers: of the ranks of an execution, or of all ranks of many. */
export function meanLedger(ledgers: readonly RunLedger[]): RunLedger {
  const mean = (of: (ledger: RunLedger) => number): number =>
    ledgers.reduce((sum, ledger) => sum + of(ledger), 0) / ledgers.length
  return {
    wall: mean(({ wall }) => wall),
    parts: byPart((part) => mean(({ parts }) => parts[part])),
    locality: {
      bytes: mean(({ locality }) => locality.bytes),
      time: [mean(({ locality }) => locality.time[0]), mean(({ locality }) => locality.time[1])],
    },
  }
}

/** Of a whole execution: the mean over its ranks. */
export const ledgerOf = ({ ranks }: Picture): RunLedger => meanLedger(ranks.map(({ ledger }) => ledger))

const byPart = (of: (part: keyof RunLedger['parts']) => number): RunLedger['parts'] =>
  Object.fromEntries(runPartNames.map((part) => [part, of(part)])) as RunLedger['parts']

/** Sums over all workers are integers; only dividing by their number rounds. */
function meanParts(tracks: Picture['ranks'][number]['tracks']): RunLedger['parts'] {
  const sums = byPart(() => 0) as Record<keyof RunLedger['parts'], number>
  for (const { spans } of tracks) for (const { from, to, part } of spans) sums[part] += to - from
  return byPart((part) => sums[part] / tracks.length)
}

/** Device work of all streams, in order of its start. */
function kernelsOf(rank: RankTimeline): number[] {
  const { start, kind } = rank.events
  const all = streams(rank).flatMap(({ from, to }) => Array.from({ length: to - from }, (_, i) => from + i))
  return all.filter((event) => isDeviceWork(kind[event])).sort((a, b) => start[a] - start[b])
}

function kernelsWithin(first: RankTimeline, rank: RankTimeline, window: Window): number[] {
  const { events } = rank
  const shift = offsetBetween(first, rank)
  return kernelsOf(rank).filter(
    (event) => events.start[event] < window.to + shift && end(events, event) > window.from + shift,
  )
}

/** For each gate, what runs behind it. */
function kernelsBehind(rank: RankTimeline, gates: readonly number[]): number[][] {
  const { events } = rank
  const { start, launch } = events
  const waits = hostWaits(rank)
  const closed = gates.map((gate) => {
    const call = launch[gate]
    if (call === NONE) return Infinity
    const after = countBefore(waits.length, (i) => waits[i] < start[call])
    return after < waits.length ? waits[after] : Infinity
  })
  const behind = gates.map((): number[] => [])
  for (const kernel of kernelsOf(rank)) {
    const gate = countBefore(gates.length, (i) => start[gates[i]] <= start[kernel]) - 1
    if (gate < 0 || gates[gate] === kernel || start[kernel] < end(events, gates[gate])) continue
    if (launch[kernel] === NONE || start[launch[kernel]] < closed[gate]) behind[gate].push(kernel)
  }
  return behind
}

/** When the host began to wait for the device. */
function hostWaits({ events }: RankTimeline): number[] {
  const waits: number[] = []
  for (let event = 0; event < events.length; event++)
    if (events.kind[event] === Kind.synchronize) waits.push(events.start[event])
  return waits.sort((a, b) => a - b)
}

/** The last end of events of all ranks, relative to the first rank's base, and not before `least`. */
function lastEnd(
  ranks: readonly RankTimeline[],
  events: readonly (readonly number[])[],
  least: number,
): number {
  let last = least
  ranks.forEach((rank, i) => {
    const shift = offsetBetween(rank, ranks[0])
    for (const event of events[i]) last = Math.max(last, end(rank.events, event) + shift)
  })
  return last
}
