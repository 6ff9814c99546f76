/**
 * What is under a cuda world, without tensors: ranks and their heaps, queues, waiting, stopping, going on. Contract: nothing here
 * blocks on the device but `makeRoom`, which gives up; a world that is stopped throws a `WorldStopped` from every call until it is
 * reset.
 */
import { bytesText, Heap, mostAlignment } from '../../world/heap.ts'
import { Signallers } from '../../world/signallers.ts'
import { noRoom, nothingEnded, Stops } from '../../world/stops.ts'
import { limitsOf, Watchdog, type Limits } from '../../world/watchdog.ts'
import { WorldError, WorldStopped } from '../../world/world.ts'
import { abort, Controls } from './control.ts'
import { hostNow } from './clock.ts'
import { kernelOn, type Compile, type Executable } from './executables.ts'
import type { WorldFacts } from './facts.ts'
import { yieldToOthers } from './node.ts'
import { placeRanks, type Placement, type RankPlace } from './placement.ts'
import { mostUnderWay, Queue, type Part } from './queue.ts'
import { Recorder } from './recorder.ts'
import { DeviceError, type Device, type Kernel, type StreamEvent } from './device.ts'
import { doingsOf, type Doings } from './stopped.ts'
import { Settled, type Held } from './settled.ts'
import { CudaMemory } from './memory.ts'

/** Devices, and what makes machine code for them. */
export interface CudaPlatform {
  readonly devices: readonly Device[]
  readonly compile: Compile
}

export interface CudaWorldOptions {
  readonly ranks: number
  readonly heap?: number
  readonly timeout?: number
  /** Kernels write down what they do: see recording.ts. */
  readonly record?: boolean
  /** Of each rank, on a part of the first device; by default a device each, or an equal part. */
  readonly multiprocessors?: number
}

const defaultHeapBytes = 2 ** 30
/** How long nothing may end, in milliseconds: the host does not see what programs on a GPU do. */
const usualLimits: Limits = { waiting: 60_000, computing: 60_000, unknown: 60_000 }
/** Behind every rank's heap, for counters of kernels. */
const privateBytes = 2 ** 20
/** Of a rank's programs, those that can record what they waited for, for each multiprocessor; no more are launched. */
const programsAnSm = 16
/** Streams beyond these share hardware queues, and a launch may wait behind another that waits for it. */
const mostQueues = 32
/** How long kernels may take to notice that they were stopped, in milliseconds. */
const patience = 10_000
/** How long the host looks without letting anything else happen, in milliseconds. */
const spinning = 0.1

export class Machine {
  readonly platform: CudaPlatform
  readonly placement: Placement
  readonly memory: CudaMemory
  readonly #controls = new Map<Device, Controls>()
  /** Where the world records. */
  readonly recorder: Recorder | undefined
  readonly facts: WorldFacts
  readonly settled = new Settled()
  readonly signallers = new Signallers()
  /** A launch that does not start before another one has ended: see `Settled`. */
  #held: Held | undefined
  /** Called once nothing runs. */
  onIdle: () => void = () => {}
  /** Numbers of streams that something was launched on. */
  readonly #launching = new Set<number>()
  #launchedLast = -1
  /** Called before anything is enqueued by itself: what graphs left to be waited for. */
  beforeEnqueue: () => void = () => {}
  readonly #queues: Queue[] = []
  readonly #private = new Heap(privateBytes)
  readonly #counters = new Map<Executable, number[]>()
  readonly #watchdog: Watchdog
  readonly #timeout: number
  readonly #stops = new Stops()
  /** The device cannot be used any more. */
  #lost: string | undefined

  constructor(platform: CudaPlatform, options: CudaWorldOptions) {
    this.platform = platform
    const limits = limitsOf(options.timeout, usualLimits)
    this.#timeout = limits.unknown
    const { heap = defaultHeapBytes } = options
    if (!(heap > 0) || !Number.isFinite(heap)) throw new WorldError(`a heap of ${heap} bytes`)
    // What lies behind it is aligned as tensors are.
    const heapBytes = Math.ceil(heap / mostAlignment) * mostAlignment
    this.placement = this.#place(options, heapBytes)
    this.memory = new CudaMemory(this.placement, heapBytes)
    const most = Math.max(...this.placement.ranks.map(({ sms }) => sms))
    for (const { device } of this.placement.ranks)
      if (!this.#controls.has(device)) this.#controls.set(device, new Controls(device, most * programsAnSm))
    this.#watchdog = new Watchdog(limits, {
      pending: () => this.#lost === undefined && !this.isIdle,
      progress: () => (this.#lookQuietly() ? this.#queues.reduce((sum, queue) => sum + queue.settled, 0) : 0),
      activity: () => 'unknown',
      expired: () => void this.stop(`${nothingEnded(this.#timeout)}${this.#heldBack()}`),
    })
    const used = [...new Set(this.placement.ranks.map(({ device }) => device))]
    this.recorder = options.record ? new Recorder(used, platform.compile) : undefined
    const record = this.recorder !== undefined
    this.facts = { record, oneDevice: used.length === 1 }
    for (let rank = 0; rank < this.ranks; rank++) this.queue(rank, 0)
  }

  #place({ ranks, multiprocessors }: CudaWorldOptions, heapBytes: number): Placement {
    try {
      return placeRanks(this.platform.devices, ranks, heapBytes + privateBytes, multiprocessors)
    } catch (error) {
      if (error instanceof DeviceError)
        throw new WorldError(
          `a heap of ${bytesText(heapBytes)} on each of ${ranks} ranks cannot be had: ${error.message}`,
        )
      if (error instanceof RangeError) throw new WorldError(error.message)
      throw error
    }
  }

  // Memory

  get ranks(): number {
    return this.placement.ranks.length
  }

  place(rank: number): RankPlace {
    return this.placement.ranks[rank]
  }

  /** The kernel on a rank's device; loading it is one of the calls that may wait. */
  kernel(executable: Executable, rank: number): Kernel {
    const { device } = this.place(rank)
    const beforeLoading = (): void => this.quieten(`${executable.emitted.name} is new`)
    return kernelOn(device, executable, this.platform.compile, beforeLoading)
  }

  /** A kernel's counters on a queue, where one launch follows the other. */
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

  // Queues

  /** Control blocks for launches of a rank. */
  controls(rank: number): Controls {
    return this.#controls.get(this.place(rank).device)!
  }

  queue(rank: number, number: number): Queue {
    const known = this.#queues.find((queue) => queue.rank === rank && queue.number === number)
    if (known) return known
    const place = this.place(rank)
    const beside = this.#queues.filter((queue) => this.place(queue.rank).device === place.device)
    if (beside.length >= mostQueues)
      throw new WorldError(`there are ${mostQueues} streams of ranks already: use streams again`)
    this.quieten(`stream ${number} is new`)
    const controls = this.controls(rank)
    controls.reserve(mostUnderWay)
    const queue = new Queue(rank, number, place.createStream(), controls)
    this.#queues.push(queue)
    this.recorder?.attach(queue, place.device)
    return queue
  }

  /**
   * Before calls for which the driver may wait until no kernel runs, for ever if one waits for what is launched later: waits
   * itself, without letting anything else happen, and gives up.
   */
  quieten(why: string, advice = 'prepare kernels and make streams before'): void {
    const start = performance.now()
    this.#look(() => this.#queues.forEach((queue) => queue.mark()))
    while (this.#look(() => this.#queues.some((queue) => queue.settle() < queue.launched))) {
      if (performance.now() - start < this.#timeout) continue
      const reason = `${why}, and launches that were pending have not ended for ${this.#timeout} ms: ${advice}${this.#heldBack()}`
      void this.stop(reason)
      throw new WorldStopped(reason)
    }
    this.settled.clear()
  }

  /** Programs of a kernel that run at once on a rank. */
  resident(programsPerSm: number, rank: number): number {
    return Math.min(programsPerSm, programsAnSm) * this.place(rank).sms
  }

  /** All are started without waiting for any. */
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
   * Whether a launch may be made ready while the one before it ends: as long as all launches go to one stream. With several, it
   * would hold room that a launch of another stream needs, for which the one before may be waiting.
   */
  mayStartEarly(parts: readonly Part[]): boolean {
    for (const { queue } of parts)
      if (queue.number !== this.#launchedLast) this.#launching.add((this.#launchedLast = queue.number))
    return this.#launching.size === 1
  }

  /** Parts that write what is read early start, on their queues or on one, when it was read: see `Settled`. */
  holdBack(parts: readonly Part[], on?: Queue): void {
    const held = this.settled.holdBack(parts, on)
    if (held && (this.#held?.isOver() ?? true)) this.#held = held
  }

  /** What to do about a launch that was held back, if that is why nothing ends. */
  #heldBack(): string {
    if (this.#held?.isOver() ?? true) return ''
    const { writer, reader } = this.#held!
    return `; ${writer} writes on another rank or stream what ${reader} reads early, and starts when ${reader} has ended: if something waits for ${writer} before that, launch ${writer} before ${reader}`
  }

  /** Before the host writes a rank's copy of a tensor. */
  holdHostBack(memory: object, name: string, rank: number): void {
    if (this.settled.isReadEarly(memory, rank))
      this.quieten(`the host writes ${name}, which a launch reads early`, `write ${name} before that launch`)
  }

  /** Runs what enqueues these parts; a call of the driver that fails names their kernels. */
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

  /** Room for one more launch; waits, without letting anything else happen, if there is none. */
  makeRoom(queue: Queue): void {
    if (!queue.isFull) return
    const start = performance.now()
    const pending = queue.launched - queue.settled
    while (queue.isFull) {
      this.#look(() => queue.settle())
      if (performance.now() - start < this.#timeout) continue
      const reason = `${noRoom(this.#timeout, pending)}${this.#heldBack()}`
      void this.stop(reason)
      // Who was doing what is known a little later, when the host waits.
      throw new WorldStopped(reason)
    }
  }

  // Waiting

  /** Until the launches of these queues so far have ended; throws if the world has stopped, or stops meanwhile. */
  async reachQueues(queues: readonly Queue[] = this.#queues): Promise<void> {
    await this.#expectNotStopped()
    const from = hostNow()
    const goals = queues.map((queue) => queue.launched)
    this.#look(() => queues.forEach((queue) => queue.mark()))
    for (const [n, queue] of queues.entries()) await this.#until(() => queue.settle() >= goals[n])
    this.recorder?.recording.waited(from, hostNow())
    if (!this.isIdle) return
    this.settled.clear()
    this.recorder?.recording.collect()
    this.onIdle()
  }

  async reachEvents(events: readonly StreamEvent[]): Promise<void> {
    await this.#expectNotStopped()
    for (const event of events) await this.#until(() => event.isReached())
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

  /** Asks the device; a failure of some kernel comes to light here. */
  #look<T>(ask: () => T): T {
    try {
      return ask()
    } catch (error) {
      if (!(error instanceof DeviceError)) throw error
      const kernels = this.#queues.flatMap((queue) => queue.underWay.map(({ part }) => part.kernel.name))
      throw this.#lose(error, [...new Set(kernels)].join(', '))
    }
  }

  /** Whether the device answers; how far it has come is known then. Who waits next is told what is wrong. */
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

  // Stopping and going on

  expectRunning(): void {
    this.#stops.expectRunning()
  }

  /** As `expectRunning`; while the world stops it waits for what there is to tell. */
  async #expectNotStopped(): Promise<void> {
    if (this.#stops.isStopping) throw await this.#stops.throwable()
    this.expectRunning()
  }

  /** Stop all ranks; gives the error that tells about it, the same one however often it is called. */
  stop(reason: string): Promise<WorldStopped> {
    return this.#stops.stop(reason, () => this.#end(reason))
  }

  async #end(reason: string): Promise<WorldStopped> {
    const underWay = this.#queues.flatMap((queue) => queue.underWay)
    this.#watchdog.wait()
    const start = performance.now()
    let doings: Doings = { workers: [], signals: [] }
    try {
      // The last ones first: none that has not started yet begins to wait when the one before it ends.
      for (const { control } of [...underWay].reverse()) if (control) abort(control)
      for (const queue of this.#queues) queue.mark()
      while (this.#queues.some((queue) => queue.settle() < queue.launched)) {
        if (performance.now() - start > patience) {
          this.#lost = 'a kernel does not stop: it is in a loop that neither waits nor ends'
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
    return new WorldStopped(what, doings.workers, doings.signals)
  }

  /** After such an error no call of the driver works any more; gives what to throw. */
  #lose(error: DeviceError, kernels: string): WorldStopped {
    this.#lost = error.message
    return this.#stops.failed(
      `${kernels === '' ? '' : `while ${kernels} ran: `}${error.message}. This process cannot use the device any more`,
    )
  }

  /** After a stop, as if nothing had been launched yet. Otherwise waits for what was launched. */
  async reset(clear: () => void): Promise<void> {
    if (!this.#stops.isStopping) await this.reachQueues()
    const stopped = this.#stops.isStopping ? await this.#stops.throwable() : undefined
    if (this.#lost !== undefined) throw stopped!
    clear()
    for (let rank = 0; rank < this.ranks; rank++) this.#zero(rank, 0, this.#private.reached)
    this.recorder?.recording.clear()
    this.#stops.resume()
    this.settled.clear()
    this.onIdle()
  }

  /** Waits for what was launched; gives everything back, after what `release` does. */
  close(release: () => void): Promise<void> {
    return this.#stops.close(
      () => this.reachQueues(),
      () => {
        this.#watchdog.close()
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
