/**
 * The host's side of a queue: the launches of a stream on a rank. Writes launch blocks, tells workers, knows which launches
 * have ended and when.
 */
import type { Given } from '../../world/launchTraffic.ts'
import type { SymmetricFlags } from '../../world/world.ts'
import { launch, queue as queueOf, ring, slot as slotOf } from './abi.ts'
import type { Executable } from './executables.ts'
import type { Arena } from './pool.ts'
import type { Thread } from './threads.ts'

/** A launch on one rank, as the host remembers it. */
export interface Launched {
  readonly kernel: string
  /** Undefined: it waits for another queue. */
  readonly executable: Executable | undefined
  /** Flag-set arguments, by parameter. */
  readonly flags: Readonly<Record<string, SymmetricFlags>>
  readonly grid: number
  /** Where the world records: what it was launched with. */
  given: Given | undefined
  readonly queue: Queue
  readonly sequence: number
  /** When the host enqueued it, and when it ran, in nanoseconds; 0 until known. */
  readonly enqueued: number
  published: number
  start: number
  end: number
}

/** A thread that serves a queue. */
export interface Worker {
  readonly queue: Queue
  readonly slot: number
  readonly leader: number
  readonly role: number
  thread: Thread
  /** It has died, or has been made to. */
  dead: boolean
  /** What it threw. */
  failure: string | undefined
}

/** What a launch block holds. */
export interface Block {
  readonly executable: number
  readonly grid: number
  readonly leaders: number
  readonly counters: number
  readonly frameStride: number
}

export class Queue {
  readonly rank: number
  readonly stream: number
  readonly address: number
  readonly workers: Worker[] = []
  /** By executable, its counters. */
  readonly counters = new Map<number, { readonly pointer: number; readonly bytes: number }>()
  frames: { readonly pointer: number; readonly bytes: number } | undefined
  /** Launches by their places in the ring; those after `#settled` are not known to have ended. */
  readonly #launched: Launched[] = []
  #settled = 0
  /** The one that was enqueued last. */
  last: Launched | undefined
  readonly #words: Int32Array
  readonly #times: Float64Array
  readonly #blocks: number
  readonly #timesAt: number
  #head = 0
  /** Numbers of launches that the host sleeps for. */
  readonly #expected: number[] = []

  constructor(
    arena: Arena,
    place: {
      readonly address: number
      readonly rank: number
      readonly ranks: number
      readonly stream: number
      readonly leaders: number
      readonly blocks: number
      readonly times: number
      readonly heapStride: number
    },
  ) {
    this.rank = place.rank
    this.stream = place.stream
    this.address = place.address
    this.#words = arena.words
    this.#times = new Float64Array(arena.memory.buffer)
    this.#blocks = place.blocks
    this.#timesAt = place.times / 8
    const at = place.address >>> 2
    this.#words.fill(0, at, at + queueOf.bytes / 4)
    this.#words[at + queueOf.leaders / 4] = place.leaders
    this.#words[at + queueOf.rank / 4] = place.rank
    this.writePointer(place.address + queueOf.blocks, place.blocks)
    this.writePointer(place.address + queueOf.times, place.times)
    for (let n = 0; n < ring; n++) {
      const block = (place.blocks + n * launch.bytes) >>> 2
      this.#words[block + launch.sequence / 4] = 0
      this.#words[block + launch.rank / 4] = place.rank
      this.#words[block + launch.ranks / 4] = place.ranks
      this.#words[block + launch.heapStride / 4] = place.heapStride
    }
  }

  /** How many launches were put in; wraps at 32 bits, as all numbers of launches do. */
  get head(): number {
    return this.#head
  }

  get completed(): number {
    return Atomics.load(this.#words, (this.address + queueOf.completed) >>> 2)
  }

  hasReached(sequence: number): boolean {
    return ((this.completed - sequence) | 0) >= 0
  }

  get isIdle(): boolean {
    return this.completed === this.#head
  }

  get isFull(): boolean {
    return ((this.#head - this.completed) | 0) >= ring
  }

  /** The host is about to sleep until so many are complete; before that nobody wakes it. */
  expect(sequence: number): void {
    this.#expected.push(sequence)
    this.#writeExpected()
  }

  expectNoMore(sequence: number): void {
    this.#expected.splice(this.#expected.indexOf(sequence), 1)
    this.#writeExpected()
  }

  #writeExpected(): void {
    const at = this.address >>> 2
    const { completed } = this
    const next = Math.min(...this.#expected.map((sequence) => (sequence - completed) | 0))
    if (this.#expected.length > 0)
      Atomics.store(this.#words, at + queueOf.awaited / 4, (completed + next) | 0)
    Atomics.store(this.#words, at + queueOf.awaiting / 4, this.#expected.length)
  }

  /** Write the next launch's header; no worker sees it before `publish`. Returns where its parameters go. */
  write({ executable, grid, leaders, counters, frameStride }: Block): number {
    const place = this.#head & (ring - 1)
    const address = this.#blocks + place * launch.bytes
    const block = address >>> 2
    const words = this.#words
    // A worker that has not noticed that the launch which was here is complete must not read half of another.
    Atomics.store(words, block + launch.sequence / 4, 0)
    Atomics.store(words, block + launch.executable / 4, executable)
    Atomics.store(words, block + launch.leaders / 4, leaders)
    words[block + launch.grid / 4] = grid
    words[block + launch.next / 4] = 0
    words[block + launch.finished / 4] = 0
    this.writePointer(address + launch.counters, counters)
    this.writePointer(address + launch.frames, this.frames ? this.frames.pointer : 0)
    words[block + launch.frameStride / 4] = frameStride
    this.#times[this.#timesAt + place * 2] = 0
    this.#times[this.#timesAt + place * 2 + 1] = 0
    Atomics.store(words, block + launch.sequence / 4, (this.#head + 1) | 0)
    return address + launch.params
  }

  /** Parameters as they were put together before; `address` is what `write` gave. */
  writeParams(address: number, image: Int32Array): void {
    const at = address >>> 2
    for (let word = 0; word < image.length; word++) this.#words[at + word] = image[word]
  }

  /** The launch that was written may run. */
  publish(
    kernel: string,
    executable: Executable | undefined,
    flags: Launched['flags'],
    grid: number,
    enqueued: number,
  ): Launched {
    const place = this.#head & (ring - 1)
    this.#head = (this.#head + 1) | 0
    const launched: Launched = {
      kernel,
      executable,
      flags,
      grid,
      given: undefined,
      enqueued,
      queue: this,
      sequence: this.#head,
      published: 0,
      start: 0,
      end: 0,
    }
    this.#launched[place] = launched
    this.last = launched
    Atomics.store(this.#words, (this.address + queueOf.head) >>> 2, this.#head)
    return launched
  }

  /** A worker had to be woken since the host last waited for this queue. */
  hasWoken = false

  /** Wake those who sleep among the workers of the first so many leaders and roles. */
  wake(leaders: number = Infinity, roles: number = Infinity): void {
    for (let n = 0; n < this.workers.length; n++) {
      const worker = this.workers[n]
      if (worker.leader >= leaders || worker.role >= roles) continue
      const asleep = (worker.slot + slotOf.asleep) >>> 2
      if (Atomics.load(this.#words, asleep) === 0) continue
      Atomics.store(this.#words, asleep, 0)
      Atomics.notify(this.#words, asleep)
      this.hasWoken = true
    }
  }

  /** Learn which launches have ended, and when. There is room in the ring for those that the host has yet to learn of. */
  settle(ended?: (launched: Launched) => void): void {
    const { completed } = this
    while (((completed - this.#settled) | 0) > 0) {
      const place = this.#settled & (ring - 1)
      const launched = this.#launched[place]
      launched.start = this.#times[this.#timesAt + place * 2]
      launched.end = this.#times[this.#timesAt + place * 2 + 1]
      this.#settled = (this.#settled + 1) | 0
      ended?.(launched)
    }
  }

  /** Launches that have not ended, oldest first: the first one runs, or would. */
  get pending(): Launched[] {
    const { completed } = this
    return Array.from(
      { length: (this.#head - completed) | 0 },
      (_, n) => this.#launched[(completed + n) & (ring - 1)],
    )
  }

  /** As if nothing had ever been launched. */
  clear(): void {
    this.#head = this.#settled = 0
    this.#launched.length = 0
    this.last = undefined
    const at = this.address >>> 2
    Atomics.store(this.#words, at + queueOf.head / 4, 0)
    Atomics.store(this.#words, at + queueOf.completed / 4, 0)
    for (let n = 0; n < ring; n++)
      Atomics.store(this.#words, (this.#blocks + n * launch.bytes + launch.sequence) >>> 2, 0)
  }

  close(): void {
    Atomics.store(this.#words, (this.address + queueOf.closing) >>> 2, 1)
  }

  writePointer(address: number, pointer: number): void {
    this.#words[address >>> 2] = (pointer % 2 ** 32) | 0
    this.#words[(address >>> 2) + 1] = Math.floor(pointer / 2 ** 32)
  }
}
