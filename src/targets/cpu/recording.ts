/**
 * Keeps the data of a recording world: launches as the host saw them, and the events that workers wrote into their
 * buffers. The timeline of the world is built from the recorded launches and events. Each rank has one track per stream
 * for launches, one track per worker for programs, waits and remote copies, and one track for the host's calls.
 */
import { onlyMoves } from '../../ir/moves.ts'
import { TimelineBuilder } from '../../timeline/builder.ts'
import { recordedNames } from '../../timeline/recordedNames.ts'
import { Kind, type Timeline } from '../../timeline/timeline.ts'
import { workerTrack } from '../../timeline/workers.ts'
import { inWorld } from '../../world/members.ts'
import { LaunchTraffic } from '../../world/launchTraffic.ts'
import { event as eventOf, eventKind, slot as slotOf } from './abi.ts'
import type { Launched, Queue, Worker } from './queue.ts'

/** The number of events that a worker can write between two collections by the host. */
export const eventCapacity = 1 << 15

interface WorkerEvent {
  readonly kind: Kind
  readonly name: string
  readonly start: number
  readonly end: number
  readonly bytes: number
}

/** The events of one worker in binary form. The binary events are decoded when a timeline is requested. */
class RawEvents {
  #bytes = new Uint8Array(64 * eventOf.bytes)
  count = 0

  append(memory: ArrayBufferLike, address: number, count: number): void {
    const needed = (this.count + count) * eventOf.bytes
    if (needed > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(needed, 2 * this.#bytes.length))
      larger.set(this.#bytes.subarray(0, this.count * eventOf.bytes))
      this.#bytes = larger
    }
    this.#bytes.set(new Uint8Array(memory, address, count * eventOf.bytes), this.count * eventOf.bytes)
    this.count += count
  }

  get view(): DataView {
    return new DataView(this.#bytes.buffer)
  }
}

/** The smallest observable clock difference, in nanoseconds. */
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
  readonly #memory: ArrayBufferLike
  readonly #words: Int32Array
  readonly #launches = new Map<Queue, Launched[]>()
  readonly #events = new Map<Worker, RawEvents>()
  readonly #traffic = new LaunchTraffic()
  readonly #waits: { readonly start: number; readonly end: number }[] = []
  /** The number of events dropped because a worker's buffer was full. */
  lost = 0

  constructor(memory: ArrayBufferLike) {
    this.#memory = memory
    this.#words = new Int32Array(memory)
  }

  waited(start: number, end: number): void {
    this.#waits.push({ start, end })
  }

  /** Adds a launch that has ended. */
  ended(launched: Launched): void {
    const known = this.#launches.get(launched.queue)
    if (known) known.push(launched)
    else this.#launches.set(launched.queue, [launched])
  }

  /**
   * Collects the events that the workers have written. No worker may be running a kernel while events are collected.
   */
  collect(workers: readonly Worker[]): void {
    for (const worker of workers) {
      const at = worker.slot >>> 2
      const count = this.#words[at + slotOf.eventCount / 4] >>> 0
      let known = this.#events.get(worker)
      // In a timeline, a leader (a worker that runs programs) always has a track. A worker of another role has a track
      // only if it recorded events.
      if (!known && (count > 0 || worker.role === 0)) this.#events.set(worker, (known = new RawEvents()))
      if (!known || count === 0) continue
      this.#words[at + slotOf.eventCount / 4] = 0
      const address = this.#words[at + slotOf.events / 4] >>> 0
      known.append(this.#memory, address, Math.min(count, eventCapacity))
      this.lost += Math.max(0, count - eventCapacity)
    }
  }

  /** Copies within the rank are not transfers and are omitted. */
  *#eventsOf(worker: Worker, raw: RawEvents): Generator<WorkerEvent> {
    const launches = this.#launches.get(worker.queue) ?? []
    const { view } = raw
    for (let n = 0; n < raw.count; n++) {
      const word = (field: number): number => view.getInt32(n * eventOf.bytes + field, true)
      const time = (field: number): number => view.getFloat64(n * eventOf.bytes + field, true)
      const [kind, who, what] = [word(eventOf.kind), word(eventOf.who), word(eventOf.what)]
      const [start, end] = [time(eventOf.start), time(eventOf.end)]
      const launched = launchAt(launches, start)
      const line = String(launched?.executable?.lowered.sites[word(eventOf.site)] ?? '')
      if (kind === eventKind.program)
        yield {
          kind: Kind.annotation,
          name: recordedNames.program(launched?.kernel ?? 'program', who),
          start,
          end,
          bytes: 0,
        }
      else if (kind === eventKind.wait) {
        const owner = inWorld(launched?.members, who)
        const param = launched?.executable?.lowered.params[what]
        const flags = (param !== undefined && launched?.flags[param]?.name) || 'a flag'
        yield { kind: Kind.wait, name: recordedNames.wait(flags, owner, line), start, end, bytes: 0 }
      } else {
        const owner = inWorld(launched?.members, who)
        if (owner === worker.queue.rank) continue
        yield { kind: Kind.transfer, name: recordedNames.copy(owner, line), start, end, bytes: what }
      }
    }
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
            recordedNames.launch(launched.kernel),
            launched.enqueued,
            launched.published,
          )
          if (!launched.executable) continue
          const kind = launched.given && onlyMoves(launched.given.ir) ? Kind.communication : Kind.kernel
          const ran = add(kind, stream, launched.kernel, launched.start, launched.end)
          rank.linkLaunch(ran, call)
          if (launched.given) rank.setTraffic(ran, this.#traffic.of(launched.given, number))
        }
      }
      for (const [worker, raw] of this.#events) {
        if (worker.queue.rank !== number) continue
        const { leader, role } = worker
        const place = { stream: worker.queue.stream, leader, role }
        const track = rank.track('worker', number, workerTrack(place))
        for (const { kind, name, start, end, bytes } of this.#eventsOf(worker, raw))
          rank.setBytes(add(kind, track, name, start, end), bytes)
      }
    }
    return builder.freeze()
  }
}

/** Returns the launch of a queue that ran at a given time. The launches of one queue do not overlap. */
function launchAt(launches: readonly Launched[], time: number): Launched | undefined {
  let [low, high] = [0, launches.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (launches[middle].end < time) low = middle + 1
    else high = middle
  }
  return launches[low]
}
