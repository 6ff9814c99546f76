/**
 * A simulated job with collectives: ranks compute, arrive, wait for the last rank, move data and leave. All times are
 * on one exact clock (true time). `record` then writes the timeline as profilers with separate clocks would, with the
 * requested amount of metadata.
 */
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { Kind, NONE, type Communication, type Timeline } from '../../src/timeline/timeline.ts'

export type Layout = 'world' | 'pairs' | 'strides'
export type Metadata = 'communicator' | 'sequence' | 'ranks' | 'size' | 'none'

export interface JobOptions {
  readonly seed: number
  readonly ranks: number
  /** The kinds of groups in the order in which they communicate; the order is repeated. */
  readonly layouts: readonly Layout[]
  readonly rounds: number
  /** The largest compute time before a call, in nanoseconds. */
  readonly compute?: number
  /** The largest difference, in nanoseconds, between the times at which ranks see the end of a collective. */
  readonly endNoise?: number
}

/** The participation of one rank in a call, in times of the exact clock. */
export interface Part {
  readonly rank: number
  readonly arrival: number
  readonly end: number
  /** The start of the compute before the call, which is the end of the previous call. */
  readonly computeFrom: number
  readonly kernel: string
}

export interface Call {
  readonly id: number
  readonly layout: Layout
  readonly ranks: readonly number[]
  readonly sequence: number
  readonly kind: string
  readonly elements: number
  readonly parts: readonly Part[]
}

export interface Recording {
  readonly metadata: Metadata
  /** The offset of the rank's clock from the true time, in nanoseconds. */
  readonly offset?: (rank: number) => bigint
  readonly drift?: (rank: number) => number
  /** True if the recording contains the rank's `k`-th call of `calls`. */
  readonly has?: (rank: number, k: number, calls: number) => boolean
  /** True for ranks that have a trace; all ranks by default. */
  readonly traced?: (rank: number) => boolean
  readonly stream?: (call: Call, rank: number) => number
}

/** A pseudo-random generator of numbers from 0 to 1. The same seed gives the same numbers. */
export function random(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

function groupsOf(layout: Layout, ranks: number): number[][] {
  const all = Array.from({ length: ranks }, (_, rank) => rank)
  const key = { world: () => 0, pairs: (rank: number) => rank >> 1, strides: (rank: number) => rank % 2 }[
    layout
  ]
  const groups = new Map<number, number[]>()
  for (const rank of all) groups.set(key(rank), [...(groups.get(key(rank)) ?? []), rank])
  return [...groups.values()].filter((group) => group.length > 1 || ranks === 1)
}

const kinds = ['allReduce', 'allGather', 'reduceScatter']

export function jobOf(options: JobOptions): Call[] {
  const { ranks, layouts, rounds, seed, compute = 2_000_000, endNoise = 0 } = options
  const next = random(seed)
  const upTo = (limit: number): number => Math.floor(next() * limit)
  const free = Array.from({ length: ranks }, () => 1_000_000 + upTo(100_000))
  const sequences = new Map<string, number>()
  const calls: Call[] = []
  for (let round = 0; round < rounds; round++)
    for (const layout of layouts) {
      const kind = kinds[upTo(kinds.length)]
      const elements = 1024 * (1 + upTo(3))
      for (const group of groupsOf(layout, ranks)) {
        const sequence = (sequences.get(`${layout} ${group}`) ?? 0) + 1
        sequences.set(`${layout} ${group}`, sequence)
        const arrivals = group.map((rank) => free[rank] + 1_000 + upTo(compute))
        const done = Math.max(...arrivals) + 20_000 + upTo(300_000)
        const parts = group.map((rank, i): Part => {
          const part = {
            rank,
            arrival: arrivals[i],
            end: done + upTo(endNoise),
            computeFrom: free[rank],
            kernel: ['gemm', 'norm', 'attention'][upTo(3)],
          }
          free[rank] = part.end + upTo(3_000)
          return part
        })
        calls.push({ id: calls.length, layout, ranks: group, sequence, kind, elements, parts })
      }
    }
  return calls
}

const streamOf: Record<Layout, number> = { world: 20, pairs: 30, strides: 40 }

function metadataOf(call: Call, metadata: Metadata): Communication {
  const listed = metadata === 'communicator' || metadata === 'sequence' || metadata === 'ranks'
  const named = metadata !== 'none'
  return {
    collective: call.kind,
    library: 'nccl',
    group: named ? call.layout : null,
    groupDescription: named ? `${call.layout} group` : null,
    groupRanks: listed ? call.ranks : null,
    groupSize: named ? call.ranks.length : null,
    communicator: metadata === 'communicator' ? `${call.layout} of ${call.ranks}` : null,
    dtype: named ? 'BFloat16' : null,
    elementsIn: named ? call.elements : null,
    elementsOut: named ? call.elements : null,
    source: null,
    destination: null,
  }
}

export interface Recorded {
  readonly timeline: Timeline
  /**
   * The simulated call to which a rank's recorded event refers; undefined for other events. Rank and event are given by
   * index.
   */
  readonly callOf: (rank: number, event: number) => Call
  /** For each call, the ranks whose recording contains the call. */
  readonly recorded: ReadonlyMap<number, readonly number[]>
}

export function record(calls: readonly Call[], ranks: number, recording: Recording): Recorded {
  const { metadata, offset = () => 0n, drift = () => 0, has = () => true, traced = () => true } = recording
  const builder = new TimelineBuilder()
  const recorded = new Map<number, number[]>()
  for (let rank = 0; rank < ranks; rank++) {
    if (!traced(rank)) continue
    const made = builder.rank(rank)
    made.base = 1_700_000_000_000_000_000n + offset(rank)
    const own = (time: number): number => Math.round(time * (1 + drift(rank)))
    const compute = made.track('stream', 0, 7)
    const mine = calls.filter((call) => call.ranks.includes(rank))
    mine.forEach((call, k) => {
      const part = call.parts[call.ranks.indexOf(rank)]
      const add = (kind: Kind, track: number, name: string, from: number, to: number): number =>
        made.add(kind, track, builder.intern(name), own(from), own(to) - own(from))
      add(Kind.kernel, compute, part.kernel, part.computeFrom, part.arrival)
      if (!has(rank, k, mine.length)) return
      const stream = made.track('stream', 0, recording.stream?.(call, rank) ?? streamOf[call.layout])
      const event = add(Kind.communication, stream, `ncclDevKernel_${call.kind}`, part.arrival, part.end)
      const numbered = metadata === 'communicator' || metadata === 'sequence'
      made.setCommunication(
        event,
        made.communication(metadataOf(call, metadata)),
        numbered ? call.sequence : NONE,
      )
      // Communication events do not use the field `bytes`, so the field stores the id of the call.
      made.setBytes(event, call.id + 1)
      recorded.set(call.id, [...(recorded.get(call.id) ?? []), rank])
    })
  }
  const timeline = builder.freeze()
  return {
    timeline,
    recorded,
    callOf: (rank, event) => calls[timeline.ranks[rank].events.bytes.get(event)! - 1],
  }
}
