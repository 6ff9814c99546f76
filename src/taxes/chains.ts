/**
 * Finds the collectives of one rank, together with the compute kernels before and after each collective. If the
 * locality analysis knows the data flow, the kernel before is the kernel that wrote the data to send, and the kernel
 * after is the kernel that reads the received data. If the data flow is unknown, the kernel before is the last kernel
 * that ended before the collective began, and the kernel after is the first kernel that starts after the collective has
 * ended. Collectives between the same two kernels form one chain.
 *
 * Fusing a chain saves the launch tax between its members, the exposed time of its collectives, and the locality tax
 * between the collectives and their neighbours. Time that two chains or two collectives have in common counts only for
 * the first chain or collective. An idle interval with more than one millisecond of launch tax is not counted, since in
 * such an interval the host did more than launch the next kernel.
 */
import { countBefore } from '../timeline/search.ts'
import { sortBy } from '../timeline/sort.ts'
import { Kind, NONE, type RankTimeline, type Timeline } from '../timeline/timeline.ts'
import { recordsInside } from '../timeline/workers.ts'
import type { Occurrence } from './candidates.ts'
import type { Collectives } from './collectiveTable.ts'
import type { Labels } from './labels.ts'
import type { Partition } from './ledger.ts'
import { type Locality, nanoseconds } from './locality.ts'
import { MeanMeasured, type Measured } from './measured.ts'
import { RankTraffic } from './rankTraffic.ts'
import { recognised, type Recogniser } from './recognition.ts'

/**
 * The largest launch tax of one idle interval that fusion can save: one millisecond, in nanoseconds, the cost of about
 * a hundred launches. If the launch tax of an idle interval exceeds one millisecond, its cause is not just the launch
 * of the next kernel.
 */
export const FAR = 1_000_000

/** The collective calls of one rank, stored in columns because there may be hundreds of thousands of calls. */
export interface Members {
  readonly events: Int32Array
  /** The kind of each call, stored as an index into `kinds`. */
  readonly kind: Uint16Array
  /**
   * For each call: 1 if its waiting time is known, either from other ranks or from the events recorded inside the
   * kernel.
   */
  readonly split: Uint8Array
  readonly kinds: readonly (string | null)[]
}

/** The collective calls of each rank of the timeline. */
export function membersOf({ ranks }: Timeline, collectives: Collectives): Members[] {
  const { length, calls, first, rank, event, wait } = collectives
  const counts = new Uint32Array(ranks.length)
  for (const one of rank) counts[one]++
  const kinds = [...new Set(calls.map(({ kind }) => kind))]
  const kindOfCall = calls.map(({ kind }) => kinds.indexOf(kind))
  const recorded = ranks.map(recordsInside)
  const made = ranks.map((_, index) => ({
    events: new Int32Array(counts[index]),
    kind: new Uint16Array(counts[index]),
    split: new Uint8Array(counts[index]),
    kinds,
  }))
  counts.fill(0)
  for (let i = 0; i < length; i++)
    for (let member = first[i]; member < first[i + 1]; member++) {
      const own = made[rank[member]]
      const at = counts[rank[member]]++
      own.events[at] = event[member]
      own.kind[at] = kindOfCall[collectives.call[i]]
      own.split[at] = recorded[rank[member]] || !Number.isNaN(wait[member]) ? 1 : 0
    }
  return made
}

interface Chain {
  readonly before: number
  readonly after: number
  /** The positions of the chain's collectives among the collective calls of the rank. */
  readonly members: number[]
}

export function* chainsOf(
  rank: RankTimeline,
  partition: Partition,
  launch: Measured,
  locality: Locality | null,
  labels: Labels,
  names: readonly string[],
  members: Members,
  recognisers: readonly Recogniser[],
): Generator<Occurrence> {
  const { start, duration } = rank.events
  const flow = flowOf(rank, partition, locality, members)
  const traffic = new RankTraffic(rank, names)
  const [wait, transfer, unsplit] = (['wait', 'transfer', 'communication'] as const).map(
    (part) => new MeanMeasured(partition.processors.map(({ parts }) => parts[part])),
  )
  let chained = -Infinity
  let communicated = -Infinity
  for (const { before, after, members: own } of findChains(rank, partition, flow, members)) {
    const savings = { launch: 0, wait: 0, transfer: 0, communication: 0 }
    let bytes = 0
    let ended = start[before] + duration[before]
    const launchUntil = (next: number): void => {
      const idle = launch.within(Math.max(ended, chained), next)
      if (idle <= FAR) savings.launch += idle
      chained = Math.max(chained, next)
    }
    for (const member of own) {
      const event = members.events[member]
      const end = start[event] + duration[event]
      const free = Math.max(start[event], communicated)
      launchUntil(start[event])
      savings.wait += wait.within(free, end)
      savings.transfer += transfer.within(free, end)
      savings.communication += unsplit.within(free, end)
      communicated = Math.max(communicated, end)
      ended = Math.max(ended, end)
      bytes += flow.bytes[member]
    }
    launchUntil(start[after])
    const split = own.some((member) => members.split[member] === 1)
    const last = own[own.length - 1]
    const kindOf = (member: number): string | null => members.kinds[members.kind[member]]
    yield {
      chain: labels.chain([
        labels.of(rank, before),
        ...own.map((member) => {
          const kind = kindOf(member)
          return kind === null ? labels.of(rank, members.events[member]) : labels.intern(kind)
        }),
        labels.of(rank, after),
      ]),
      from: start[before],
      to: start[after] + duration[after],
      savings: {
        ...savings,
        wait: split ? savings.wait : null,
        transfer: split ? savings.transfer : null,
        locality: locality?.memory ? nanoseconds(bytes, locality.memory) : null,
      },
      localityBytes: locality && bytes,
      operation:
        own.length === 1
          ? recognised(recognisers, rank, traffic, [before, members.events[last], after], kindOf(last))
          : null,
    }
  }
}

/**
 * The data flow of each collective: the event that produces its input, the event that consumes its output (each may be
 * `NONE`), and the bytes.
 */
interface Flow {
  readonly producer: Int32Array
  readonly consumer: Int32Array
  readonly bytes: Float64Array
}

function flowOf(
  { events }: RankTimeline,
  { from, to }: Partition,
  locality: Locality | null,
  { events: own }: Members,
): Flow {
  const flow: Flow = {
    producer: new Int32Array(own.length).fill(NONE),
    consumer: new Int32Array(own.length).fill(NONE),
    bytes: new Float64Array(own.length),
  }
  if (!locality) return flow
  const { kind } = events
  const order = new Uint32Array(own.length)
  for (let i = 0; i < order.length; i++) order[i] = i
  sortBy(order, (a, b) => own[a] - own[b])
  const memberOf = (event: number): number => {
    const at = countBefore(order.length, (i) => own[order[i]] < event)
    return at < order.length && own[order[at]] === event ? order[at] : NONE
  }
  for (let i = 0; i < locality.bytes.length; i++) {
    if (locality.start[i] < from || locality.start[i] >= to) continue
    const [producer, consumer] = [locality.producer[i], locality.consumer[i]]
    const isRead = kind[consumer] === Kind.communication
    if (!isRead && kind[producer] !== Kind.communication) continue
    const member = memberOf(isRead ? consumer : producer)
    if (member === NONE) continue
    if (isRead) flow.producer[member] = producer
    else if (flow.consumer[member] === NONE) flow.consumer[member] = consumer
    flow.bytes[member] += locality.bytes[i]
  }
  return flow
}

function* findChains(
  rank: RankTimeline,
  { from, to }: Partition,
  flow: Flow,
  { events }: Members,
): Generator<Chain> {
  const { start, duration, track } = rank.events
  const order = new Uint32Array(events.length)
  let length = 0
  for (let i = 0; i < events.length; i++)
    if (start[events[i]] < to && start[events[i]] + duration[events[i]] > from) order[length++] = i
  const inWindow = order.subarray(0, length)
  sortBy(inWindow, (a, b) => start[events[a]] - start[events[b]] || events[a] - events[b])
  const streams = length > 0 ? computeStreams(rank) : []
  let last: Chain | null = null
  for (const member of inWindow) {
    const event = events[member]
    const device = streams.filter(({ owner }) => owner === rank.tracks[track[event]].owner)
    const fed = flow.producer[member]
    const used = flow.consumer[member]
    const before = fed !== NONE ? fed : lastBefore(rank, device, start[event])
    const after = used !== NONE ? used : firstAfter(rank, device, start[event] + duration[event])
    if (before === NONE || after === NONE) continue
    if (last && last.before === before && last.after === after) last.members.push(member)
    else {
      if (last) yield last
      last = { before, after, members: [member] }
    }
  }
  if (last) yield last
}

interface ComputeStream {
  readonly owner: number
  /** The kernels of the stream, sorted by start. */
  readonly kernels: Int32Array
}

function computeStreams({ tracks, events: { kind } }: RankTimeline): ComputeStream[] {
  const found: ComputeStream[] = []
  for (const { role, owner, from, to } of tracks) {
    if (role !== 'stream') continue
    const kernels = new Int32Array(to - from)
    let length = 0
    for (let event = from; event < to; event++) if (kind[event] === Kind.kernel) kernels[length++] = event
    if (length > 0) found.push({ owner, kernels: kernels.slice(0, length) })
  }
  return found
}

/** The kernel with the latest end among the kernels that ended no later than `time`, or `NONE`. */
function lastBefore({ events }: RankTimeline, streams: readonly ComputeStream[], time: number): number {
  const { start, duration } = events
  let [best, latest] = [NONE, -Infinity]
  for (const { kernels } of streams) {
    // If kernels of a stream overlap, a kernel that starts before `time` may end after `time`.
    for (let i = firstFrom(start, kernels, time) - 1, tries = 8; i >= 0 && tries > 0; i--, tries--) {
      const end = start[kernels[i]] + duration[kernels[i]]
      if (end > time) continue
      if (end > latest) [best, latest] = [kernels[i], end]
      break
    }
  }
  return best
}

/** The first kernel that starts at `time` or later, or `NONE`. */
function firstAfter(
  { events: { start } }: RankTimeline,
  streams: readonly ComputeStream[],
  time: number,
): number {
  let best = NONE
  for (const { kernels } of streams) {
    const i = firstFrom(start, kernels, time)
    if (i < kernels.length && (best === NONE || start[kernels[i]] < start[best])) best = kernels[i]
  }
  return best
}

function firstFrom(start: Float64Array, kernels: Int32Array, time: number): number {
  return countBefore(kernels.length, (i) => start[kernels[i]] < time)
}
