/**
 * Finds kernels on one rank that pass their results to each other through memory. Each pair of kernels in which the
 * locality analysis finds that one reads the other's result is a link, and connected links form chains. A chain may
 * begin with a matrix product, because the product's epilogue could do the work of the next kernels. A kernel that
 * writes an operand of a matrix product or collective is not joined with that product or collective, since the tensor
 * core reads its operands from memory.
 *
 * One fused kernel would save the bytes between the kernels, and the launch tax between direct successors. If most
 * kernels of a chain are small, launching is the main cost of the chain, and runs.ts handles the chain instead.
 */
import { Column, float64, int32 } from '../timeline/columns.ts'
import type { Intervals } from '../timeline/intervals.ts'
import { countBefore } from '../timeline/search.ts'
import { isDeviceWork, Kind, NONE, type RankTimeline } from '../timeline/timeline.ts'
import type { Occurrence } from './candidates.ts'
import { FAR } from './chains.ts'
import type { Labels } from './labels.ts'
import type { Partition } from './ledger.ts'
import { type Locality, nanoseconds } from './locality.ts'
import type { Measured } from './measured.ts'
import { StreamColumn } from './streamColumn.ts'
import { SMALL } from './runs.ts'

/** The largest number of kernels in one chain. Nobody would write a fused kernel for a longer chain. */
const LONGEST = 16

export function* handoversOf(
  rank: RankTimeline,
  partition: Partition,
  launching: Measured,
  locality: Locality | null,
  labels: Labels,
): Generator<Occurrence> {
  if (!locality) return
  const { start, duration } = rank.events
  const { memory } = locality
  const launch = new Claims(launching.intervals)
  const chains = new Chains(rank, partition, locality)
  for (let chain = 0; chain < chains.length; chain++) {
    const events = chains.events(chain)
    const large = events.reduce((count, event) => count + Number(duration[event] >= SMALL), 0)
    if (events.length < 2 || 2 * large < events.length) continue
    let between = 0
    for (let i = 1; i < events.length; i++)
      if (workBefore(rank, events[i]) === events[i - 1])
        between += launch.take(start[events[i - 1]] + duration[events[i - 1]], start[events[i]])
    const bytes = chains.bytes.get(chain)
    const last = events[events.length - 1]
    yield {
      chain: labels.chain(events.map((event) => labels.of(rank, event))),
      from: start[events[0]],
      to: start[last] + duration[last],
      savings: {
        launch: between,
        wait: null,
        transfer: null,
        communication: 0,
        locality: memory ? nanoseconds(bytes, memory) : null,
      },
      localityBytes: bytes,
      operation: null,
    }
  }
}

/** The chains are stored as linked lists in columns, since there may be as many chains as kernels. */
class Chains {
  readonly bytes = new Column(float64)
  private readonly rank: RankTimeline
  /** For each chain: its first writer, its last reader, and its number of kernels. */
  private readonly heads = new Column(int32)
  private readonly tails = new Column(int32)
  private readonly sizes = new Column(int32)
  /** For each event: its chain, and the previous event in the chain. */
  private readonly chainOf: StreamColumn
  private readonly previous: StreamColumn

  constructor(rank: RankTimeline, { from, to }: Partition, locality: Locality) {
    this.rank = rank
    const { start, duration, kind } = rank.events
    this.chainOf = new StreamColumn(rank)
    this.previous = new StreamColumn(rank)
    const { producer, consumer, bytes, intoProduct } = locality
    for (let i = 0; i < bytes.length; i++) {
      const [writer, reader] = [producer[i], consumer[i]]
      const communicates = kind[writer] === Kind.communication || kind[reader] === Kind.communication
      if (intoProduct[i] || communicates) continue
      if (start[writer] >= from && start[reader] + duration[reader] <= to) this.join(writer, reader, bytes[i])
    }
  }

  get length(): number {
    return this.heads.length
  }

  /** The events of a chain, sorted by start. */
  events(chain: number): number[] {
    const head = this.heads.get(chain)
    const events = [head]
    for (let event = this.tails.get(chain); event !== head; event = this.previous.get(event))
      events.push(event)
    const { start } = this.rank.events
    return events.sort((a, b) => start[a] - start[b])
  }

  private join(writer: number, reader: number, bytes: number): void {
    const { chainOf, previous, heads, tails, sizes } = this
    let chain = chainOf.get(writer)
    if (chain === NONE || (sizes.get(chain) >= LONGEST && chainOf.get(reader) !== chain)) {
      // When a chain is full, its last writer begins a new chain. The last writer of a full chain belongs to two
      // chains.
      chain = heads.length
      heads.push(writer)
      tails.push(writer)
      sizes.push(1)
      this.bytes.push(0)
      chainOf.set(writer, chain)
    }
    if (chainOf.get(reader) === NONE) {
      chainOf.set(reader, chain)
      previous.set(reader, tails.get(chain))
      tails.set(chain, reader)
      sizes.set(chain, sizes.get(chain) + 1)
    }
    this.bytes.set(chain, this.bytes.get(chain) + bytes)
  }
}

/**
 * Assigns each interval of launch tax to only one chain, since all streams of a rank are idle in that interval. Launch
 * tax of more than `FAR` between two kernels is not assigned.
 */
class Claims {
  private readonly intervals: Intervals
  private readonly taken: Uint8Array

  constructor(intervals: Intervals) {
    this.intervals = intervals
    this.taken = new Uint8Array(intervals.length / 2)
  }

  take(from: number, to: number): number {
    const { intervals, taken } = this
    const first = countBefore(taken.length, (i) => intervals[2 * i + 1] <= from)
    let sum = 0
    let low = first
    for (; low < taken.length && intervals[2 * low] < to; low++)
      if (!taken[low]) sum += Math.min(intervals[2 * low + 1], to) - Math.max(intervals[2 * low], from)
    if (sum > FAR) return 0
    taken.fill(1, first, low)
    return sum
  }
}

/** The previous device work on the same stream, or `NONE`. */
function workBefore({ tracks, events: { kind, track } }: RankTimeline, event: number): number {
  const { from } = tracks[track[event]]
  let before = event - 1
  while (before >= from && !isDeviceWork(kind[before])) before--
  return before >= from ? before : NONE
}
