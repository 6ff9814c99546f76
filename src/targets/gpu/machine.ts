/**
 * Implements the functions of a world on GPUs that do not involve tensors: ranks and their heaps, queues, waiting,
 * aborting and resetting. Contract: only `makeRoom` and `quieten` block on the device, and both give up after the
 * world's timeout. After the world is aborted, every call throws a `WorldStopped` until the world is reset.
 */
import { bytesText, Heap, mostAlignment } from '../../world/heap.ts'
import type { OnPrint } from '../../world/prints.ts'
import { Signallers } from '../../world/signallers.ts'
import { noRoom, nothingEnded, Stops } from '../../world/stops.ts'
import { limitsOf, Watchdog, type Limits } from '../../world/watchdog.ts'
import { WorldError, WorldStopped, type StoppedWorker } from '../../world/world.ts'
import { onInterrupt } from '../interrupts.ts'
import { abort, Controls } from './control.ts'
import { hostNow } from './clock.ts'
import type { Executable } from './executables.ts'
import { kernelOn } from './kernels.ts'
import { placeRanks, type Placement, type RankPlace } from './placement.ts'
import type { Emitted, Platform, WorldFacts } from './platform.ts'
import { mostUnderWay, Queue, type Part, type Step } from './queue.ts'
import { Recorder } from './recorder.ts'
import { DeviceError, type Device, type Kernel, type StreamEvent } from './device.ts'
import { doingsOf, failedProgram, type Doings } from './stopped.ts'
import { Settled, type Held } from './settled.ts'
import { GpuMemory } from './memory.ts'

export interface GpuWorldOptions {
  readonly ranks: number
  readonly heap?: number
  readonly timeout?: number
  /** A callback for each line that a kernel prints (see `OpenOptions.onPrint`). */
  readonly onPrint?: OnPrint
  /** If true, kernels record their events in a log (recording.ts). */
  readonly record?: boolean
  /**
   * The number of multiprocessors per rank, on the first device. By default, each rank has its own device, or an equal
   * share of the first device.
   */
  readonly multiprocessors?: number
}

const defaultHeapBytes = 2 ** 30
/**
 * The time in milliseconds after which a world is stopped if no launch has ended. The host cannot see what programs on
 * a GPU are doing.
 */
const usualLimits: Limits = { waiting: 60_000, computing: 60_000, unknown: 60_000 }
/** The number of bytes after every rank's heap that are reserved for counters of kernels. */
const privateBytes = 2 ** 20
/**
 * The maximum number of programs per multiprocessor in a launch with waits, because each such program needs a wait
 * record.
 */
export const programsAProcessor = 16
/**
 * The number of hardware queues that the driver is asked to use. If a world had more streams than hardware queues, a
 * launch could be queued behind another launch that waits for it.
 */
const mostQueues = 32
/** The time in milliseconds within which kernels have to end after an abort. */
const patience = 10_000
/** The time in milliseconds for which the host polls without yielding to the event loop of Node. */
const spinning = 0.1

/** Yields to the event loop of Node. */
const yieldToOthers = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

export class Machine {
  readonly platform: Platform
  readonly placement: Placement
  readonly memory: GpuMemory
  readonly #controls = new Map<Device, Controls>()
  /** The recorder of the world; undefined if the world does not record. */
  readonly recorder: Recorder | undefined
  readonly facts: WorldFacts
  readonly settled = new Settled()
  readonly signallers = new Signallers()
  /** A launch that must not start before another launch has ended (see `Settled`). */
  #held: Held | undefined
  /** A callback that is called when all launches have ended. */
  onIdle: () => void = () => {}
  /** The numbers of the streams on which kernels were launched. */
  readonly #launching = new Set<number>()
  #launchedLast = -1
  /**
   * A callback that the machine calls before each launch outside of a graph. The callback makes the launch wait for
   * earlier graphs.
   */
  beforeEnqueue: () => void = () => {}
  readonly #queues: Queue[] = []
  readonly #private = new Heap(privateBytes)
  readonly #counters = new Map<Executable, number[]>()
  readonly #watchdog: Watchdog
  readonly #timeout: number
  readonly #stops = new Stops()
  /** The programs in which an assertion failed since the last reset. */
  readonly #failures: StoppedWorker[] = []
  /** Removes the world's handlers for process signals and for the exit of the process. */
  readonly #forget: () => void
  /** The reason why this process can no longer use the device; undefined while the device works. */
  #lost: string | undefined

  constructor(platform: Platform, options: GpuWorldOptions) {
    this.platform = platform
    const limits = limitsOf(options.timeout, usualLimits)
    this.#timeout = limits.unknown
    const { heap = defaultHeapBytes } = options
    if (!(heap > 0) || !Number.isFinite(heap))
      throw new WorldError(`a heap of ${heap} bytes is invalid: the size must be a positive, finite number`)
    // The memory after the heap must have the same alignment as a tensor.
    const heapBytes = Math.ceil(heap / mostAlignment) * mostAlignment
    this.placement = this.#place(options, heapBytes)
    this.memory = new GpuMemory(this.placement, heapBytes)
    const most = Math.max(...this.placement.ranks.map(({ processors }) => processors))
    for (const { device } of this.placement.ranks)
      if (!this.#controls.has(device))
        this.#controls.set(device, new Controls(device, most * programsAProcessor))
    this.#watchdog = new Watchdog(limits, {
      pending: () => this.#lost === undefined && !this.isIdle,
      progress: () => (this.#lookQuietly() ? this.#queues.reduce((sum, queue) => sum + queue.settled, 0) : 0),
      activity: () => 'unknown',
      expired: () => void this.stop(`${nothingEnded(this.#timeout)}${this.#heldBack()}`),
    })
    const used = [...new Set(this.placement.ranks.map(({ device }) => device))]
    this.recorder = options.record ? new Recorder(used, platform) : undefined
    const record = this.recorder !== undefined
    const [{ warp, sharedBytes, perProcessor }] = used
    this.facts = { record, oneDevice: used.length === 1, device: { warp, sharedBytes, perProcessor } }
    for (let rank = 0; rank < this.ranks; rank++) this.queue(rank, 0)
    this.#forget = onInterrupt(
      async () => void (await this.stop('interrupted')),
      () => this.#abandon(),
    )
  }

  #place({ ranks, multiprocessors }: GpuWorldOptions, heapBytes: number): Placement {
    try {
      return placeRanks(this.platform.devices, ranks, heapBytes + privateBytes, multiprocessors)
    } catch (error) {
      if (error instanceof DeviceError)
        throw new WorldError(
          `a heap of ${bytesText(heapBytes)} on each of ${ranks} ranks cannot be allocated: ${error.message}`,
        )
      if (error instanceof RangeError) throw new WorldError(error.message)
      throw error
    }
  }

  // Memory of the world

  get ranks(): number {
    return this.placement.ranks.length
  }

  place(rank: number): RankPlace {
    return this.placement.ranks[rank]
  }

  /** Returns the kernel on a rank's device. Loading a new kernel may block until no kernel runs. */
  kernel(emitted: Emitted, rank: number): Kernel {
    const { device } = this.place(rank)
    const beforeLoading = (): void => this.quieten(`kernel ${emitted.name} has to be loaded`)
    return kernelOn(device, emitted, this.platform, beforeLoading)
  }

  /**
   * Returns the address of a kernel's counters on a queue. Launches of one queue run one after the other, so they can
   * share counters.
   */
  counters(queue: Queue, executable: Executable): bigint {
    if (executable.counterWords === 0) return 0n
    let offsets = this.#counters.get(executable)
    if (!offsets) this.#counters.set(executable, (offsets = []))
    const offset = (offsets[queue.number] ??= this.#allocateZeroed(4 * executable.counterWords))
    return this.memory.address(queue.rank, this.memory.bytes + offset)
  }

  #allocateZeroed(bytes: number): number {
    const offset = this.#private.allocate(bytes)
    for (let rank = 0; rank < this.ranks; rank++) this.#zero(rank, offset, bytes)
    return offset
  }

  #zero(rank: number, offset: number, bytes: number): void {
    this.memory.fill(rank, this.memory.bytes + offset, 'u8', bytes, 0)
  }

  // Launch queues

  /** Returns the control blocks of a rank's device. */
  controls(rank: number): Controls {
    return this.#controls.get(this.place(rank).device)!
  }

  queue(rank: number, number: number): Queue {
    const known = this.#queues.find((queue) => queue.rank === rank && queue.number === number)
    if (known) return known
    const place = this.place(rank)
    const beside = this.#queues.filter((queue) => this.place(queue.rank).device === place.device)
    if (beside.length >= mostQueues)
      throw new WorldError(
        `this device already has ${mostQueues} streams over all ranks, which is the limit: reuse streams`,
      )
    this.quieten(`stream ${number} has to be created`)
    const controls = this.controls(rank)
    controls.reserve(mostUnderWay)
    const queue = new Queue(rank, number, place.createStream(), controls)
    queue.onFailure = (step, failure) => this.#failed(failedProgram(step, failure))
    this.#queues.push(queue)
    this.recorder?.attach(queue, place.device)
    return queue
  }

  /**
   * Waits until no kernel runs. The machine calls `quieten` before a driver call that blocks until no kernel runs. Such
   * a driver call would block forever if a running kernel waits for a later launch, whereas `quieten` aborts the world
   * after the timeout. While `quieten` waits, it does not yield to the event loop of Node.
   */
  quieten(why: string, advice = 'prepare kernels and create streams before launching'): void {
    const start = performance.now()
    this.#look(() => this.#queues.forEach((queue) => queue.mark()))
    while (this.#look(() => this.#queues.some((queue) => queue.settle() < queue.launched))) {
      if (performance.now() - start < this.#timeout) continue
      const reason = `${why}, but earlier launches have not ended within ${this.#timeout} ms: ${advice}${this.#heldBack()}`
      void this.stop(reason)
      throw new WorldStopped(reason)
    }
    this.settled.clear()
  }

  /** Enqueues the launches of all ranks without waiting for any of them. */
  enqueue(parts: readonly Part[]): void {
    this.expectRunning()
    this.beforeEnqueue()
    const from = this.recorder ? hostNow() : 0
    const early = this.mayStartEarly(parts)
    for (const part of parts) this.makeRoom(part.queue)
    try {
      this.holdBack(parts)
      this.settled.tell(parts, early)
      for (const part of parts) {
        const step = part.queue.enqueue(part, early)
        this.recorder?.enqueued(step, from)
      }
    } catch (error) {
      throw this.#refused(parts, error)
    }
    this.#watchdog.launched()
  }

  /**
   * True if a launch may start before the previous kernel on its stream has ended (`Launch.on`). An early start is
   * allowed while all launches use the same stream number. If launches used several streams, the early launch would
   * occupy resources that a launch on another stream needs, and the previous kernel may wait for that other launch.
   */
  mayStartEarly(parts: readonly Part[]): boolean {
    for (const { queue } of parts)
      if (queue.number !== this.#launchedLast) this.#launching.add((this.#launchedLast = queue.number))
    return this.#launching.size === 1
  }

  /**
   * Delays launches that write a tensor until every early reader of the tensor has ended (a launch that can read the
   * tensor before the previous kernel on its stream has ended). Each delayed launch is on the queue of its own stream
   * and rank, or all are on the queue `on`. The class `Settled` explains the delay.
   */
  holdBack(parts: readonly Part[], on?: Queue): void {
    const held = this.settled.holdBack(parts, on)
    if (held && (this.#held?.isOver() ?? true)) this.#held = held
  }

  /**
   * Returns a sentence that explains why a launch is being delayed and how to resolve the delay, or '' if no launch is
   * being delayed.
   */
  #heldBack(): string {
    if (this.#held?.isOver() ?? true) return ''
    const { writer, reader } = this.#held!
    return `; ${writer} writes, on another rank or stream, a tensor that ${reader} reads early, so ${writer} starts after ${reader} has ended: if ${reader} or a kernel before it waits for ${writer}, launch ${writer} before ${reader}`
  }

  /**
   * The host must call `holdHostBack` before it writes a rank's copy of a tensor. If a running launch may read the
   * tensor before the previous kernel on its stream has ended, the function waits until no kernel runs.
   */
  holdHostBack(memory: object, name: string, rank: number): void {
    if (this.settled.isReadEarly(memory, rank))
      this.quieten(
        `the host writes ${name}, which an earlier launch may still read`,
        `write ${name} before that launch`,
      )
  }

  /**
   * Calls `call`, which enqueues the given launches. If a driver call fails, the error names the kernels that were
   * being launched.
   */
  started(parts: readonly Part[], call: () => void): void {
    try {
      call()
    } catch (error) {
      throw this.#refused(parts, error)
    }
    this.#watchdog.launched()
  }

  #refused(parts: readonly Part[], error: unknown): unknown {
    if (!(error instanceof DeviceError)) return error
    return this.#lose(error, [...new Set(parts.map(({ kernel }) => kernel.name))].join(', '))
  }

  /**
   * Ensures that the queue can take one more launch. If the queue is full, the function waits without yielding to the
   * event loop.
   */
  makeRoom(queue: Queue): void {
    if (!queue.isFull) return
    const start = performance.now()
    const pending = queue.launched - queue.settled
    while (queue.isFull) {
      this.#look(() => queue.settle())
      if (performance.now() - start < this.#timeout) continue
      const reason = `${noRoom(this.#timeout, pending)}${this.#heldBack()}`
      void this.stop(reason)
      // The states of the programs are not known when a launch fails. A later `synchronize` throws an error with the
      // states of the programs.
      throw new WorldStopped(reason)
    }
  }

  // Waiting for launches

  /**
   * Waits until all launches that are enqueued so far on the given queues have ended. An error is thrown if the world
   * is aborted before or during the wait.
   */
  async reachQueues(queues: readonly Queue[] = this.#queues): Promise<void> {
    await this.#expectNotStopped()
    const from = hostNow()
    const goals = queues.map((queue) => queue.launched)
    this.#look(() => queues.forEach((queue) => queue.mark()))
    for (const [n, queue] of queues.entries()) await this.#until(() => queue.settle() >= goals[n])
    await this.#expectNotStopped()
    this.recorder?.recording.waited(from, hostNow())
    if (!this.isIdle) return
    this.settled.clear()
    this.recorder?.recording.collect()
    this.onIdle()
  }

  async reachEvents(events: readonly StreamEvent[]): Promise<void> {
    await this.#expectNotStopped()
    for (const event of events) await this.#until(() => event.isReached())
    await this.#expectNotStopped()
  }

  async #until(isDone: () => boolean): Promise<void> {
    const start = performance.now()
    do if (this.#look(isDone)) return
    while (performance.now() - start < spinning)
    this.#watchdog.wait()
    try {
      for (;;) {
        if (this.#stops.isStopping) throw await this.#stops.throwable()
        if (this.#look(isDone)) return
        await yieldToOthers()
      }
    } finally {
      this.#watchdog.done()
    }
  }

  /**
   * Calls a function that queries the device, and handles the failure of a kernel. If a kernel has failed, the driver
   * reports the failure when the host queries the device.
   */
  #look<T>(ask: () => T): T {
    try {
      return ask()
    } catch (error) {
      if (!(error instanceof DeviceError)) throw error
      const kernels = this.#queues.flatMap((queue) => queue.underWay.map(({ part }) => part.kernel.name))
      throw this.#lose(error, [...new Set(kernels)].join(', '))
    }
  }

  /**
   * Polls the progress of all queues. The result is false if the device has failed. The next caller that waits for
   * launches gets the error of the device.
   */
  #lookQuietly(): boolean {
    try {
      this.#look(() => this.#queues.forEach((queue) => queue.mark()))
      this.#look(() => this.#queues.forEach((queue) => queue.settle()))
      return true
    } catch (error) {
      if (error instanceof WorldStopped) return false
      throw error
    }
  }

  get isIdle(): boolean {
    return this.#queues.every((queue) => queue.settled === queue.launched)
  }

  // Aborting and resuming a world

  expectRunning(): void {
    this.#stops.expectRunning()
  }

  /**
   * Throws an error unless the world is running. If the world is being aborted, the function first waits for the
   * complete error with the state of each program.
   */
  async #expectNotStopped(): Promise<void> {
    if (this.#stops.isStopping) throw await this.#stops.throwable()
    this.expectRunning()
  }

  /**
   * Aborts all ranks and returns the error that describes the abort. Repeated calls of `stop` return the same error.
   */
  stop(reason: string): Promise<WorldStopped> {
    return this.#stops.stop(reason, () => this.#end(reason))
  }

  #failed(worker: StoppedWorker): void {
    this.#failures.push(worker)
    void this.stop('a kernel raised a fault')
  }

  async #end(reason: string): Promise<WorldStopped> {
    const underWay = this.#queues.flatMap((queue) => queue.underWay)
    this.#watchdog.wait()
    const start = performance.now()
    let doings: Doings = { workers: [], signals: [] }
    try {
      abortAll(underWay)
      for (const queue of this.#queues) queue.mark()
      while (this.#queues.some((queue) => queue.settle() < queue.launched)) {
        if (performance.now() - start > patience) {
          this.#lost = 'a kernel does not stop: it runs a loop that neither waits nor ends'
          break
        }
        await yieldToOthers()
      }
      doings = doingsOf(underWay, this.signallers)
      for (const controls of this.#controls.values()) controls.clear()
    } catch (error) {
      this.#lost = (error as Error).message
    }
    this.#watchdog.done()
    const what = this.#lost === undefined ? reason : `${reason}; ${this.#lost}`
    return new WorldStopped(what, [...this.#failures, ...doings.workers], doings.signals)
  }

  /**
   * The handler for the exit of the process aborts all kernels. When the driver releases the device, the driver may
   * wait for running kernels, so all kernels must return.
   */
  #abandon(): void {
    if (this.#lost !== undefined || this.#stops.isStopping || this.isIdle) return
    try {
      abortAll(this.#queues.flatMap((queue) => queue.underWay))
    } catch {
      // After a failure of the device, no kernel runs any more. While the process exits, no caller can receive an
      // error.
    }
  }

  /**
   * Handles a driver error after which no driver call works any more. The function returns the error that the caller
   * should throw.
   */
  #lose(error: DeviceError, kernels: string): WorldStopped {
    this.#lost = error.message
    return this.#stops.failed(
      `${kernels === '' ? '' : `while ${kernels} ran: `}${error.message}. This process cannot use the device any more`,
    )
  }

  /**
   * Restores the state before the first launch, so that the world can be used after an abort. If the world was not
   * aborted, the function first waits until all launches have ended.
   */
  async reset(clear: () => void): Promise<void> {
    if (!this.#stops.isStopping) await this.reachQueues()
    const stopped = this.#stops.isStopping ? await this.#stops.throwable() : undefined
    if (this.#lost !== undefined) throw stopped!
    clear()
    for (let rank = 0; rank < this.ranks; rank++) this.#zero(rank, 0, this.#private.reached)
    this.recorder?.recording.clear()
    this.#failures.length = 0
    this.#stops.resume()
    this.settled.clear()
    this.onIdle()
  }

  /** Waits until all launches have ended, calls `release` and then frees all resources. */
  close(release: () => void): Promise<void> {
    return this.#stops.close(
      () => this.reachQueues(),
      () => {
        this.#watchdog.close()
        this.#forget()
        if (this.#lost !== undefined) return
        release()
        for (const queue of this.#queues) queue.close()
        this.recorder?.close()
        for (const controls of this.#controls.values()) controls.close()
        this.placement.close()
      },
    )
  }
}

/**
 * Aborts launches in reverse order of their enqueueing. If the oldest launch were aborted first, a later launch that
 * has not started yet could start and wait.
 */
function abortAll(underWay: readonly Step[]): void {
  for (const { control } of [...underWay].reverse()) if (control) abort(control)
}
