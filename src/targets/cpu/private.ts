/**
 * Allocates from the private region of a world's memory: launch blocks, frames, counters, executables and event
 * buffers.
 */
import { Heap } from '../../world/heap.ts'
import type { Layout } from './layout.ts'
import type { Arena } from './pool.ts'

export class PrivateMemory {
  readonly #arena: Arena
  readonly #start: number
  readonly #heap: Heap

  constructor(arena: Arena, layout: Layout) {
    this.#arena = arena
    this.#start = layout.private
    this.#heap = new Heap(layout.privateBytes)
  }

  /** Allocates bytes, all of them zero, and returns their address. */
  take(bytes: number): number {
    const arena = this.#arena
    const offset = this.#heap.allocate(bytes)
    const dirty = Math.min(offset + bytes, arena.privateReached) - offset
    const pointer = this.#start + offset
    if (dirty > 0) this.zero(pointer, dirty)
    arena.privateReached = Math.max(arena.privateReached, offset + bytes)
    return pointer
  }

  free(pointer: number): void {
    this.#heap.free(pointer - this.#start)
  }

  zero(pointer: number, bytes: number): void {
    new Uint8Array(this.#arena.memory.buffer, pointer, bytes).fill(0)
  }
}
