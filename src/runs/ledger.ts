/**
 * Computes the ledger of a run of Arke's kernels, from the recorded timeline alone. The ledger divides the time of each
 * rank in a window into categories that add up to the wall time (picture.ts). While kernels run, each category of a
 * rank's ledger is the mean over the rank's workers. The ledger also has the bytes that kernels passed to later kernels
 * through memory (locality.ts). docs/taxes.md defines the categories and has a worked example.
 *
 * All ranks of the run share one clock. The times of a window are in nanoseconds after the base of the timeline's first
 * rank.
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

/**
 * One execution lasts from the opening of a gate, when the last rank leaves it, to the end of the last kernel before
 * the next gate.
 */
export interface Execution extends Window {
  /** The events of the execution's kernels on each rank, in order of their start. */
  readonly kernels: readonly (readonly number[])[]
}

export interface PictureOptions {
  /**
   * The memory bandwidth of one rank in bytes per second. If the bandwidth is unknown, the upper bound of the locality
   * tax is the whole useful time.
   */
  readonly bandwidth?: number
}

/**
 * The executions of a timeline, in order. A timeline has one execution per launch of the kernel named `gate`. A kernel
 * belongs to an execution if it was enqueued before the host waited, and if it starts between the rank's gate and the
 * next gate. Kernels enqueued after a host wait belong to no execution.
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

/**
 * The tracks and the ledgers of all ranks for a time window. The window's tracks and ledgers cover all kernels that run
 * in the window, or only the kernels of one execution.
 */
export function pictureOf(
  timeline: Timeline,
  window: Window | Execution,
  { bandwidth }: PictureOptions,
): Picture {
  const { ranks, names } = timeline
  const wall = window.to - window.from
  const kernels =
    'kernels' in window ? window.kernels : ranks.map((rank) => kernelsWithin(ranks[0], rank, window))
  const ends = sharedEnds(timeline, kernels, window.from)
  return {
    wall,
    ranks: ranks.map((rank, i) => {
      const shift = offsetBetween(ranks[0], rank)
      const own = {
        from: window.from + shift,
        to: window.to + shift,
        lastEnd: Math.min(ends[i], window.to) + shift,
        kernels: kernels[i],
      }
      const tracks = tracksOf(rank, names, own)
      const parts = meanParts(tracks)
      const bytes = bytesReadBack(rank, kernels[i])
      const slowest = bandwidth === undefined ? Infinity : (bytes / bandwidth) * 1e9
      const most = bytes === 0 ? 0 : Math.min(slowest, parts.useful)
      return { rank: rank.rank, ledger: { wall, parts, locality: { bytes, time: [0, most] } }, tracks }
    }),
  }
}

/** The mean of several ledgers, such as the ledgers of all ranks of one or more executions. */
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

/** The ledger of a whole execution, which is the mean over its ranks. */
export const ledgerOf = ({ ranks }: Picture): RunLedger => meanLedger(ranks.map(({ ledger }) => ledger))

const byPart = (of: (part: keyof RunLedger['parts']) => number): RunLedger['parts'] =>
  Object.fromEntries(runPartNames.map((part) => [part, of(part)])) as RunLedger['parts']

/**
 * The mean of the ledgers of all workers of a rank. The sums over the workers are integers, so only the final division
 * rounds.
 */
function meanParts(tracks: Picture['ranks'][number]['tracks']): RunLedger['parts'] {
  const sums = byPart(() => 0) as Record<keyof RunLedger['parts'], number>
  for (const { spans } of tracks) for (const { from, to, part } of spans) sums[part] += to - from
  return byPart((part) => sums[part] / tracks.length)
}

/** Device work of all streams, ordered by start. */
export function kernelsOf(rank: RankTimeline): number[] {
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

/** The kernels that run between each start gate and the next start gate. */
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

/** The times at which the host started to wait for the device. */
export function hostWaits({ events }: RankTimeline): number[] {
  const waits: number[] = []
  for (let event = 0; event < events.length; event++)
    if (events.kind[event] === Kind.synchronize) waits.push(events.start[event])
  return waits.sort((a, b) => a - b)
}

/**
 * Computes for each rank the latest end of the given kernels on this rank and on the ranks that share launches with it,
 * directly or through other ranks. Ranks share launches if they have a kernel of the same name.
 */
function sharedEnds(
  { ranks }: Timeline,
  kernels: readonly (readonly number[])[],
  least: number,
): readonly number[] {
  const named = kernels.map((own, i) => new Set(own.map((event) => ranks[i].events.name[event])))
  const ends = ranks.map(() => least)
  const left = new Set(ranks.keys())
  for (const first of left) {
    const names = new Set(named[first])
    // The set of ranks grows during the following loop, which therefore visits all ranks that share launches.
    const members = new Set([first])
    for (const member of members) {
      for (const name of named[member]) names.add(name)
      for (const other of left) if ([...named[other]].some((name) => names.has(name))) members.add(other)
    }
    const own = [...members]
    const end = lastEnd(
      own.map((i) => ranks[i]),
      own.map((i) => kernels[i]),
      least,
      ranks[0],
    )
    for (const member of own) {
      ends[member] = end
      left.delete(member)
    }
  }
  return ends
}

/**
 * The latest end of the given events of the given ranks, relative to the time base of rank `first`, but at least
 * `least`.
 */
function lastEnd(
  ranks: readonly RankTimeline[],
  events: readonly (readonly number[])[],
  least: number,
  first = ranks[0],
): number {
  let last = least
  ranks.forEach((rank, i) => {
    const shift = offsetBetween(rank, first)
    for (const event of events[i]) last = Math.max(last, end(rank.events, event) + shift)
  })
  return last
}
