/**
 * The interface between a CPU world and its platform: threads that serve queues, a clock, and notice of the process's
 * end.
 */
import type { SystemCache } from './caches.ts'

/** A module that a thread imports, and the name of its export that turns an executable's bytes into entry points. */
export interface Loader {
  readonly module: string
  readonly name: string
}

/**
 * The message that makes a thread serve a queue until the queue closes. The numbers in the message are addresses in the
 * shared memory.
 */
export interface Assignment {
  readonly memory: WebAssembly.Memory
  readonly queue: number
  readonly slot: number
  readonly executables: number
  readonly leader: number
  readonly role: number
  readonly loader: Loader
}

/** The message that a thread sends when it has thrown an exception while it served a slot. */
export interface Failure {
  readonly slot: number
  readonly text: string
}

export interface Thread {
  /** Makes the thread serve a queue. The thread first finishes serving its previous queue. */
  assign(assignment: Assignment): void
  /** Runs a garbage collection in the thread, so that memories no longer in use are freed. */
  collect(): void
  /** Ends the thread at once, even while it runs a kernel. */
  terminate(): Promise<void>
  onFailure: ((failure: Failure) => void) | undefined
  /** A callback that is called if the thread ends without having been terminated by the host. */
  onEnd: ((why: string) => void) | undefined
}

export interface Threads {
  readonly cores: number
  /** The model of the processor, or undefined if the operating system does not report it. */
  readonly model: string | undefined
  /** The caches that the operating system reports. */
  readonly caches: readonly SystemCache[]
  /** The time in nanoseconds of a monotonic clock that all threads share. */
  now(): number
  /** Starts a thread that does not keep the process alive. */
  start(): Thread
  /** Blocks the calling thread while the word holds `value`, for at most `milliseconds`. */
  block(words: Int32Array, index: number, value: number, milliseconds: number): void
  /** Runs a garbage collection, so that unreferenced memories go back to the operating system. */
  collect(): void
  /**
   * Registers handlers for signals and for the process's exit. The function `stop` is called when a signal asks the
   * process to end, before the process ends. The function `exiting` is called when the process exits. Node waits for
   * its worker threads at exit, so the kernels that they run must return soon. The result is a function that removes
   * both handlers.
   */
  onInterrupt(stop: () => Promise<void>, exiting: () => void): () => void
}
