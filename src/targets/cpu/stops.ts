/**
 * Aborts and resumes a CPU world. The abort word is set by the watchdog, a kernel's fault, a worker that threw an
 * error, or an interrupt. After an abort, every worker parks and reports that in its slot. A worker that does not park
 * within one second is terminated.
 */
import { Stops } from '../../world/stops.ts'
import { WorldStopped } from '../../world/world.ts'
import { control, stopReason } from './abi.ts'
import type { Crew } from './crew.ts'
import type { Doings } from './faults.ts'
import { waitAsync } from './waitAsync.ts'

export interface Stoppable {
  /** Wakes all sleeping threads, so that they read the abort word and stop. */
  wakeEverybody(): void
  /** Describes what the workers are doing at the moment. */
  doings(): Doings
  /** Keeps the process alive until `done` is called. */
  hold(): void
  done(): void
}

export class CpuStops extends Stops {
  readonly #words: Int32Array
  readonly #crew: Crew
  readonly #world: Stoppable

  constructor(words: Int32Array, crew: Crew, world: Stoppable) {
    super()
    this.#words = words
    this.#crew = crew
    this.#world = world
    this.#watch()
    crew.onFailure = ({ queue }, text) =>
      void this.stopAll(`a worker of rank ${queue.rank} failed: ${text.split('\n')[0]}`, stopReason.worker)
    crew.onEnd = ({ queue }, why) =>
      void this.stopAll(`a worker of rank ${queue.rank} died: ${why}`, stopReason.worker)
  }

  #watch(): void {
    const wait = waitAsync(this.#words, control.abort >>> 2, 0)
    if (!wait.async) return
    void wait.value.then(() => {
      if (this.isClosed) return
      // A worker that parks after an abort also wakes the host's wait for the abort word, possibly after the word was
      // reset to 0.
      if (Atomics.load(this.#words, control.abort >>> 2) === stopReason.none) this.#watch()
      else void this.stopAll('a kernel raised a fault', stopReason.fault)
    })
  }

  stopAll(reason: string, code: number = stopReason.host): Promise<WorldStopped> {
    return this.stop(reason, () => this.#end(reason, code))
  }

  async #end(reason: string, code: number): Promise<WorldStopped> {
    const words = this.#words
    const { workers } = this.#crew
    Atomics.compareExchange(words, control.abort >>> 2, stopReason.none, code)
    this.#world.wakeEverybody()
    this.#world.hold()
    await this.#crew.stopped()
    // The error message of a worker may arrive slightly later than its change of the abort word.
    if (code === stopReason.fault && Atomics.load(words, control.abort >>> 2) === stopReason.worker)
      for (let tries = 0; tries < 50 && !workers.some(({ failure }) => failure); tries++)
        await new Promise((resolve) => setTimeout(resolve, 2))
    const { workers: stopped, signals } = this.#world.doings()
    this.#crew.endOthers()
    const failed =
      code === stopReason.fault ? workers.find(({ failure }) => failure !== undefined) : undefined
    const text = failed
      ? `a worker of rank ${failed.queue.rank} failed: ${failed.failure!.split('\n')[0]}`
      : reason
    this.#world.done()
    this.#world.wakeEverybody()
    return new WorldStopped(text, stopped, signals)
  }

  /**
   * Stops all kernels when the process exits. Node waits for its threads at exit and cannot terminate a thread in
   * native code, so kernels must return.
   */
  abandon(): void {
    Atomics.compareExchange(this.#words, control.abort >>> 2, stopReason.none, stopReason.host)
    this.#world.wakeEverybody()
  }

  override resume(): void {
    const words = this.#words
    const begin = this.#crew.renew()
    super.resume()
    Atomics.store(words, control.sleepers >>> 2, 0)
    Atomics.store(words, control.faulty >>> 2, 0)
    Atomics.store(words, control.abort >>> 2, stopReason.none)
    Atomics.add(words, control.generation >>> 2, 1)
    Atomics.notify(words, control.generation >>> 2)
    begin()
    this.#watch()
  }
}
