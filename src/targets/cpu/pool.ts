/**
 * Threads and memories between worlds. Opening a world takes those that another one has left, so that many worlds, one after the
 * other, cost no more than one: engines give a shared memory back only when every thread has collected its garbage.
 */
import type { Thread, Threads } from './threads.ts'

/** A memory, and how much of it was ever used: the rest holds zeros and is not even there. */
export interface Arena {
  readonly memory: WebAssembly.Memory
  readonly words: Int32Array
  readonly pages: number
  /** Bytes of the private region that may not be zero. */
  privateReached: number
  /** Bytes that are really there. */
  used: number
}

/** Of memories that are kept: more used bytes than this are given back. */
const mostUsed = 256 * 2 ** 20
const mostArenas = 2
/** Memories that were let go before garbage is collected, and their used bytes. */
const mostDropped = { arenas: 8, bytes: 512 * 2 ** 20 }

export class Pool {
  readonly #threads: Threads
  readonly #idle: Thread[] = []
  readonly #arenas: Arena[] = []
  readonly #dropped = { arenas: 0, bytes: 0 }

  constructor(threads: Threads) {
    this.#threads = threads
  }

  /** Threads that wait for a world. */
  get idle(): number {
    return this.#idle.length
  }

  /** Start threads that will be needed soon: they come up while this one does other things. */
  warm(count: number): void {
    while (this.#idle.length < Math.min(count, this.#threads.cores)) this.giveBack(this.#threads.start())
  }

  thread(): Thread {
    return this.#idle.pop() ?? this.#threads.start()
  }

  /** A thread that has left its queue, or has yet to find it closed. */
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

  /** Nobody uses it any more. */
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
    // The caller still refers to the memory.
    setTimeout(() => this.#threads.collect(), 0)
  }
}

const pools = new WeakMap<Threads, Pool>()

/** The one pool of a platform. */
export function poolOf(threads: Threads): Pool {
  let pool = pools.get(threads)
  if (!pool) pools.set(threads, (pool = new Pool(threads)))
  return pool
}
