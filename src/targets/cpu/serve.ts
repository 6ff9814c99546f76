/**
 * Implements the worker thread's main loop, which serves one launch queue. The worker executes its share of each
 * launch, in order, until the queue closes. A worker polls while launches arrive quickly, and sleeps if they do not. A
 * worker communicates through shared memory only, not through messages.
 *
 * Each worker has two numbers: a leader number and a role number. A worker takes part in a launch if its leader number
 * is below the launch's number of leaders, and its role number below the kernel's number of roles. A worker starts on a
 * launch after all earlier launches of the queue are complete. The leader whose entry point returns 1 completes the
 * launch.
 */
import {
  awaitQueue,
  control,
  executable as executableOf,
  launch as launchOf,
  loadExecutable,
  queue as queueOf,
  ring,
  slot as slotOf,
  spinsFor,
  stopReason,
  workerState,
  type Entry,
} from './abi.ts'
import type { Assignment } from './threads.ts'

export type Load = (bytes: Uint8Array, memory: WebAssembly.Memory, now: () => number) => Entry[]

export interface Service extends Assignment {
  readonly load: Load
  readonly now: () => number
  /**
   * A callback that is called when the worker's code has thrown an error. The worker sets the abort word right after it
   * has reported an error.
   */
  readonly failed: (text: string) => void
}

/**
 * How often a worker polls for a launch before it sleeps: `leastSpins` times after a long sleep, and at most
 * `mostSpins` times.
 */
const leastSpins = 4
const mostSpins = 1 << 20
/** If a worker's sleep was shorter than this time in nanoseconds, launches count as frequent. */
const often = 1e6
/** The number of polls for the completion of the previous launch before a worker sleeps. */
const orderSpins = 2000

export function serve(service: Service): void {
  new Server(service).serve()
}

class Server {
  readonly #service: Service
  readonly #words: Int32Array
  readonly #times: Float64Array
  readonly #entries = new Map<number, readonly Entry[]>()
  readonly #slot: number
  readonly #head: number
  readonly #completed: number
  readonly #waiters: number
  readonly #awaiting: number
  readonly #awaited: number
  readonly #closing: number
  readonly #blocks: number
  readonly #timesAt: number
  #generation: number
  /** The number of the next launch to handle, starting at 0. Launch numbers wrap around at 32 bits. */
  #at = 0

  constructor(service: Service) {
    const { memory, queue, slot } = service
    this.#service = service
    this.#words = new Int32Array(memory.buffer)
    this.#times = new Float64Array(memory.buffer)
    this.#slot = slot >>> 2
    this.#head = (queue + queueOf.head) >>> 2
    this.#completed = (queue + queueOf.completed) >>> 2
    this.#waiters = (queue + queueOf.waiters) >>> 2
    this.#awaiting = (queue + queueOf.awaiting) >>> 2
    this.#awaited = (queue + queueOf.awaited) >>> 2
    this.#closing = (queue + queueOf.closing) >>> 2
    this.#blocks = this.#pointer(queue + queueOf.blocks)
    this.#timesAt = this.#pointer(queue + queueOf.times) / 8
    this.#generation = Atomics.load(this.#words, control.generation >>> 2)
  }

  serve(): void {
    const words = this.#words
    Atomics.store(words, this.#slot + slotOf.state / 4, workerState.idle)
    let idle = 0
    let spins = leastSpins
    for (;;) {
      if (this.#stopped()) {
        this.#park()
        idle = 0
      }
      if (Atomics.load(words, this.#closing) !== 0) break
      const completed = Atomics.load(words, this.#completed)
      if (((completed - this.#at) | 0) > 0) this.#at = completed
      if (((Atomics.load(words, this.#head) - this.#at) | 0) > 0) {
        this.#look()
        if (idle > 0) spins *= 2
        idle = 0
      } else if (++idle > Math.min(spins, Atomics.load(words, control.idleSpins >>> 2))) {
        // A woken thread may share its core with the thread that woke it, so it polls for long only if work arrives
        // frequently.
        const from = this.#service.now()
        this.#sleep()
        spins = this.#service.now() - from < often ? Math.min(spins * 4, mostSpins) : leastSpins
        idle = 0
      }
      if (spins > mostSpins) spins = mostSpins
    }
    Atomics.store(words, this.#slot + slotOf.state / 4, workerState.ended)
    Atomics.notify(words, this.#slot + slotOf.state / 4)
  }

  /** Executes the worker's share of the current launch, or skips the launch. */
  #look(): void {
    const words = this.#words
    const { leader, role } = this.#service
    const at = this.#at
    const block = this.#blocks + (at & (ring - 1)) * launchOf.bytes
    const leaders = Atomics.load(words, (block + launchOf.leaders) >>> 2)
    const executable = Atomics.load(words, (block + launchOf.executable) >>> 2)
    // If the launch is complete and its block was reused, the words just read are invalid.
    if (Atomics.load(words, (block + launchOf.sequence) >>> 2) !== ((at + 1) | 0)) return
    const roles = executable === awaitQueue ? 1 : this.#rolesOf(this.#named(block, executable))
    if (leader >= leaders || role >= roles) {
      this.#at = (at + 1) | 0
      return
    }
    if (!this.#reached(this.#completed, this.#waiters, at)) return
    try {
      this.#run(block, executable)
    } catch (error) {
      this.#fail(error)
    }
  }

  /** The number of the executable that the launch runs or loads. */
  #named(block: number, executable: number): number {
    return executable === loadExecutable ? this.#words[(block + launchOf.grid) >>> 2] : executable
  }

  #rolesOf(executable: number): number {
    return this.#words[
      (this.#service.executables + executable * executableOf.bytes + executableOf.roles) >>> 2
    ]
  }

  #run(block: number, executable: number): void {
    const words = this.#words
    const { leader, role, slot, now } = this.#service
    const time = this.#timesAt + (this.#at & (ring - 1)) * 2
    const entry =
      executable > 0
        ? this.#load(executable)[role]
        : executable === awaitQueue
          ? this.#await
          : this.#loadNamed
    words[this.#slot + slotOf.executable / 4] = executable
    words[this.#slot + slotOf.wait / 4] = 0
    Atomics.store(words, this.#slot + slotOf.state / 4, workerState.running)
    if (role === 0 && this.#times[time] === 0) this.#times[time] = now()
    const frame =
      this.#pointer(block + launchOf.frames) + leader * words[(block + launchOf.frameStride) >>> 2]
    const result = entry(block, frame, slot)
    if (result === -1) {
      if (!this.#stopped())
        throw new Error('internal error: an executable returned -1 although the world was not aborted')
      return
    }
    Atomics.store(words, this.#slot + slotOf.state / 4, workerState.idle)
    this.#at = (this.#at + 1) | 0
    if (result !== 1 || (role !== 0 && executable !== loadExecutable)) return
    this.#times[time + 1] = now()
    Atomics.store(words, this.#completed, this.#at)
    if (Atomics.load(words, this.#waiters) > 0 || this.#isAwaited()) Atomics.notify(words, this.#completed)
  }

  /**
   * True if enough launches have completed to wake the sleeping host. Waking the host for every launch would take a
   * core from the running ranks.
   */
  #isAwaited(): boolean {
    const words = this.#words
    return (
      Atomics.load(words, this.#awaiting) !== 0 && ((this.#at - Atomics.load(words, this.#awaited)) | 0) >= 0
    )
  }

  /** The entry point (the function that a worker calls) for a launch that waits for another queue of the rank. */
  readonly #await: Entry = (block) => {
    const queue = this.#pointer(block + launchOf.counters)
    const wanted = this.#words[(block + launchOf.grid) >>> 2]
    const reached = this.#reached((queue + queueOf.completed) >>> 2, (queue + queueOf.waiters) >>> 2, wanted)
    return reached ? 1 : -1
  }

  /**
   * The entry point for a launch that loads an executable into every worker that needs it. The last worker to load the
   * executable completes the launch.
   */
  readonly #loadNamed: Entry = (block) => {
    const executable = this.#named(block, loadExecutable)
    this.#load(executable)
    const before = Atomics.add(this.#words, (block + launchOf.finished) >>> 2, 1)
    const all = this.#words[(block + launchOf.leaders) >>> 2] * this.#rolesOf(executable)
    return before + 1 === all ? 1 : 0
  }

  /** Waits until a queue has completed `wanted` launches. If the world was aborted, the result is false. */
  #reached(completed: number, waiters: number, wanted: number): boolean {
    const words = this.#words
    for (let spins = 0; ; spins++) {
      const value = Atomics.load(words, completed)
      if (((value - wanted) | 0) >= 0) return true
      if (this.#stopped()) return false
      if (spins < orderSpins) continue
      Atomics.add(words, waiters, 1)
      // An abort also wakes a worker that waits for launches. The timeout of a wait covers an abort that arrives
      // between the poll and the sleep.
      Atomics.wait(words, completed, value, 100)
      Atomics.sub(words, waiters, 1)
    }
  }

  #sleep(): void {
    const words = this.#words
    const asleep = this.#slot + slotOf.asleep / 4
    Atomics.store(words, asleep, 1)
    const nothing =
      ((Atomics.load(words, this.#head) - this.#at) | 0) <= 0 &&
      Atomics.load(words, this.#closing) === 0 &&
      !this.#stopped()
    if (nothing) {
      this.#countAwake(-1)
      Atomics.wait(words, asleep, 1)
      this.#countAwake(1)
    }
    Atomics.store(words, asleep, 0)
  }

  /** Adapts the spin limit of waits in kernels to the number of awake workers. */
  #countAwake(change: 1 | -1): void {
    const words = this.#words
    const awake = Atomics.add(words, control.awake >>> 2, change) + change
    const cores = Atomics.load(words, control.cores >>> 2)
    Atomics.store(words, control.spins >>> 2, spinsFor(awake, cores))
  }

  #stopped(): boolean {
    return Atomics.load(this.#words, control.abort >>> 2) !== stopReason.none
  }

  /** Parks the worker until the world is reset. The worker's slot keeps its contents for the host to read. */
  #park(): void {
    const words = this.#words
    const parked = this.#slot + slotOf.parked / 4
    Atomics.store(words, parked, (this.#generation + 1) | 0)
    Atomics.notify(words, parked)
    Atomics.notify(words, control.abort >>> 2)
    while (Atomics.load(words, control.generation >>> 2) === this.#generation)
      Atomics.wait(words, control.generation >>> 2, this.#generation)
    this.#generation = Atomics.load(words, control.generation >>> 2)
    Atomics.store(words, this.#slot + slotOf.state / 4, workerState.idle)
    this.#at = Atomics.load(words, this.#completed)
  }

  #fail(error: unknown): void {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    this.#service.failed(text)
    Atomics.compareExchange(this.#words, control.abort >>> 2, stopReason.none, stopReason.worker)
  }

  #load(executable: number): readonly Entry[] {
    let entries = this.#entries.get(executable)
    if (!entries) {
      const { memory, executables, load, now } = this.#service
      const at = executables + executable * executableOf.bytes
      const pointer = this.#pointer(at + executableOf.pointer)
      const length = this.#words[(at + executableOf.length) >>> 2]
      // WebAssembly and native compilers do not accept bytes in shared memory, which another thread could change.
      const bytes = new Uint8Array(memory.buffer, pointer, length).slice()
      this.#entries.set(executable, (entries = load(bytes, memory, now)))
    }
    return entries
  }

  #pointer(address: number): number {
    return (this.#words[address >>> 2] >>> 0) + this.#words[(address >>> 2) + 1] * 2 ** 32
  }
}
