/** Reads and writes the heaps of a world on GPUs. Rank r's heap starts at `heap + r * stride`; see placement.ts. */
import type { StorageDType } from '../../ir/dtype.ts'
import type { HeapMemory } from '../../world/backend.ts'
import type { Placement } from './placement.ts'
import { transfersOf, type Transfers } from './transfers.ts'

export class GpuMemory implements HeapMemory {
  readonly bytes: number
  readonly #placement: Placement

  /**
   * The first `bytes` bytes of each heap belong to the world. The memory after the first `bytes` bytes of each heap
   * belongs to machine.ts.
   */
  constructor(placement: Placement, bytes: number) {
    this.#placement = placement
    this.bytes = bytes
  }

  address(rank: number, offset: number): bigint {
    const { heap, stride } = this.#placement
    return heap + BigInt(rank) * BigInt(stride) + BigInt(offset)
  }

  #transfers(rank: number): Transfers {
    return transfersOf(this.#placement.ranks[rank].device)
  }

  /** Writes elements of a tensor on a rank's heap. A write of only a few words uses no DMA copy (transfers.ts). */
  write(rank: number, offset: number, dtype: StorageDType, contents: ArrayLike<number>): void {
    this.#transfers(rank).write(this.address(rank, offset), dtype, contents)
  }

  fill(rank: number, offset: number, dtype: StorageDType, count: number, value: number): void {
    this.#transfers(rank).fill(this.address(rank, offset), dtype, count, value)
  }

  read(rank: number, offset: number, dtype: StorageDType, count: number): Float64Array {
    return this.#transfers(rank).read(this.address(rank, offset), dtype, count)
  }

  copy(rank: number, offset: number, fromRank: number, fromOffset: number, bytes: number): void {
    this.#transfers(rank).copy(this.address(rank, offset), this.address(fromRank, fromOffset), bytes)
  }
}
