/**
 * Keeps threads and memories for reuse between worlds. A new world takes the threads and memory of a closed one, so
 * that many worlds in sequence cost no more than one. Without reuse, a JavaScript engine frees a shared memory only
 * after every thread has collected its garbage.
 */
import type { Thread, Threads } from './threads.ts'

/**
 * A shared memory, and the number of its bytes that were ever used. Unused pages hold zeros and take no physical
 * memory.
 */
export interface Arena {
  readonly memory: WebAssembly.Memory
  readonly words: Int32Array
  readonly pages: number
  /** The number of leading bytes of the private region that may be non-zero. */
  privateReached: number
  /** The number of bytes of the memory that occupy physical memory. */
  used: number
}

/** Memories with more used bytes than this limit are not kept for reuse by later worlds. */
const mostUsed = 256 * 2 ** 20
const mostArenas = 2
/** The number of released memories, and of their used bytes, after which garbage is collected. */
const mostDropped = { arenas: 8, bytes: 512 * 2 ** 20 }

export class Pool {
  readonly #threads: Threads
  readonly #idle: Thread[] = []
  readonly #arenas: Arena[] = []
  readonly #dropped = { arenas: 0, bytes: 0 }

  constructor(threads: Threads) {
    this.#threads = threads
  }

  /** The number of threads that wait to be used by a world. */
  get idle(): number {
    return this.#idle.length
  }

  /** Starts threads that will be needed soon. The new threads start up while the calling thread continues. */
  warm(count: number): void {
    while (this.#idle.length < Math.min(count, this.#threads.cores)) this.giveBack(this.#threads.start())
  }

  thread(): Thread {
    return this.#idle.pop() ?? this.#threads.start()
  }

  /** Takes back a thread that has left its queue or will leave the closed queue soon. */
  giveBack(thread: Thread): void {
    thread.onFailure = undefined
    if (this.#idle.length >= Math.max(16, 2 * this.#threads.cores)) {
      thread.onEnd = undefined
      void thread.terminate()
      return
    }
    thread.onEnd = () => {
      const at = this.#idle.indexOf(thread)
      if (at >= 0) this.#idle.splice(at, 1)
    }
    this.#idle.push(thread)
  }

  arena(pages: number): Arena {
    const at = this.#arenas.findIndex((arena) => arena.pages === pages)
    if (at >= 0) return this.#arenas.splice(at, 1)[0]
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
    return { memory, words: new Int32Array(memory.buffer), pages, privateReached: 0, used: 0 }
  }

  /** Takes back a memory that no world uses any more. */
  giveBackArena(arena: Arena): void {
    if (arena.used <= mostUsed) this.#arenas.push(arena)
    else this.#drop(arena)
    if (this.#arenas.length > mostArenas) this.#drop(this.#arenas.shift()!)
  }

  #drop(arena: Arena): void {
    this.#dropped.arenas++
    this.#dropped.bytes += arena.used
    if (this.#dropped.arenas < mostDropped.arenas && this.#dropped.bytes < mostDropped.bytes) return
    this.#dropped.arenas = this.#dropped.bytes = 0
    for (const thread of this.#idle) thread.collect()
    // The caller still refers to the memory, so the garbage collection must happen after the caller has returned.
    setTimeout(() => this.#threads.collect(), 0)
  }
}

const pools = new WeakMap<Threads, Pool>()

/** Returns the pool of a platform, which has only one pool. */
export function poolOf(threads: Threads): Pool {
  let pool = pools.get(threads)
  if (!pool) pools.set(threads, (pool = new Pool(threads)))
  return pool
}
