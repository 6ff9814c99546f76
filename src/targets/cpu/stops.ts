/**
 * How a world stops, and goes on. Somebody sets the abort word (the watchdog, a kernel's fault, a worker that threw, an
 * interrupt); every worker parks and says so; one that does not within a second is ended. What they were doing becomes a
 * `WorldStopped`, which every call throws until the world is reset.
 */
import { WorldStopped } from '../../world/world.ts'
import { control, stopReason } from './abi.ts'
import type { Crew } from './crew.ts'
import { stoppedWorkers } from './faults.ts'
import { waitAsync } from './waitAsync.ts'

export interface Stoppable {
  /** Wake all who sleep, so that they see the abort word. */
  wakeEverybody(): void
  /** The process stays alive until `done`. */
  hold(): void
  done(): void
}

export class Stops {
  readonly #words: Int32Array
  readonly #crew: Crew
  readonly #world: Stoppable
  #stopping: Promise<WorldStopped> | undefined
  #stopped: WorldStopped | undefined
  #told = false
  #closed = false

  constructor(words: Int32Array, crew: Crew, world: Stoppable) {
    this.#words = words
    this.#crew = crew
    this.#world = world
    this.#watch()
    crew.onFailure = ({ queue }, text) =>
      void this.stop(`a worker of rank ${queue.rank} failed: ${text.split('\n')[0]}`, stopReason.worker)
    crew.onEnd = ({ queue }, why) =>
      void this.stop(`a worker of rank ${queue.rank} died: ${why}`, stopReason.worker)
  }

  /** Whether it stops or has stopped. */
  get isStopping(): boolean {
    return this.#stopping !== undefined
  }

  /** Whether somebody was told why. */
  get told(): boolean {
    return this.#told
  }

  expectNotStopped(): void {
    if (!this.#stopped) return
    this.#told = true
    throw this.#stopped
  }

  /** What to throw, once everybody has stopped. */
  async throwable(): Promise<WorldStopped> {
    const stopped = await this.#stopping!
    this.#told = true
    return stopped
  }

  /** Nothing that happens from now on is a stop. */
  close(): void {
    this.#closed = true
  }

  #watch(): void {
    const wait = waitAsync(this.#words, control.abort >>> 2, 0)
    if (!wait.async) return
    void wait.value.then(() => {
      if (this.#closed) return
      // Workers that park wake it too, and may do so late.
      if (Atomics.load(this.#words, control.abort >>> 2) === stopReason.none) this.#watch()
      else void this.stop('a kernel raised a fault', stopReason.fault)
    })
  }

  /** Stop all ranks; gives the error that tells about it, the same one however often it is called. */
  stop(reason: string, code: number = stopReason.host): Promise<WorldStopped> {
    return (this.#stopping ??= this.#stop(reason, code))
  }

  async #stop(reason: string, code: number): Promise<WorldStopped> {
    const words = this.#words
    const { workers } = this.#crew
    Atomics.compareExchange(words, control.abort >>> 2, stopReason.none, code)
    this.#world.wakeEverybody()
    this.#world.hold()
    await this.#crew.stopped()
    // Failures come as messages, a little after the abort word.
    if (code === stopReason.fault && Atomics.load(words, control.abort >>> 2) === stopReason.worker)
      for (let tries = 0; tries < 50 && !workers.some(({ failure }) => failure); tries++)
        await new Promise((resolve) => setTimeout(resolve, 2))
    const stopped = stoppedWorkers(words, workers)
    this.#crew.endOthers()
    const failed =
      code === stopReason.fault ? workers.find(({ failure }) => failure !== undefined) : undefined
    const text = failed
      ? `a worker of rank ${failed.queue.rank} failed: ${failed.failure!.split('\n')[0]}`
      : reason
    this.#stopped = new WorldStopped(text, stopped)
    this.#world.done()
    this.#world.wakeEverybody()
    return this.#stopped
  }

  /** The process exits, which waits for its threads, and no thread is ended while it runs native code: kernels must return. */
  abandon(): void {
    Atomics.compareExchange(this.#words, control.abort >>> 2, stopReason.none, stopReason.host)
    this.#world.wakeEverybody()
  }

  /** Go on. Nothing of what was launched may be left. */
  resume(): void {
    const words = this.#words
    const begin = this.#crew.renew()
    this.#stopping = this.#stopped = undefined
    this.#told = false
    Atomics.store(words, control.sleepers >>> 2, 0)
    Atomics.store(words, control.faulty >>> 2, 0)
    Atomics.store(words, control.abort >>> 2, stopReason.none)
    Atomics.add(words, control.generation >>> 2, 1)
    Atomics.notify(words, control.generation >>> 2)
    begin()
    this.#watch()
  }
}
