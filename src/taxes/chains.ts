/**
 * Collectives of one rank with the compute before and after: the kernel that wrote what the collective sends and the one
 * that reads what it brought, where the locality tells; else the last kernel that ended before it began and the first
 * that starts after its end. Collectives between the same two kernels are one chain.
 *
 * A chain saves the launch tax between its members, the exposed time of its collectives, and the locality to and from
 * them. Where two chains or two collectives share time, it is the first one's. Launch tax of more than a millisecond at
 * one place is not counted: in so long a time the host did more than to launch the next member.
 */
import { union } from '../timeline/intervals.ts'
import { countBefore } from '../timeline/search.ts'
import { Kind, NONE, type RankTimeline } from '../timeline/timeline.ts'
import type { Occurrence } from './candidates.ts'
import type { Labels } from './labels.ts'
import type { Partition } from './ledger.ts'
import { type Locality, nanoseconds } from './locality.ts'
import { Measured } from './measured.ts'
import { operationOf } from './operations.ts'

/** A hundred launches: launch tax beyond that at one place has other causes than the chain. */
export const FAR = 1_000_000

/** A collective on this rank, and whether its wait is known. */
export interface Member {
  readonly event: number
  readonly kind: string | null
  readonly split: boolean
}

interface Chain {
  readonly before: number
  readonly after: number
  readonly members: Member[]
}

export function* chainsOf(
  rank: RankTimeline,
  partition: Partition,
  locality: Locality | null,
  labels: Labels,
  names: readonly string[],
  members: readonly Member[],
): Generator<Occurrence> {
  const { start, duration } = rank.events
  const { parts } = partition
  const flow = flowOf(rank, partition, locality)
  const launch = new Measured(union(parts.dispatch, parts.gap))
  const [wait, transfer, unsplit] = [parts.wait, parts.transfer, parts.communication].map(
    (part) => new Measured(part),
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
    for (const { event } of own) {
      const end = start[event] + duration[event]
      const free = Math.max(start[event], communicated)
      launchUntil(start[event])
      savings.wait += wait.within(free, end)
      savings.transfer += transfer.within(free, end)
      savings.communication += unsplit.within(free, end)
      communicated = Math.max(communicated, end)
      ended = Math.max(ended, end)
      bytes += flow.bytes.get(event) ?? 0
    }
    launchUntil(start[after])
    const split = own.some((one) => one.split)
    const last = own[own.length - 1]
    yield {
      chain: labels.chain([
        labels.of(rank, before),
        ...own.map(({ event, kind }) => (kind === null ? labels.of(rank, event) : labels.intern(kind))),
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
      operation: own.length === 1 ? operationOf(rank, names, last.kind, before, last.event, after) : null,
    }
  }
}

/** What the locality knows of communications: which events feed and use them, and how many bytes that is. */
interface Flow {
  readonly producer: Map<number, number>
  readonly consumer: Map<number, number>
  readonly bytes: Map<number, number>
}

function flowOf({ events }: RankTimeline, { from, to }: Partition, locality: Locality | null): Flow {
  const flow: Flow = { producer: new Map(), consumer: new Map(), bytes: new Map() }
  if (!locality) return flow
  const { kind } = events
  for (let i = 0; i < locality.bytes.length; i++) {
    if (locality.start[i] < from || locality.start[i] >= to) continue
    const [producer, consumer] = [locality.producer[i], locality.consumer[i]]
    let communication = NONE
    if (kind[consumer] === Kind.communication) {
      communication = consumer
      flow.producer.set(consumer, producer)
    } else if (kind[producer] === Kind.communication) {
      communication = producer
      if (!flow.consumer.has(producer)) flow.consumer.set(producer, consumer)
    }
    if (communication !== NONE)
      flow.bytes.set(communication, (flow.bytes.get(communication) ?? 0) + locality.bytes[i])
  }
  return flow
}

function findChains(
  rank: RankTimeline,
  { from, to }: Partition,
  flow: Flow,
  members: readonly Member[],
): Chain[] {
  const { start, duration, track } = rank.events
  const inWindow = members.filter(({ event }) => start[event] < to && start[event] + duration[event] > from)
  inWindow.sort((a, b) => start[a.event] - start[b.event] || a.event - b.event)
  const streams = inWindow.length > 0 ? computeStreams(rank) : []
  const chains: Chain[] = []
  for (const member of inWindow) {
    const { event } = member
    const device = streams.filter(({ owner }) => owner === rank.tracks[track[event]].owner)
    const before = flow.producer.get(event) ?? lastBefore(rank, device, start[event])
    const after = flow.consumer.get(event) ?? firstAfter(rank, device, start[event] + duration[event])
    if (before === NONE || after === NONE) continue
    const last = chains[chains.length - 1] as Chain | undefined
    if (last && last.before === before && last.after === after) last.members.push(member)
    else chains.push({ before, after, members: [member] })
  }
  return chains
}

interface ComputeStream {
  readonly owner: number
  /** Its kernels in order of their start. */
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

/** The kernel with the latest end not after `time`, or `NONE`. */
function lastBefore({ events }: RankTimeline, streams: readonly ComputeStream[], time: number): number {
  const { start, duration } = events
  let [best, latest] = [NONE, -Infinity]
  for (const { kernels } of streams) {
    // Of those that start before it, the last ones may run beyond it where kernels of a stream overlap.
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
