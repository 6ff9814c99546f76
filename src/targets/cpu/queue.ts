/**
 * Implements the host's side of a launch queue, which holds the launches of one stream on one rank. The host writes
 * launch blocks, wakes workers, and tracks which launches have ended and when.
 */
import type { Given } from '../../world/launchTraffic.ts'
import type { Members } from '../../world/members.ts'
import type { SymmetricFlags } from '../../world/world.ts'
import { launch, queue as queueOf, ring, slot as slotOf } from './abi.ts'
import type { Executable } from './executables.ts'
import type { Arena } from './pool.ts'
import type { Thread } from './threads.ts'

/** The host's record of a launch on one rank. */
export interface Launched {
  readonly kernel: string
  /** The kernel is undefined if the launch only waits for another queue or loads an executable. */
  readonly executable: Executable | undefined
  /** The flag-set arguments of the launch, by parameter. */
  readonly flags: Readonly<Record<string, SymmetricFlags>>
  /** The group on which the kernel was launched. Workers report ranks as numbers in this group. */
  readonly members: Members
  readonly grid: number
  /** The arguments of the launch. The arguments of a launch are stored only if the world records events. */
  given: Given | undefined
  readonly queue: Queue
  readonly sequence: number
  /**
   * The times of enqueuing, publishing, start and end, in nanoseconds. The times of a launch are 0 until they are
   * known.
   */
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
  /** True if the thread has died or was terminated. */
  dead: boolean
  /** The error message of the exception that the worker threw. */
  failure: string | undefined
}

/** The rank and the group of a launch, with ranks numbered as the kernel of the launch sees them. */
export interface Place {
  readonly rank: number
  readonly ranks: number
  readonly heapStride: number
  /** The distances of heaps in the group, if `heapStride` does not give them (`launch.heaps` in abi.ts). */
  readonly heaps: Int32Array | undefined
}

/** The contents of a launch block. */
export interface Block {
  readonly executable: number
  /** The executable is absent if the launch runs no kernel. */
  readonly place?: Place
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
  /** The counters of each executable, by the number of the executable. */
  readonly counters = new Map<number, { readonly pointer: number; readonly bytes: number }>()
  frames: { readonly pointer: number; readonly bytes: number } | undefined
  /**
   * The launches of the queue by their position in the ring. The host does not know yet whether launches after
   * `#settled` have ended.
   */
  readonly #launched: Launched[] = []
  #settled = 0
  /** The launch that was enqueued last. */
  last: Launched | undefined
  readonly #words: Int32Array
  readonly #times: Float64Array
  readonly #blocks: number
  readonly #timesAt: number
  #head = 0
  /** The numbers of the launches whose completion the host awaits while it sleeps. */
  readonly #expected: number[] = []

  constructor(
    arena: Arena,
    place: {
      readonly address: number
      readonly rank: number
      readonly stream: number
      readonly leaders: number
      readonly blocks: number
      readonly times: number
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
    }
  }

  /** The number of launches enqueued so far. All launch numbers wrap around at 32 bits. */
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

  /**
   * Announces that the host will sleep until launch `sequence` has completed. Launches before the awaited number do not
   * wake the host.
   */
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

  /**
   * Writes the next launch's header and returns the address of its parameters. Workers do not see a launch before
   * `publish` is called.
   */
  write({ executable, place: group, grid, leaders, counters, frameStride }: Block): number {
    const place = this.#head & (ring - 1)
    const address = this.#blocks + place * launch.bytes
    const block = address >>> 2
    const words = this.#words
    // A worker may not have noticed yet that the previous launch in the same block is complete. Workers must not read a
    // half-written launch header.
    Atomics.store(words, block + launch.sequence / 4, 0)
    Atomics.store(words, block + launch.executable / 4, executable)
    Atomics.store(words, block + launch.leaders / 4, leaders)
    words[block + launch.grid / 4] = grid
    if (group) {
      words[block + launch.rank / 4] = group.rank
      words[block + launch.ranks / 4] = group.ranks
      words[block + launch.heapStride / 4] = group.heapStride
      if (group.heaps) words.set(group.heaps, block + launch.heaps / 4)
    }
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

  /** Copies the prepared parameter words. The argument `address` is the result of `write`. */
  writeParams(address: number, image: Int32Array): void {
    const at = address >>> 2
    for (let word = 0; word < image.length; word++) this.#words[at + word] = image[word]
  }

  /** Makes the written launch visible to the workers. */
  publish(
    kernel: string,
    executable: Executable | undefined,
    flags: Launched['flags'],
    grid: number,
    enqueued: number,
    members?: Members,
  ): Launched {
    const place = this.#head & (ring - 1)
    this.#head = (this.#head + 1) | 0
    const launched: Launched = {
      kernel,
      executable,
      flags,
      members,
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

  /** True if a worker had to be woken since the host last waited for this queue. */
  hasWoken = false

  /** Wakes the sleeping workers among the first `leaders` leaders and `roles` roles. */
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

  /** Reads the times of launches that have ended. The ring keeps the times of a launch until the host has read them. */
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

  /** The launches that have not ended, oldest first. The first unfinished launch is running or runs next. */
  get pending(): Launched[] {
    const { completed } = this
    return Array.from(
      { length: (this.#head - completed) | 0 },
      (_, n) => this.#launched[(completed + n) & (ring - 1)],
    )
  }

  /** Resets the queue to its state before the first launch. */
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
