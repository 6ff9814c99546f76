/**
 * Computes the ledger of a user's host program from the timeline of a world that records events.
 *
 * The launches of the host program are divided into groups (stretches). A stretch consists of the launches that the
 * host enqueues without waiting for the device in between. A stretch lasts from its first launch call to the end of its
 * last kernel. The time between stretches, in which the host reads results or computes, is not counted. The locality
 * tax counts only data that is written and read within one stretch. Stretches overlap if the host waited for one stream
 * only; overlapping stretches are merged.
 */
import { countBefore } from '../timeline/search.ts'
import { end, NONE, offsetBetween, type Timeline } from '../timeline/timeline.ts'
import { hostWaits, kernelsOf, pictureOf, type Execution } from './ledger.ts'
import { runPartNames, type Picture, type RunLedger } from './results.ts'

export interface RecordedOptions {
  /**
   * The memory bandwidth of one rank in bytes per second. If the bandwidth is unknown, the upper bound of the locality
   * tax is the whole useful time.
   */
  readonly bandwidth?: number
  /**
   * An earlier timeline of the same world. Launches in the earlier timeline, such as those that compiled kernels, are
   * not counted.
   */
  readonly after?: Timeline
}

/**
 * The execution of a host program on the ranks, as recorded. The counted stretches are shown one after the other,
 * without gaps.
 */
export interface RecordedRun extends Picture {
  readonly stretches: number
  /** The number of kernels that the busiest rank ran. */
  readonly launches: number
}

export function recordedRun(timeline: Timeline, { bandwidth, after }: RecordedOptions = {}): RecordedRun {
  const found = stretchesOf(timeline, after)
  const pictures = found.map((stretch) => pictureOf(timeline, stretch, { bandwidth }))
  const kernelsOn = (i: number): number => found.reduce((sum, { kernels }) => sum + kernels[i].length, 0)
  const wall = pictures.reduce((sum, picture) => sum + picture.wall, 0)
  return {
    wall,
    stretches: found.length,
    launches: Math.max(0, ...timeline.ranks.map((_, i) => kernelsOn(i))),
    ranks: timeline.ranks.map(({ rank }, i) => {
      const own = pictures.map((picture) => picture.ranks[i].ledger)
      const sum = (of: (ledger: RunLedger) => number): number =>
        own.reduce((total, ledger) => total + of(ledger), 0)
      const parts = Object.fromEntries(
        runPartNames.map((part) => [part, sum((ledger) => ledger.parts[part])]),
      ) as RunLedger['parts']
      const time = [sum(({ locality }) => locality.time[0]), sum(({ locality }) => locality.time[1])] as const
      const locality = { bytes: sum((ledger) => ledger.locality.bytes), time }
      return { rank, ledger: { wall, parts, locality }, tracks: joined(pictures, i) }
    }),
  }
}

/** The tracks of one rank in all stretches (the launches between two host waits), one stretch after the other. */
function joined(pictures: readonly Picture[], rank: number): Picture['ranks'][number]['tracks'] {
  let from = 0
  const tracks: { name: string; spans: Picture['ranks'][number]['tracks'][number]['spans'][number][] }[] = []
  for (const { wall, ranks } of pictures) {
    ranks[rank].tracks.forEach(({ name, spans }, place) => {
      const track = (tracks[place] ??= { name, spans: [] })
      for (const span of spans) track.spans.push({ ...span, from: from + span.from, to: from + span.to })
    })
    from += wall
  }
  return tracks
}

function stretchesOf({ ranks }: Timeline, after: Timeline | undefined): readonly Execution[] {
  const since = latestEnd(ranks[0]?.base ?? 0n, after)
  // One host enqueues the launches of all ranks, so its waits are the same on all ranks.
  const waits = ranks.length === 0 ? [] : hostWaits(ranks[0])
  const stretches = new Map<number, { from: number; to: number; kernels: number[][] }>()
  ranks.forEach((rank, i) => {
    const { events } = rank
    const shift = offsetBetween(rank, ranks[0])
    for (const kernel of kernelsOf(rank)) {
      const call = events.launch[kernel]
      const called = events.start[call === NONE ? kernel : call] + shift
      if (called < since) continue
      const place = countBefore(waits.length, (n) => waits[n] < called)
      const stretch = stretches.get(place) ?? { from: called, to: called, kernels: ranks.map(() => []) }
      stretch.from = Math.min(stretch.from, called)
      stretch.to = Math.max(stretch.to, end(events, kernel) + shift)
      stretch.kernels[i].push(kernel)
      stretches.set(place, stretch)
    }
  })
  const merged: { from: number; to: number; kernels: number[][] }[] = []
  for (const stretch of [...stretches.values()].sort((a, b) => a.from - b.from)) {
    const last = merged.at(-1)
    if (!last || stretch.from >= last.to) merged.push(stretch)
    else {
      last.to = Math.max(last.to, stretch.to)
      last.kernels.forEach((own, i) => own.push(...stretch.kernels[i]))
    }
  }
  for (const { kernels } of merged)
    kernels.forEach((own, i) => own.sort((a, b) => ranks[i].events.start[a] - ranks[i].events.start[b]))
  return merged
}

/** The latest end of any event, relative to a time base. */
function latestEnd(base: bigint, timeline: Timeline | undefined): number {
  let latest = -Infinity
  for (const rank of timeline?.ranks ?? [])
    for (let event = 0; event < rank.events.length; event++)
      latest = Math.max(latest, Number(rank.base - base) + end(rank.events, event))
  return latest
}
