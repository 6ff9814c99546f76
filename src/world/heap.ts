/**
 * The allocator of a heap manages offsets in a range of bytes. The allocator uses best fit over free blocks, grouped by
 * size class, and merges adjacent free blocks immediately. The same sequence of calls yields the same offsets, so that
 * an allocation has the same offset on every rank and in every process of a world.
 */

/**
 * Every block on a heap begins and ends at a multiple of this many bytes. Cache lines have 64 bytes on CPUs and 128 on
 * GPUs: if the rows of a tensor straddle lines, a GPU fetches more lines for them. Vendor libraries for GPUs assume an
 * alignment of 256 bytes.
 */
export const granule = 256
export const mostAlignment = 65536

interface Block {
  offset: number
  bytes: number
  free: boolean
  before: Block | undefined
  after: Block | undefined
}

/** The error that is thrown if no free block is large enough. */
export class OutOfHeap extends Error {
  override readonly name = 'OutOfHeap'
  readonly asked: number
  readonly heap: Heap
  constructor(asked: number, heap: Heap) {
    super(
      `${bytesText(asked)} do not fit the heap of ${bytesText(heap.bytes)}: ${bytesText(heap.used)} are used, ` +
        `${bytesText(heap.bytes - heap.used)} free, ${bytesText(heap.largest)} in one piece`,
    )
    this.asked = asked
    this.heap = heap
  }
}

const units = ['bytes', 'KiB', 'MiB', 'GiB'] as const

/** Formats a number of bytes to four significant digits with a unit. */
export function bytesText(bytes: number): string {
  let [amount, unit] = [bytes, 0]
  while (amount >= 1024 && unit < units.length - 1) {
    amount /= 1024
    unit++
  }
  return `${unit === 0 ? amount : Number(amount.toPrecision(4))} ${units[unit]}`
}

/**
 * The index of a block's size class. There are eight size classes per power of two, counted in granules (the smallest
 * block size).
 */
function sizeClass(bytes: number): number {
  const granules = bytes / granule
  const power = Math.floor(Math.log2(granules))
  return power < 3 ? granules : power * 8 + Math.floor(granules / 2 ** (power - 3)) - 8
}

const isPowerOfTwo = (n: number): boolean => n > 0 && Number.isInteger(Math.log2(n))
const roundUp = (n: number, to: number): number => Math.ceil(n / to) * to

export class Heap {
  readonly bytes: number
  #used = 0
  #reached = 0
  /** The free blocks by size class. The free blocks within a size class are unordered. */
  readonly #free: Set<Block>[] = []
  readonly #taken = new Map<number, Block>()

  constructor(bytes: number) {
    this.bytes = Math.floor(bytes / granule) * granule
    if (this.bytes > 0)
      this.#putBack({ offset: 0, bytes: this.bytes, free: true, before: undefined, after: undefined })
  }

  get used(): number {
    return this.#used
  }

  /** The highest heap offset that an allocation has ever reached. */
  get reached(): number {
    return this.#reached
  }

  /** The size of the largest free block in bytes. */
  get largest(): number {
    for (let at = this.#free.length - 1; at >= 0; at--) {
      let most = 0
      for (const { bytes } of this.#free[at] ?? []) most = Math.max(most, bytes)
      if (most > 0) return most
    }
    return 0
  }

  /** The number of free blocks of the heap. */
  get pieces(): number {
    return this.#free.reduce((sum, blocks) => sum + (blocks?.size ?? 0), 0)
  }

  /**
   * Allocates a block and returns its offset. An allocation of zero bytes takes one granule, so that no two allocations
   * share an offset.
   */
  allocate(bytes: number, alignment: number = granule): number {
    if (!Number.isInteger(bytes) || bytes < 0)
      throw new RangeError(`an allocation of ${bytes} bytes: it must be a whole number, 0 or more`)
    if (!isPowerOfTwo(alignment) || alignment > mostAlignment)
      throw new RangeError(
        `an alignment of ${alignment} bytes: it must be a power of two up to ${mostAlignment}`,
      )
    const size = Math.max(roundUp(bytes, granule), granule)
    const found = this.#find(size, Math.max(alignment, granule))
    if (!found) throw new OutOfHeap(bytes, this)
    const { block, start } = found
    this.#takeOut(block)
    if (start > block.offset) this.#putBack(this.#split(block, start - block.offset, 'before'))
    if (block.bytes > size) this.#putBack(this.#split(block, size, 'after'))
    block.free = false
    this.#taken.set(block.offset, block)
    this.#used += block.bytes
    this.#reached = Math.max(this.#reached, block.offset + block.bytes)
    return block.offset
  }

  /** Frees the block at an offset that `allocate` returned. */
  free(offset: number): void {
    const block = this.#taken.get(offset)
    if (!block) throw new RangeError(`there is no allocation at ${offset}`)
    this.#taken.delete(offset)
    this.#used -= block.bytes
    for (const neighbour of [block.before, block.after])
      if (neighbour?.free) {
        this.#takeOut(neighbour)
        this.#absorb(block, neighbour)
      }
    this.#putBack(block)
  }

  /**
   * Finds the smallest fitting block in the first size class that has a fitting block. Among free blocks of equal size,
   * the one with the lowest offset is used.
   */
  #find(size: number, alignment: number): { block: Block; start: number } | undefined {
    for (let at = sizeClass(size); at < this.#free.length; at++) {
      let best: Block | undefined
      for (const block of this.#free[at] ?? []) {
        if (roundUp(block.offset, alignment) + size > block.offset + block.bytes) continue
        if (!best || block.bytes < best.bytes || (block.bytes === best.bytes && block.offset < best.offset))
          best = block
      }
      if (best) return { block: best, start: roundUp(best.offset, alignment) }
    }
    return undefined
  }

  /**
   * Splits a block at `bytes` bytes from its start. The argument `part` selects the section that is returned; `block`
   * keeps the rest.
   */
  #split(block: Block, bytes: number, part: 'before' | 'after'): Block {
    const rest: Block =
      part === 'before'
        ? { offset: block.offset, bytes, free: true, before: block.before, after: block }
        : {
            offset: block.offset + bytes,
            bytes: block.bytes - bytes,
            free: true,
            before: block,
            after: block.after,
          }
    if (part === 'before') {
      if (block.before) block.before.after = rest
      block.before = rest
      block.offset += bytes
      block.bytes -= bytes
    } else {
      if (block.after) block.after.before = rest
      block.after = rest
      block.bytes = bytes
    }
    return rest
  }

  #absorb(block: Block, neighbour: Block): void {
    if (neighbour === block.before) {
      block.offset = neighbour.offset
      block.before = neighbour.before
      if (block.before) block.before.after = block
    } else {
      block.after = neighbour.after
      if (block.after) block.after.before = block
    }
    block.bytes += neighbour.bytes
  }

  #putBack(block: Block): void {
    block.free = true
    const at = sizeClass(block.bytes)
    while (this.#free.length <= at) this.#free.push(new Set())
    this.#free[at].add(block)
  }

  #takeOut(block: Block): void {
    this.#free[sizeClass(block.bytes)].delete(block)
  }
}
