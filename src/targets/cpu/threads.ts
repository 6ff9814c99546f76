/** What a CPU world needs of the platform it runs on: threads that serve, a clock, the process's end. */

/** A module that a thread imports, and the name of its function that makes entries of an executable's bytes. */
export interface Loader {
  readonly module: string
  readonly name: string
}

/** What a thread is told once, before it serves a queue until that closes. Numbers are addresses in the memory. */
export interface Assignment {
  readonly memory: WebAssembly.Memory
  readonly queue: number
  readonly slot: number
  readonly executables: number
  readonly leader: number
  readonly role: number
  readonly loader: Loader
}

/** What a thread says: that something threw while it served the slot. */
export interface Failure {
  readonly slot: number
  readonly text: string
}

export interface Thread {
  /** Serve; after the queue before it, if there was one. */
  assign(assignment: Assignment): void
  /** Forget memories that are not used any more. */
  collect(): void
  /** Ends it, whatever it does. */
  terminate(): Promise<void>
  onFailure: ((failure: Failure) => void) | undefined
  /** It has ended without being asked to. */
  onEnd: ((why: string) => void) | undefined
}

export interface Threads {
  readonly cores: number
  /** Nanoseconds of a steady clock that all threads share. */
  now(): number
  /** A thread that does not keep the process alive. */
  start(): Thread
  /** Stops the calling thread while the word holds the value, for at most so long. */
  block(words: Int32Array, index: number, value: number, milliseconds: number): void
  /** Give memories that nobody refers to back to the system. */
  collect(): void
  /**
   * `stop` is called when a signal asks the process to end, before it does. `exiting` is called when the process exits: it waits for
   * its threads, so that code which they run must return soon. The result undoes it.
   */
  onInterrupt(stop: () => Promise<void>, exiting: () => void): () => void
}
