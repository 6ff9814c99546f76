/**
 * What a recording world remembers: launches as the host saw them, and what workers wrote into their event buffers; and the
 * timeline that is made of it. On a rank each stream has a track of launches, each worker one of its programs, waits and remote
 * copies, and the host one of its calls.
 */
import { TimelineBuilder } from '../../timeline/builder.ts'
import { Kind, type Timeline } from '../../timeline/timeline.ts'
import { event as eventOf, eventKind, slot as slotOf } from './abi.ts'
import type { Launched, Queue, Worker } from './queue.ts'

/** Events that a worker can write between two looks of the host. */
export const eventCapacity = 1 << 15

interface WorkerEvent {
  readonly kind: number
  readonly name: string
  readonly start: number
  readonly end: number
  readonly bytes: number
}

/** The shortest difference that the clock shows, in nanoseconds. */
export function clockTick(now: () => number): number {
  let tick = Infinity
  for (let i = 0; i < 200; i++) {
    const before = now()
    let after = before
    while (after === before) after = now()
    tick = Math.min(tick, after - before)
  }
  return tick
}

export class Recording {
  readonly #words: Int32Array
  readonly #times: Float64Array
  readonly #launches = new Map<Queue, Launched[]>()
  readonly #events = new Map<Worker, WorkerEvent[]>()
  readonly #waits: { readonly start: number; readonly end: number }[] = []
  /** Events that did not fit. */
  lost = 0

  constructor(memory: ArrayBufferLike) {
    this.#words = new Int32Array(memory)
    this.#times = new Float64Array(memory)
  }

  waited(start: number, end: number): void {
    this.#waits.push({ start, end })
  }

  /** Launches that have ended. */
  ended(queue: Queue, launches: readonly Launched[]): void {
    let known = this.#launches.get(queue)
    if (!known) this.#launches.set(queue, (known = []))
    known.push(...launches)
  }

  /** Take what the workers have written. None of them may be running. */
  collect(workers: Iterable<Worker>): void {
    for (const worker of workers) {
      const at = worker.slot >>> 2
      const count = this.#words[at + slotOf.eventCount / 4] >>> 0
      if (count === 0) continue
      this.#words[at + slotOf.eventCount / 4] = 0
      const base = this.#words[at + slotOf.events / 4] >>> 0
      let known = this.#events.get(worker)
      if (!known) this.#events.set(worker, (known = []))
      const launches = this.#launches.get(worker.queue) ?? []
      for (let n = 0; n < Math.min(count, eventCapacity); n++)
        known.push(this.#event(base + n * eventOf.bytes, launches))
      this.lost += Math.max(0, count - eventCapacity)
    }
  }

  #event(address: number, launches: readonly Launched[]): WorkerEvent {
    const word = (field: number): number => this.#words[(address + field) >>> 2]
    const [kind, site, who, what] = [
      word(eventOf.kind),
      word(eventOf.site),
      word(eventOf.who),
      word(eventOf.what),
    ]
    const start = this.#times[(address + eventOf.start) / 8]
    const end = this.#times[(address + eventOf.end) / 8]
    const launched = launchAt(launches, start)
    const line = launched?.executable?.lowered.sites[site]
    const at = line ? ` at ${line}` : ''
    if (kind === eventKind.program)
      return { kind: Kind.annotation, name: `${launched?.kernel ?? 'program'} ${who}`, start, end, bytes: 0 }
    if (kind === eventKind.wait) {
      const flags = launched?.flags[what]?.name ?? 'a flag'
      return { kind: Kind.wait, name: `wait for ${flags} of rank ${who}${at}`, start, end, bytes: 0 }
    }
    return { kind: Kind.transfer, name: `copy with rank ${who}${at}`, start, end, bytes: what }
  }

  timeline(ranks: readonly number[], target: string): Timeline {
    const builder = new TimelineBuilder()
    for (const number of ranks) {
      const rank = builder.rank(number)
      rank.device = target
      const add = (kind: Kind, track: number, name: string, start: number, end: number): number =>
        rank.add(kind, track, builder.intern(name), Math.round(start), Math.max(0, Math.round(end - start)))
      const host = rank.track('thread', 0, 0)
      for (const { start, end } of this.#waits) add(Kind.synchronize, host, 'synchronize', start, end)
      for (const [queue, launches] of this.#launches) {
        if (queue.rank !== number) continue
        const stream = rank.track('stream', number, queue.stream)
        for (const launched of launches) {
          const call = add(
            Kind.launch,
            host,
            `launch ${launched.kernel}`,
            launched.enqueued,
            launched.published,
          )
          if (!launched.executable) continue
          rank.linkLaunch(add(Kind.kernel, stream, launched.kernel, launched.start, launched.end), call)
        }
      }
      for (const [worker, events] of this.#events) {
        if (worker.queue.rank !== number) continue
        const track = rank.track('annotations', number, workerTrack(worker))
        for (const { kind, name, start, end, bytes } of events)
          rank.setBytes(add(kind as Kind, track, name, start, end), bytes)
      }
    }
    return builder.freeze()
  }
}

/** Distinct from streams and from one another. */
const workerTrack = ({ queue, leader, role }: Worker): number => (queue.stream * 256 + leader) * 16 + role

/** The launch that ran at a time; launches of a queue follow each other. */
function launchAt(launches: readonly Launched[], time: number): Launched | undefined {
  let [low, high] = [0, launches.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (launches[middle].end < time) low = middle + 1
    else high = middle
  }
  return launches[low]
}
