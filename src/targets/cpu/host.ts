/**
 * The host's side of a CPU world's machinery, without tensors: memory, queues, workers, waiting, stopping and starting again.
 *
 * Stopping: somebody sets the abort word (the watchdog, a kernel's fault, a worker that threw, an interrupt); every worker parks
 * and says so; one that does not within a second is ended. What they were doing becomes a `WorldStopped`, which every call
 * throws until `reset`.
 */
import type { KernelIR } from '../../ir/node.ts'
import { Heap } from '../../world/heap.ts'
import { WorldError, WorldStopped } from '../../world/world.ts'
import {
  control,
  event as eventOf,
  executable,
  launch,
  mostExecutables,
  queue as queueOf,
  ring,
  slot,
  stopReason,
  workerState,
} from './abi.ts'
import { compile, type Compiled, type Executable, type Lower } from './executables.ts'
import type { Engine } from './executable.ts'
import { stoppedWorkers } from './faults.ts'
import { layoutOf, mostQueues, mostSlots, type Layout } from './layout.ts'
import { poolOf, type Arena, type Pool } from './pool.ts'
import { Queue, type Worker } from './queue.ts'
import { eventCapacity, Recording } from './recording.ts'
import type { Loader, Threads } from './threads.ts'
import { Watchdog } from './watchdog.ts'

/** What a CPU target is made of. */
export interface CpuPlatform {
  readonly target: string
  readonly threads: Threads
  readonly engine: Engine
  readonly lower: Lower
  readonly loader: Loader
}

export interface HostOptions {
  readonly ranks: number
  readonly heap?: number
  readonly workers?: number
  readonly timeout?: number
  readonly record?: boolean
}

/** How long a worker has to stop, and one that has not started yet to start, in milliseconds. */
const patience = { stop: 1000, start: 30_000 }

type AsyncWait = (
  words: Int32Array,
  index: number,
  value: number,
  timeout?: number,
) => { readonly async: false } | { readonly async: true; readonly value: Promise<'ok' | 'timed-out'> }
const waitAsync = (Atomics as unknown as { readonly waitAsync: AsyncWait }).waitAsync.bind(Atomics)

export class Host {
  readonly platform: CpuPlatform
  readonly ranks: number
  /** Leaders of every queue: programs of a rank that run at once. */
  readonly workers: number
  readonly layout: Layout
  readonly arena: Arena
  readonly words: Int32Array
  readonly recording: Recording | undefined
  /** Called once nothing runs, and when the world is reset. */
  onIdle: () => void = () => {}
  readonly #pool: Pool
  readonly #private: Heap
  readonly #queues = new Map<number, Queue>()
  readonly #executables = new Map<KernelIR, Map<string, Executable>>()
  #executableCount = 0
  readonly #watchdog: Watchdog
  readonly #timeout: number
  readonly #forget: () => void
  /** Frames that larger ones have replaced, to be freed when nothing runs. */
  readonly #outgrown: number[] = []
  #slots = 0
  /** When a thread was last told to serve. */
  #assigned = 0
  #stopping: Promise<WorldStopped> | undefined
  #stopped: WorldStopped | undefined
  #closed = false

  constructor(platform: CpuPlatform, options: HostOptions) {
    const { threads } = platform
    this.platform = platform
    this.ranks = options.ranks
    this.workers = options.workers ?? Math.max(1, Math.floor(threads.cores / options.ranks))
    if (!Number.isInteger(this.workers) || this.workers < 1)
      throw new WorldError(`${options.workers} workers a rank: one or more`)
    this.layout = layoutOf(options.ranks, options.heap)
    this.#pool = poolOf(threads)
    this.arena = this.#pool.arena(this.layout.pages)
    this.words = this.arena.words
    this.#private = new Heap(this.layout.privateBytes)
    this.recording = options.record ? new Recording(this.arena.memory.buffer) : undefined
    this.#timeout = options.timeout ?? 60_000
    if (!(this.#timeout > 0)) throw new WorldError(`a timeout of ${options.timeout} ms`)
    this.#watchdog = new Watchdog(this.#timeout, {
      // A thread that is still starting is not stuck.
      pending: () => !this.isIdle && !this.#isStarting,
      progress: () => {
        let sum = 0
        for (const queue of this.#queues.values()) sum += queue.completed
        return sum
      },
      expired: () => void this.stop(`nothing has ended for ${this.#timeout} ms while launches were pending`),
    })
    this.words.fill(0, 0, control.bytes / 4)
    this.#forget = threads.onInterrupt(async () => void (await this.stop('interrupted')))
    for (let rank = 0; rank < this.ranks; rank++) this.queue(rank, 0)
    this.#watchAbort()
  }

  // Memory

  /** Bytes of the private region, all zero. */
  #take(bytes: number): number {
    const offset = this.#private.allocate(bytes)
    const dirty = Math.min(offset + bytes, this.arena.privateReached) - offset
    const pointer = this.layout.private + offset
    if (dirty > 0) new Uint8Array(this.arena.memory.buffer, pointer, dirty).fill(0)
    this.arena.privateReached = Math.max(this.arena.privateReached, offset + bytes)
    return pointer
  }

  // Queues and workers

  get isIdle(): boolean {
    for (const queue of this.#queues.values()) if (!queue.isIdle) return false
    return true
  }

  queues(): Iterable<Queue> {
    return this.#queues.values()
  }

  *#everyWorker(): Generator<Worker> {
    for (const queue of this.#queues.values()) yield* queue.workers
  }

  queue(rank: number, stream: number): Queue {
    const key = stream * this.ranks + rank
    const known = this.#queues.get(key)
    if (known) return known
    if (this.#queues.size === mostQueues)
      throw new WorldError(`there are ${mostQueues} streams of ranks already: use streams again`)
    const queue = new Queue(this.arena, {
      address: this.layout.queues + this.#queues.size * queueOf.bytes,
      rank,
      ranks: this.ranks,
      stream,
      leaders: this.workers,
      blocks: this.#take(ring * launch.bytes),
      times: this.#take(ring * 16),
      heapStride: this.layout.heapBytes / 65536,
    })
    this.#queues.set(key, queue)
    this.#staff(queue, 1)
    return queue
  }

  /** Start the workers of a queue's roles that it does not have yet. */
  #staff(queue: Queue, roles: number): void {
    const present = queue.workers.length / this.workers
    if (present >= roles) return
    for (let role = present; role < roles; role++)
      for (let leader = 0; leader < this.workers; leader++) {
        if (this.#slots === mostSlots) throw new WorldError(`a world has at most ${mostSlots} workers`)
        const worker: Worker = {
          queue,
          slot: this.layout.slots + this.#slots++ * slot.bytes,
          leader,
          role,
          thread: this.#pool.thread(),
          dead: false,
          failure: undefined,
        }
        this.#clearSlot(worker)
        if (this.recording) {
          queue.writePointer(worker.slot + slot.events, this.#take(eventCapacity * eventOf.bytes))
          this.words[(worker.slot + slot.eventCapacity) >>> 2] = eventCapacity
        }
        queue.workers.push(worker)
        this.#assign(worker)
      }
    this.#adaptSpinning()
  }

  #clearSlot({ slot: at }: Worker): void {
    const { words } = this
    const kept = [slot.events, slot.events + 4, slot.eventCapacity].map((field) => words[(at + field) >>> 2])
    words.fill(0, at >>> 2, (at + slot.bytes) >>> 2)
    if (!this.recording) return
    ;[slot.events, slot.events + 4, slot.eventCapacity].forEach(
      (field, i) => (words[(at + field) >>> 2] = kept[i]),
    )
  }

  get #isStarting(): boolean {
    if (performance.now() - this.#assigned > patience.start) return false
    for (const { slot: at, dead } of this.#everyWorker())
      if (!dead && Atomics.load(this.words, (at + slot.state) >>> 2) === workerState.starting) return true
    return false
  }

  #assign(worker: Worker): void {
    this.#assigned = performance.now()
    const { thread, queue, leader, role } = worker
    thread.onFailure = ({ slot: at, text }) => {
      for (const other of this.#everyWorker()) if (other.slot === at) other.failure = text
      void this.stop(`a worker of rank ${queue.rank} failed: ${text.split('\n')[0]}`, stopReason.worker)
    }
    thread.onEnd = (why) => {
      worker.dead = true
      void this.stop(`a worker of rank ${queue.rank} died: ${why}`, stopReason.worker)
    }
    thread.assign({
      memory: this.arena.memory,
      queue: queue.address,
      slot: worker.slot,
      executables: this.layout.executables,
      leader,
      role,
      loader: this.platform.loader,
    })
  }

  /** Threads that have a core each may burn it; others must leave theirs to whom they wait for. */
  #adaptSpinning(): void {
    const { cores } = this.platform.threads
    const threads = this.#slots
    this.words[control.spins >>> 2] = threads <= cores ? 10_000 : 100
    this.words[control.idleSpins >>> 2] = threads < cores ? 50_000 : threads === cores ? 2_000 : 100
  }

  /** How often the host looks before it lets other things happen. */
  get #hostSpins(): number {
    return this.#slots < this.platform.threads.cores ? 5_000 : 200
  }

  // Executables

  compile(ir: KernelIR, packed: readonly string[] = []): Compiled {
    return compile(ir, this.platform.engine, this.platform.lower, this.recording !== undefined, packed)
  }

  /** `packed` are the parameters whose tensors are packed. */
  executable(ir: KernelIR, packed: readonly string[] = []): Executable {
    let ofKernel = this.#executables.get(ir)
    if (!ofKernel) this.#executables.set(ir, (ofKernel = new Map()))
    const key = packed.length === 0 ? '' : packed.join(' ')
    const known = ofKernel.get(key)
    if (known) return known
    // Number 0 is none.
    const number = this.#executableCount + 1
    if (number === mostExecutables) throw new WorldError(`a world has at most ${mostExecutables} kernels`)
    const { lowered, bytes } = this.compile(ir, packed)
    const pointer = this.#take(bytes.length)
    new Uint8Array(this.arena.memory.buffer, pointer, bytes.length).set(bytes)
    const at = this.layout.executables + number * executable.bytes
    this.words[(at + executable.pointer) >>> 2] = pointer | 0
    this.words[(at + executable.pointer + 4) >>> 2] = 0
    this.words[(at + executable.length) >>> 2] = bytes.length
    this.words[(at + executable.roles) >>> 2] = lowered.roles
    const made: Executable = { number, lowered, bytes }
    ofKernel.set(key, made)
    this.#executableCount = number
    return made
  }

  /** What a launch on a queue needs besides arguments: workers for its roles, frames, counters. */
  equip(
    queue: Queue,
    { number, lowered }: Executable,
  ): { readonly frames: number; readonly counters: number } {
    this.#staff(queue, lowered.roles)
    const bytes = lowered.frameBytes * this.workers
    if (!queue.frames || queue.frames.bytes < bytes) {
      // Launches before this one may still run in the old frames.
      if (queue.frames) this.#outgrown.push(queue.frames.pointer)
      queue.frames = { pointer: this.#take(Math.max(bytes, 64)), bytes }
    }
    let counters = queue.counters.get(number)
    if (!counters) {
      const size = Math.max(lowered.counterWords * 4, 64)
      queue.counters.set(number, (counters = { pointer: this.#take(size), bytes: size }))
    }
    return { frames: queue.frames.pointer, counters: counters.pointer }
  }

  /** Room for one more launch; waits, without letting anything else happen, if there is none. */
  makeRoom(queue: Queue): void {
    if (queue.isFull) this.#blockUntilRoom(queue)
    this.settle(queue)
  }

  #blockUntilRoom(queue: Queue): void {
    const start = performance.now()
    const completed = (queue.address + queueOf.completed) >>> 2
    while (queue.isFull) {
      this.expectRunning()
      const value = queue.completed
      Atomics.add(this.words, (queue.address + queueOf.waiters) >>> 2, 1)
      this.platform.threads.block(this.words, completed, value, 5)
      Atomics.sub(this.words, (queue.address + queueOf.waiters) >>> 2, 1)
      if (queue.completed !== value) continue
      const reason = `no launch has ended for ${this.#timeout} ms while ${ring} were pending`
      if (performance.now() - start >= this.#timeout) void this.stop(reason)
      // Who was doing what is known a little later, when the host waits.
      if (this.#stopping) throw new WorldStopped(reason)
    }
  }

  settle(queue: Queue): void {
    const ended = queue.settle()
    if (ended.length > 0) this.recording?.ended(queue, ended)
  }

  launched(): void {
    this.#watchdog.launched()
  }

  // Waiting

  /** Until the queues have completed so many launches; throws if the world has stopped, or stops meanwhile. */
  async reach(targets: Iterable<readonly [Queue, number]>): Promise<void> {
    if (this.#stopping) throw await this.#throwable()
    this.expectRunning()
    const start = this.recording ? this.platform.threads.now() : 0
    for (const [queue, sequence] of targets) {
      for (let spins = this.#hostSpins; spins > 0 && !queue.hasReached(sequence); spins--)
        if (Atomics.load(this.words, control.abort >>> 2) !== 0) break
      if (!queue.hasReached(sequence)) await this.#sleepUntil(queue, sequence)
      this.settle(queue)
    }
    if (this.recording) {
      this.recording.waited(start, this.platform.threads.now())
      if (this.isIdle) this.recording.collect(this.#everyWorker())
    }
    if (this.isIdle) this.#idle()
  }

  #idle(): void {
    for (const pointer of this.#outgrown.splice(0)) this.#private.free(pointer - this.layout.private)
    this.onIdle()
  }

  async #sleepUntil(queue: Queue, sequence: number): Promise<void> {
    const waiters = (queue.address + queueOf.waiters) >>> 2
    this.#watchdog.wait()
    Atomics.add(this.words, waiters, 1)
    try {
      for (;;) {
        if (this.#stopping) throw await this.#throwable()
        const value = queue.completed
        if (((value - sequence) | 0) >= 0) return
        const wait = waitAsync(this.words, (queue.address + queueOf.completed) >>> 2, value)
        if (wait.async) await wait.value
      }
    } finally {
      Atomics.sub(this.words, waiters, 1)
      this.#watchdog.done()
    }
  }

  /** Until a word is no longer what it is, or so many milliseconds have passed; nothing is missed if it changed before. */
  async #changed(address: number, value: number, milliseconds: number): Promise<void> {
    const wait = waitAsync(this.words, address >>> 2, value, milliseconds)
    if (wait.async) await wait.value
  }

  // Stopping

  expectRunning(): void {
    if (this.#closed) throw new WorldError('the world is closed')
    if (!this.#stopped) return
    this.#told = true
    throw this.#stopped
  }

  /** Whether somebody was told why the world stopped. */
  #told = false

  async #throwable(): Promise<WorldStopped> {
    const stopped = await this.#stopping!
    this.#told = true
    return stopped
  }

  #watchAbort(): void {
    const wait = waitAsync(this.words, control.abort >>> 2, 0)
    if (!wait.async) return
    void wait.value.then(() => {
      if (this.#closed) return
      // Workers that park wake it too, and may do so late.
      if (Atomics.load(this.words, control.abort >>> 2) === stopReason.none) this.#watchAbort()
      else void this.stop('a kernel raised a fault', stopReason.fault)
    })
  }

  /** Stop all ranks; gives the error that tells about it, the same one however often it is called. */
  stop(reason: string, code: number = stopReason.host): Promise<WorldStopped> {
    return (this.#stopping ??= this.#stop(reason, code))
  }

  async #stop(reason: string, code: number): Promise<WorldStopped> {
    const { words } = this
    Atomics.compareExchange(words, control.abort >>> 2, stopReason.none, code)
    this.#wakeEverybody()
    this.#watchdog.wait()
    const workers = [...this.#everyWorker()]
    const deadline = performance.now() + patience.stop
    for (const worker of workers) {
      while (!this.#hasStopped(worker)) {
        const left = deadline - performance.now()
        if (left <= 0) break
        const parked = worker.slot + slot.parked
        await this.#changed(parked, Atomics.load(words, parked >>> 2), Math.min(left, 20))
      }
    }
    // Failures come as messages, a little after the abort word.
    if (code === stopReason.fault && Atomics.load(words, control.abort >>> 2) === stopReason.worker)
      for (let tries = 0; tries < 50 && !workers.some(({ failure }) => failure); tries++)
        await new Promise((resolve) => setTimeout(resolve, 2))
    const stopped = stoppedWorkers(words, workers)
    for (const worker of workers)
      if (!this.#hasStopped(worker)) {
        worker.dead = true
        void worker.thread.terminate()
      }
    const failed = workers.find(({ failure }) => failure !== undefined)
    const text =
      code !== stopReason.fault
        ? reason
        : failed
          ? `a worker of rank ${failed.queue.rank} failed: ${failed.failure!.split('\n')[0]}`
          : reason
    this.#stopped = new WorldStopped(text, stopped)
    this.#watchdog.done()
    for (const queue of this.#queues.values())
      Atomics.notify(words, (queue.address + queueOf.completed) >>> 2)
    return this.#stopped
  }

  #hasStopped(worker: Worker): boolean {
    if (worker.dead) return true
    const state = Atomics.load(this.words, (worker.slot + slot.state) >>> 2)
    if (state === workerState.starting || state === workerState.ended) return true
    const generation = Atomics.load(this.words, control.generation >>> 2)
    return Atomics.load(this.words, (worker.slot + slot.parked) >>> 2) === ((generation + 1) | 0)
  }

  #wakeEverybody(): void {
    for (const queue of this.#queues.values()) {
      queue.wake()
      Atomics.notify(this.words, (queue.address + queueOf.completed) >>> 2)
    }
    Atomics.notify(this.words, control.abort >>> 2)
  }

  /** After a stop, as if nothing had been launched yet. Otherwise waits for what was launched. */
  async reset(clear: () => void): Promise<void> {
    if (!this.#stopping) await this.reach([...this.#queues.values()].map((queue) => [queue, queue.head]))
    else await this.#stopping
    for (const queue of this.#queues.values()) {
      queue.clear()
      for (const { pointer, bytes } of [...queue.counters.values(), ...(queue.frames ? [queue.frames] : [])])
        new Uint8Array(this.arena.memory.buffer, pointer, bytes).fill(0)
    }
    clear()
    this.#idle()
    if (!this.#stopping) return
    const lost: Worker[] = []
    for (const worker of this.#everyWorker()) {
      worker.failure = undefined
      if (!worker.dead) {
        for (const field of [slot.wait, slot.fault]) this.words[(worker.slot + field) >>> 2] = 0
        continue
      }
      lost.push(worker)
      this.#clearSlot(worker)
      worker.thread = this.#pool.thread()
      worker.dead = false
    }
    this.#stopping = this.#stopped = undefined
    this.#told = false
    Atomics.store(this.words, control.sleepers >>> 2, 0)
    Atomics.store(this.words, control.faulty >>> 2, 0)
    Atomics.store(this.words, control.abort >>> 2, stopReason.none)
    Atomics.add(this.words, control.generation >>> 2, 1)
    Atomics.notify(this.words, control.generation >>> 2)
    for (const worker of lost) this.#assign(worker)
    this.#watchAbort()
  }

  /** Waits for what was launched; gives threads and memory back. Throws what nobody was told yet. */
  async close(heapReached: number): Promise<void> {
    if (this.#closed) return
    const told = this.#told
    let failure: unknown
    try {
      await this.reach([...this.#queues.values()].map((queue) => [queue, queue.head]))
    } catch (error) {
      if (!(error instanceof WorldStopped)) throw error
      failure = error
    }
    this.#closed = true
    this.#forget()
    this.#watchdog.wait()
    for (const queue of this.#queues.values()) queue.close()
    Atomics.add(this.words, control.generation >>> 2, 1)
    Atomics.notify(this.words, control.generation >>> 2)
    this.#wakeEverybody()
    const left = await Promise.all([...this.#everyWorker()].map((worker) => this.#leave(worker)))
    this.#watchdog.done()
    this.#watchdog.close()
    this.arena.used = Math.max(this.arena.used, this.arena.privateReached + this.ranks * heapReached)
    if (left.every(Boolean)) this.#pool.giveBackArena(this.arena)
    if (failure !== undefined && !told) throw failure
  }

  /** Whether a worker has left its queue; one that does not is ended. */
  async #leave(worker: Worker): Promise<boolean> {
    const at = worker.slot + slot.state
    const began = performance.now()
    while (!worker.dead) {
      const state = Atomics.load(this.words, at >>> 2)
      if (state === workerState.ended) {
        this.#pool.giveBack(worker.thread)
        return true
      }
      const limit = state === workerState.starting ? patience.start : patience.stop
      if (performance.now() - began > limit) break
      await this.#changed(at, state, 50)
    }
    worker.thread.onEnd = undefined
    if (!worker.dead) void worker.thread.terminate()
    return false
  }
}
