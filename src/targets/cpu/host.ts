/**
 * Implements the host's side of a CPU world, below the level of tensors: memory, queues and waiting. The file crew.ts
 * manages workers, stops.ts aborts and resumes, and table.ts holds executables.
 */
import { WorldError } from '../../world/world.ts'
import { control, launch, loadExecutable, queue as queueOf, ring } from './abi.ts'
import { Crew } from './crew.ts'
import { activityOf, doingsOf, progressOf, type Doings } from './faults.ts'
import type { Executable, Lower } from './executables.ts'
import type { Engine } from './executable.ts'
import { layoutOf, mostQueues, type Layout } from './layout.ts'
import { poolOf, type Arena, type Pool } from './pool.ts'
import { PrivateMemory } from './private.ts'
import { Queue, type Launched } from './queue.ts'
import { Recording } from './recording.ts'
import { CpuStops } from './stops.ts'
import { ExecutableTable } from './table.ts'
import type { Loader, Threads } from './threads.ts'
import { waitAsync } from './waitAsync.ts'
import type { OnPrint } from '../../world/prints.ts'
import { Signallers } from '../../world/signallers.ts'
import { nothingEnded, reportStall, stallOf, type Stall } from '../../world/stops.ts'
import { limitsOf, Watchdog, type Limits } from '../../world/watchdog.ts'

/**
 * The longest time that the host blocks its thread for a worker it has woken, in milliseconds. Node's event loop does
 * not run while the host blocks its thread. A time limit below one tick of the system clock would make the system set a
 * timer, which takes longer than an empty launch.
 */
const longestDoze = 4

/**
 * The longest time without progress if the user chose no timeout, in milliseconds. The host sees which programs wait
 * for a flag, so it can report a missing signal after a short time without ever stopping a long computation.
 */
const usualLimits: Limits = { waiting: 10_000, computing: Infinity, unknown: 60_000 }

/** The components of a CPU target. */
export interface CpuPlatform {
  readonly target: string
  readonly threads: Threads
  readonly engine: Engine
  readonly lower: Lower
  readonly loader: Loader
  /** The field `panelSteps` is described at `Device.panelSteps`. */
  readonly panelSteps: number
}

export interface HostOptions {
  readonly ranks: number
  readonly heap?: number
  readonly workers?: number
  readonly timeout?: number
  /**
   * A callback that is called when all programs have waited for some time; by default, the message is printed on
   * stderr.
   */
  readonly onStall?: (stall: Stall) => void
  /** The field `onPrint` is described at `OpenOptions.onPrint`. */
  readonly onPrint?: OnPrint
  readonly record?: boolean
}

export class Host {
  readonly platform: CpuPlatform
  readonly ranks: number
  /**
   * The number of leaders (threads that run programs) per queue, which is the number of programs that run concurrently
   * on a rank.
   */
  readonly workers: number
  readonly layout: Layout
  readonly arena: Arena
  readonly words: Int32Array
  readonly recording: Recording | undefined
  readonly executables: ExecutableTable
  readonly signallers = new Signallers()
  /** A callback that is called when no launch is running any more, and when the world is reset. */
  onIdle: () => void = () => {}
  readonly #pool: Pool
  readonly #private: PrivateMemory
  readonly #crew: Crew
  readonly #stops: CpuStops
  readonly #queues = new Map<number, Queue>()
  /** The values of `#queues` as an array, because every launch and every wait iterates over them. */
  readonly #everyQueue: Queue[] = []
  readonly #watchdog: Watchdog
  readonly #forget: () => void
  /**
   * The frames (private memory of programs) that larger frames have replaced. The memory of a replaced frame is freed
   * when no launch is running.
   */
  readonly #outgrown: number[] = []

  constructor(platform: CpuPlatform, options: HostOptions) {
    const { threads } = platform
    const { onStall = reportStall } = options
    this.platform = platform
    this.ranks = options.ranks
    this.workers = options.workers ?? Math.max(1, Math.floor(threads.cores / options.ranks))
    if (!Number.isInteger(this.workers) || this.workers < 1)
      throw new WorldError(
        `the workers option must be a positive integer (workers per rank); got ${options.workers}`,
      )
    const limits = limitsOf(options.timeout, usualLimits)
    this.layout = layoutOf(options.ranks, options.heap)
    this.#pool = poolOf(threads)
    this.arena = this.#pool.arena(this.layout.pages)
    this.words = this.arena.words
    this.words.fill(0, 0, control.bytes / 4)
    this.#private = new PrivateMemory(this.arena, this.layout)
    const record = options.record ?? false
    this.recording = record ? new Recording(this.arena.memory.buffer) : undefined
    const { arena, layout } = this
    this.executables = new ExecutableTable(platform, record, arena, layout, this.#private)
    this.#crew = new Crew({
      leaders: this.workers,
      platform,
      record,
      pool: this.#pool,
      arena,
      layout,
      private: this.#private,
    })
    this.#watchdog = new Watchdog(limits, {
      // While a worker thread is starting, the watchdog does not count the time without progress.
      pending: () => !this.isIdle && !this.#crew.isStarting,
      progress: () =>
        this.#everyQueue.reduce(
          (sum, queue) => sum + queue.completed,
          progressOf(this.words, this.#crew.workers),
        ),
      activity: () => activityOf(this.words, this.#crew.workers),
      expired: (limit) => void this.#stops.stopAll(nothingEnded(limit)),
      stalled: (waited, limit) => {
        const { workers, signals } = this.#doings()
        const stall = stallOf(waited, limit, workers, signals)
        if (stall) onStall(stall)
      },
    })
    this.#stops = new CpuStops(this.words, this.#crew, {
      wakeEverybody: () => this.#wakeEverybody(),
      doings: () => this.#doings(),
      hold: () => this.#watchdog.wait(),
      done: () => this.#watchdog.done(),
    })
    this.#forget = threads.onInterrupt(
      async () => void (await this.#stops.stopAll('interrupted')),
      () => this.#stops.abandon(),
    )
    for (let rank = 0; rank < this.ranks; rank++) this.queue(rank, 0)
  }

  #doings(): Doings {
    return doingsOf(this.words, this.#crew.workers, this.#everyQueue, this.signallers)
  }

  // Launch queues, and launches

  get isIdle(): boolean {
    const queues = this.#everyQueue
    for (let n = 0; n < queues.length; n++) if (!queues[n].isIdle) return false
    return true
  }

  queue(rank: number, stream: number): Queue {
    const key = stream * this.ranks + rank
    const known = this.#queues.get(key)
    if (known) return known
    if (this.#queues.size === mostQueues)
      throw new WorldError(`the world already has ${mostQueues} queues (ranks x streams): reuse streams`)
    const queue = new Queue(this.arena, {
      address: this.layout.queues + this.#queues.size * queueOf.bytes,
      rank,
      stream,
      leaders: this.workers,
      blocks: this.#private.take(ring * launch.bytes),
      times: this.#private.take(ring * 16),
    })
    this.#queues.set(key, queue)
    this.#everyQueue.push(queue)
    this.#crew.staff(queue, 1)
    return queue
  }

  /**
   * Provides the resources that launches of an executable need besides arguments: workers for its roles, frames,
   * counters.
   */
  equip(queue: Queue, { number, lowered }: Executable): { readonly counters: number } {
    this.#crew.staff(queue, lowered.roles)
    const bytes = lowered.frameBytes * this.workers
    if (!queue.frames || queue.frames.bytes < bytes) {
      // Earlier launches may still be running in the old frames (private memory of programs).
      if (queue.frames) this.#outgrown.push(queue.frames.pointer)
      queue.frames = { pointer: this.#private.take(Math.max(bytes, 64)), bytes }
    }
    let counters = queue.counters.get(number)
    if (!counters) {
      const size = Math.max(lowered.counterWords * 4, 64)
      queue.counters.set(number, (counters = { pointer: this.#private.take(size), bytes: size }))
    }
    return { counters: counters.pointer }
  }

  /**
   * Ensures that the queue has room for one more launch. If the queue is full, the event loop is blocked until a launch
   * has completed.
   */
  makeRoom(queue: Queue): void {
    if (queue.isFull) this.#blockUntilRoom(queue)
    this.settle(queue)
  }

  #blockUntilRoom(queue: Queue): void {
    const completed = (queue.address + queueOf.completed) >>> 2
    while (queue.isFull) {
      this.expectRunning()
      const value = queue.completed
      Atomics.add(this.words, (queue.address + queueOf.waiters) >>> 2, 1)
      this.platform.threads.block(this.words, completed, value, 5)
      Atomics.sub(this.words, (queue.address + queueOf.waiters) >>> 2, 1)
      this.#watchdog.look()
    }
  }

  settle(queue: Queue): void {
    queue.settle(this.recording ? this.#ended : undefined)
  }
  readonly #ended = (launched: Launched): void => this.recording!.ended(launched)

  launched(): void {
    this.#watchdog.launched()
  }

  /**
   * Makes all workers of the existing streams load the executable, so that its first launch does not wait for the
   * loading.
   */
  async handOut(executable: Executable): Promise<void> {
    for (const queue of this.#everyQueue) {
      this.makeRoom(queue)
      this.#crew.staff(queue, executable.lowered.roles)
      queue.write({
        executable: loadExecutable,
        grid: executable.number,
        leaders: this.workers,
        counters: 0,
        frameStride: 0,
      })
      const enqueued = this.recording ? this.platform.threads.now() : 0
      queue.publish('load', undefined, {}, 1, enqueued).published = enqueued
      queue.wake()
    }
    this.launched()
    await this.reachAll()
  }

  // Waiting for launches

  /**
   * Waits until all launches have ended. An error is thrown if the world has been aborted or is aborted during the
   * wait.
   */
  reachAll(): Promise<void> {
    return this.reachQueues(this.#everyQueue)
  }

  /** Waits until each queue has completed the given number of launches, or all launches so far. */
  async reachQueues(queues: readonly Queue[], sequences?: readonly number[]): Promise<void> {
    if (this.#stops.isStopping) throw await this.#stops.throwable()
    this.expectRunning()
    const start = this.recording ? this.platform.threads.now() : 0
    for (let n = 0; n < queues.length; n++) {
      const queue = queues[n]
      const sequence = sequences ? sequences[n] : queue.head
      if (!queue.hasReached(sequence)) this.#watch(queue, sequence)
      if (!queue.hasReached(sequence)) {
        await this.#sleepUntil(queue, sequence)
        // While the host slept, every worker that it had woken has had time to start.
        for (const other of queues) other.hasWoken = false
      }
      queue.hasWoken = false
      this.settle(queue)
    }
    const { isIdle } = this
    if (this.recording) {
      this.recording.waited(start, this.platform.threads.now())
      if (isIdle) this.recording.collect(this.#crew.workers)
    }
    if (isIdle) this.#idle()
  }

  #idle(): void {
    if (this.#outgrown.length > 0) for (const pointer of this.#outgrown.splice(0)) this.#private.free(pointer)
    this.onIdle()
  }

  /**
   * Waits briefly for a launch that ends soon, without returning to the event loop, because the event loop would take
   * longer.
   */
  #watch(queue: Queue, sequence: number): void {
    if (queue.hasWoken) return this.#doze(queue, sequence)
    for (let spins = this.#crew.hostSpins; spins > 0 && !queue.hasReached(sequence); spins--)
      if (Atomics.load(this.words, control.abort >>> 2) !== 0) return
  }

  /**
   * Blocks this thread, to give up its core. The operating system may have placed the woken worker on this thread's
   * core, and the worker cannot start on this core while this thread spins. If more than one launch has not completed,
   * this function returns at once.
   */
  #doze(queue: Queue, sequence: number): void {
    const waiters = (queue.address + queueOf.waiters) >>> 2
    Atomics.add(this.words, waiters, 1)
    const completed = (queue.address + queueOf.completed) >>> 2
    this.platform.threads.block(this.words, completed, (sequence - 1) | 0, longestDoze)
    Atomics.sub(this.words, waiters, 1)
  }

  async #sleepUntil(queue: Queue, sequence: number): Promise<void> {
    this.#watchdog.wait()
    queue.expect(sequence)
    try {
      for (;;) {
        if (this.#stops.isStopping) throw await this.#stops.throwable()
        const value = queue.completed
        if (((value - sequence) | 0) >= 0) return
        const wait = waitAsync(this.words, (queue.address + queueOf.completed) >>> 2, value)
        if (wait.async) await wait.value
      }
    } finally {
      queue.expectNoMore(sequence)
      this.#watchdog.done()
    }
  }

  expectRunning(): void {
    this.#stops.expectRunning()
  }

  #wakeEverybody(): void {
    for (const queue of this.#everyQueue) {
      queue.wake()
      Atomics.notify(this.words, (queue.address + queueOf.completed) >>> 2)
    }
    Atomics.notify(this.words, control.abort >>> 2)
  }

  // Resetting and closing a world

  /**
   * After an abort, resets the world to the state before its first launch. If the world was not aborted, the function
   * waits for all launches.
   */
  async reset(clear: () => void): Promise<void> {
    const { isStopping } = this.#stops
    if (isStopping) await this.#stops.throwable()
    else await this.reachAll()
    clear()
    for (const { counters } of this.#everyQueue)
      for (const { pointer, bytes } of counters.values()) this.#private.zero(pointer, bytes)
    if (!isStopping) return
    for (const queue of this.#everyQueue) {
      queue.clear()
      if (queue.frames) this.#private.zero(queue.frames.pointer, queue.frames.bytes)
    }
    this.#idle()
    this.#stops.resume()
  }

  /** Waits for all launches, calls `release`, and returns threads and memory to the pool. */
  close(release: () => void, heapReached: number): Promise<void> {
    return this.#stops.close(
      () => this.reachAll(),
      () => {
        release()
        return this.#release(heapReached)
      },
    )
  }

  async #release(heapReached: number): Promise<void> {
    this.#forget()
    this.#watchdog.wait()
    for (const queue of this.#everyQueue) queue.close()
    Atomics.add(this.words, control.generation >>> 2, 1)
    Atomics.notify(this.words, control.generation >>> 2)
    this.#wakeEverybody()
    const everybody = await this.#crew.leave()
    this.#watchdog.done()
    this.#watchdog.close()
    this.arena.used = Math.max(this.arena.used, this.arena.privateReached + this.ranks * heapReached)
    if (everybody) this.#pool.giveBackArena(this.arena)
  }
}
