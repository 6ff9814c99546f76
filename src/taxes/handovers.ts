/**
 * Kernels that hand their results to each other through memory on one rank: what the locality pairs up, joined to
 * chains. A chain may begin with a product of matrices, whose epilogue could do what follows, but what feeds a product
 * or a collective does not join it: a matrix unit wants its operands in memory.
 *
 * One fused kernel would save the bytes between them, and the launch tax between those that follow each other at once.
 * Where most kernels are small, launching is what costs, and the chain is left to the runs (runs.ts).
 */
import { union } from '../timeline/intervals.ts'
import { isDeviceWork, Kind, NONE, type RankTimeline } from '../timeline/timeline.ts'
import type { Occurrence } from './candidates.ts'
import { FAR } from './chains.ts'
import type { Labels } from './labels.ts'
import type { Partition } from './ledger.ts'
import { type Locality, nanoseconds } from './locality.ts'
import { Measured } from './measured.ts'
import { SMALL } from './runs.ts'

/** In one chain; a longer one would be nobody's fused kernel. */
const LONGEST = 16

interface Chain {
  readonly events: number[]
  bytes: number
}

export function handoversOf(
  rank: RankTimeline,
  { from, to, parts }: Partition,
  locality: Locality | null,
  labels: Labels,
): Occurrence[] {
  if (!locality) return []
  const { start, duration, kind } = rank.events
  const { producer, consumer, bytes, intoProduct, memory } = locality
  const chainOf = new Map<number, Chain>()
  const chains = new Set<Chain>()
  for (let i = 0; i < bytes.length; i++) {
    const [writer, reader] = [producer[i], consumer[i]]
    if (intoProduct[i] || kind[writer] === Kind.communication || kind[reader] === Kind.communication) continue
    if (start[writer] < from || start[reader] + duration[reader] > to) continue
    let chain = chainOf.get(writer)
    if (!chain || (chain.events.length >= LONGEST && !chain.events.includes(reader))) {
      // A chain that is full goes on as another; the one who writes belongs to both.
      chain = { events: [writer], bytes: 0 }
      chains.add(chain)
      chainOf.set(writer, chain)
    }
    if (!chainOf.has(reader)) {
      chain.events.push(reader)
      chainOf.set(reader, chain)
    }
    chain.bytes += bytes[i]
  }

  const kept = [...chains].filter(
    ({ events }) =>
      events.length > 1 && 2 * events.filter((event) => duration[event] >= SMALL).length >= events.length,
  )
  for (const { events } of kept) events.sort((a, b) => start[a] - start[b])
  const between = launchBetween(rank, kept, new Measured(union(parts.dispatch, parts.gap)))
  return kept.map(({ events, bytes: handed }, i) => {
    const last = events[events.length - 1]
    return {
      chain: events.map((event) => labels.of(rank, event)),
      from: start[events[0]],
      to: start[last] + duration[last],
      savings: {
        launch: between[i],
        wait: null,
        transfer: null,
        communication: 0,
        locality: memory ? nanoseconds(handed, memory) : null,
      },
      localityBytes: handed,
      operation: null,
    }
  })
}

/** By chain: the launch tax between kernels that follow each other at once; where streams share an instant, counted once. */
function launchBetween(rank: RankTimeline, chains: readonly Chain[], launch: Measured): Float64Array {
  const { start, duration } = rank.events
  const gaps: { chain: number; from: number; to: number }[] = []
  chains.forEach(({ events }, chain) => {
    for (let i = 1; i < events.length; i++)
      if (workBefore(rank, events[i]) === events[i - 1])
        gaps.push({ chain, from: start[events[i - 1]] + duration[events[i - 1]], to: start[events[i]] })
  })
  gaps.sort((a, b) => a.from - b.from)
  const sums = new Float64Array(chains.length)
  let counted = -Infinity
  for (const { chain, from, to } of gaps) {
    const idle = launch.within(Math.max(from, counted), to)
    if (idle > FAR) continue
    sums[chain] += idle
    counted = Math.max(counted, to)
  }
  return sums
}

/** The device work ahead of it on its stream. */
function workBefore({ tracks, events: { kind, track } }: RankTimeline, event: number): number {
  const { from } = tracks[track[event]]
  let before = event - 1
  while (before >= from && !isDeviceWork(kind[before])) before--
  return before >= from ? before : NONE
}
