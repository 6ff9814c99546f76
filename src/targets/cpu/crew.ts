/**
 * Manages the worker threads of a world: assigns threads to queues, sets how long they poll before they sleep, and ends
 * them.
 */
import { WorldError } from '../../world/world.ts'
import { control, event as eventOf, slot, spinsFor, workerState } from './abi.ts'
import type { CpuPlatform } from './host.ts'
import { mostSlots, type Layout } from './layout.ts'
import type { Arena, Pool } from './pool.ts'
import type { PrivateMemory } from './private.ts'
import type { Queue, Worker } from './queue.ts'
import { eventCapacity } from './recording.ts'
import { changed } from './waitAsync.ts'

/** Two time limits in milliseconds: for a worker to stop after an abort, and for a new thread to start. */
export const patience = { stop: 1000, start: 30_000 }

/**
 * The fields of a slot that describe the event buffer. The fields of the event buffer stay valid when a dead worker's
 * slot is cleared.
 */
const lasting = [slot.events, slot.events + 4, slot.eventCapacity]

export class Crew {
  /** The number of leaders (threads that run programs) of every queue. */
  readonly leaders: number
  readonly workers: Worker[] = []
  /** A callback that receives the error text when a worker has thrown an exception. */
  onFailure: (worker: Worker, text: string) => void = () => {}
  /** A callback that is called when a worker's thread has died. */
  onEnd: (worker: Worker, why: string) => void = () => {}
  readonly #platform: CpuPlatform
  readonly #record: boolean
  readonly #pool: Pool
  readonly #arena: Arena
  readonly #words: Int32Array
  readonly #layout: Layout
  readonly #private: PrivateMemory
  /** The time of the last thread assignment, in milliseconds of `performance.now`. */
  #assigned = 0
  /** The number of times the host polls before it returns to the event loop. */
  hostSpins = 0

  constructor(place: {
    readonly leaders: number
    readonly platform: CpuPlatform
    readonly record: boolean
    readonly pool: Pool
    readonly arena: Arena
    readonly layout: Layout
    readonly private: PrivateMemory
  }) {
    this.leaders = place.leaders
    this.#platform = place.platform
    this.#record = place.record
    this.#pool = place.pool
    this.#arena = place.arena
    this.#words = place.arena.words
    this.#layout = place.layout
    this.#private = place.private
  }

  /** Starts the workers that the queue still needs for the given number of roles. */
  staff(queue: Queue, roles: number): void {
    const present = queue.workers.length / this.leaders
    if (present >= roles) return
    for (let role = present; role < roles; role++)
      for (let leader = 0; leader < this.leaders; leader++) {
        if (this.workers.length === mostSlots)
          throw new WorldError(`a world has at most ${mostSlots} workers`)
        const worker: Worker = {
          queue,
          slot: this.#layout.slots + this.workers.length * slot.bytes,
          leader,
          role,
          thread: this.#pool.thread(),
          dead: false,
          failure: undefined,
        }
        this.#words.fill(0, worker.slot >>> 2, (worker.slot + slot.bytes) >>> 2)
        if (this.#record) {
          queue.writePointer(worker.slot + slot.events, this.#private.take(eventCapacity * eventOf.bytes))
          this.#words[(worker.slot + slot.eventCapacity) >>> 2] = eventCapacity
        }
        queue.workers.push(worker)
        this.workers.push(worker)
        this.#spinFor(Atomics.add(this.#words, control.awake >>> 2, 1) + 1)
        this.#assign(worker)
      }
    this.#adaptSpinning()
  }

  /**
   * Sets how often each worker polls before it sleeps. If some workers sleep, the awake workers poll longer (serve.ts).
   */
  #adaptSpinning(): void {
    const { cores } = this.#platform.threads
    const threads = this.workers.length
    this.#words[control.cores >>> 2] = cores
    // On a single core, a polling worker keeps the host from enqueuing the launch that the worker waits for.
    this.#words[control.idleSpins >>> 2] =
      threads < cores ? 10_000 : threads === cores && cores > 1 ? 2_000 : 100
    this.hostSpins = threads < cores ? 5_000 : 200
  }

  #spinFor(awake: number): void {
    Atomics.store(this.#words, control.spins >>> 2, spinsFor(awake, this.#platform.threads.cores))
  }

  #assign(worker: Worker): void {
    this.#assigned = performance.now()
    const { thread, queue, leader, role } = worker
    thread.onFailure = ({ slot: at, text }) => {
      const failed = this.workers.find((other) => other.slot === at) ?? worker
      failed.failure = text
      this.onFailure(failed, text)
    }
    thread.onEnd = (why) => {
      worker.dead = true
      this.onEnd(worker, why)
    }
    thread.assign({
      memory: this.#arena.memory,
      queue: queue.address,
      slot: worker.slot,
      executables: this.#layout.executables,
      leader,
      role,
      loader: this.#platform.loader,
    })
  }

  #read(worker: Worker, field: number): number {
    return Atomics.load(this.#words, (worker.slot + field) >>> 2)
  }

  /** True while a new thread has not yet started to serve its queue. */
  get isStarting(): boolean {
    if (performance.now() - this.#assigned > patience.start) return false
    return this.workers.some(
      (worker) => !worker.dead && this.#read(worker, slot.state) === workerState.starting,
    )
  }

  hasStopped(worker: Worker): boolean {
    if (worker.dead) return true
    const state = this.#read(worker, slot.state)
    if (state === workerState.starting || state === workerState.ended) return true
    const generation = Atomics.load(this.#words, control.generation >>> 2)
    return this.#read(worker, slot.parked) === ((generation + 1) | 0)
  }

  /** Waits until all workers have stopped, or until the time limit. */
  async stopped(): Promise<void> {
    const deadline = performance.now() + patience.stop
    for (const worker of this.workers)
      while (!this.hasStopped(worker)) {
        const left = deadline - performance.now()
        if (left <= 0) return
        await changed(
          this.#words,
          worker.slot + slot.parked,
          this.#read(worker, slot.parked),
          Math.min(left, 20),
        )
      }
  }

  /** Terminates the workers that have not stopped. */
  endOthers(): void {
    for (const worker of this.workers)
      if (!this.hasStopped(worker)) {
        worker.dead = true
        void worker.thread.terminate()
      }
  }

  /**
   * After an abort, clears the workers' state and gives dead workers new threads. The result is a function whose call
   * starts the new threads.
   */
  renew(): () => void {
    const lost: Worker[] = []
    for (const worker of this.workers) {
      worker.failure = undefined
      const at = worker.slot >>> 2
      if (!worker.dead) {
        for (const field of [slot.wait, slot.fault]) this.#words[at + field / 4] = 0
        continue
      }
      lost.push(worker)
      const kept = lasting.map((field) => this.#words[at + field / 4])
      this.#words.fill(0, at, at + slot.bytes / 4)
      lasting.forEach((field, i) => (this.#words[at + field / 4] = kept[i]))
      worker.thread = this.#pool.thread()
      worker.dead = false
    }
    // The abort has already woken all sleeping workers.
    Atomics.store(this.#words, control.awake >>> 2, this.workers.length)
    this.#spinFor(this.workers.length)
    return () => lost.forEach((worker) => this.#assign(worker))
  }

  /**
   * Waits until all workers have left their queues and returns true. If workers exceed the time limit, they are
   * terminated and the result is false.
   */
  async leave(): Promise<boolean> {
    const left = await Promise.all(this.workers.map((worker) => this.#leave(worker)))
    return left.every(Boolean)
  }

  async #leave(worker: Worker): Promise<boolean> {
    const began = performance.now()
    while (!worker.dead) {
      const state = this.#read(worker, slot.state)
      if (state === workerState.ended) {
        this.#pool.giveBack(worker.thread)
        return true
      }
      const limit = state === workerState.starting ? patience.start : patience.stop
      if (performance.now() - began > limit) break
      await changed(this.#words, worker.slot + slot.state, state, 50)
    }
    worker.thread.onEnd = undefined
    if (!worker.dead) void worker.thread.terminate()
    return false
  }
}
