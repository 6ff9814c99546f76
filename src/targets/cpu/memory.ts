/** Accesses the per-rank heaps of a CPU world, which are adjacent in one shared memory. */
import type { StorageDType } from '../../ir/dtype.ts'
import type { HeapMemory } from '../../world/backend.ts'
import { fillElements, readElements, writeElements } from '../../world/elements.ts'
import type { Layout } from './layout.ts'

export class CpuMemory implements HeapMemory {
  readonly bytes: number
  readonly #heaps: number
  readonly #memory: WebAssembly.Memory

  constructor(memory: WebAssembly.Memory, { heaps, heapBytes }: Layout) {
    this.#memory = memory
    this.#heaps = heaps
    this.bytes = heapBytes
  }

  get buffer(): ArrayBufferLike {
    return this.#memory.buffer
  }

  address(rank: number, offset: number): number {
    return this.#heaps + rank * this.bytes + offset
  }

  write(rank: number, offset: number, dtype: StorageDType, contents: ArrayLike<number>): void {
    writeElements(this.buffer, this.address(rank, offset), dtype, contents)
  }

  /** Writes words atomically: a kernel that polls them with acquire order also sees what the host wrote before. */
  writeWords(rank: number, offset: number, dtype: StorageDType, contents: ArrayLike<number>): void {
    const words = new Uint32Array(contents.length)
    writeElements(words.buffer, 0, dtype, contents)
    const target = new Uint32Array(this.buffer, this.address(rank, offset), words.length)
    words.forEach((word, i) => Atomics.store(target, i, word))
  }

  readWords(rank: number, offset: number, dtype: StorageDType, count: number): Float64Array {
    const source = new Uint32Array(this.buffer, this.address(rank, offset), count)
    const words = Uint32Array.from({ length: count }, (_, i) => Atomics.load(source, i))
    return readElements(words.buffer, 0, dtype, count)
  }

  fill(rank: number, offset: number, dtype: StorageDType, count: number, value: number): void {
    fillElements(this.buffer, this.address(rank, offset), dtype, count, value)
  }

  read(rank: number, offset: number, dtype: StorageDType, count: number): Float64Array {
    return readElements(this.buffer, this.address(rank, offset), dtype, count)
  }

  copy(rank: number, offset: number, fromRank: number, fromOffset: number, bytes: number): void {
    new Uint8Array(this.buffer, this.address(rank, offset), bytes).set(
      new Uint8Array(this.buffer, this.address(fromRank, fromOffset), bytes),
    )
  }
}
