/**
 * Lays out the frame, which is the private memory of one program. The frame consists of a header and the data that the
 * kernel declares and computes, at static offsets. The memory of a block's fragments is reused after the block.
 * Fragments that outlive a block are allocated before the block.
 */
import { dtypes, type DType } from '../../../ir/dtype.ts'
import type { Shape, ValueType } from '../../../ir/type.ts'
import type { Machine } from '../code.ts'

/**
 * The words through which a leader and its roles synchronise; all are 0 while no launch runs.
 */
export const header = {
  /** A word of 64 zero bits, which is loaded as the pointer to the start of the shared memory. */
  memory: 0,
  /**
   * The number of the launch that the leader runs. When the leader writes the launch number, the roles start on that
   * launch.
   */
  sequence: 8,
  /**
   * The number of times that roles were started in this launch; a number larger than any real count means that no start
   * follows.
   */
  go: 12,
  /** The index of the kernel's `roles` node to run. */
  which: 16,
  program: 20,
  /** The number of times that a role has ended in this launch. */
  done: 24,
  /** The number of arrivals at the barrier of all roles since the roles were started. */
  meeting: 28,
  bytes: 64,
} as const

/**
 * A fragment that is stored in the frame (the private memory of a program). The rows of the fragment are padded to
 * whole vectors, so that a loop may write past the end of a row.
 */
export interface Buffer {
  /** The offset of the fragment from the start of the frame, in bytes. */
  readonly offset: number
  readonly dtype: DType
  readonly rows: number
  readonly columns: number
  /** The distances between the rows and between the elements of a stored fragment, in bytes. */
  readonly stride: number
  readonly element: number
}

const alignment = 64
const aligned = (bytes: number): number => Math.ceil(bytes / alignment) * alignment

export const extentsOf = (shape: Shape): readonly [rows: number, columns: number] =>
  shape.length === 2 ? [shape[0], shape[1]] : [1, shape[0] ?? 1]

export class FrameLayout {
  #top = header.bytes as number
  #high = header.bytes as number

  /** The number of bytes of the frame, a multiple of 64. */
  get bytes(): number {
    return aligned(this.#high)
  }

  take(bytes: number): number {
    const offset = this.#top
    this.#top = aligned(offset + Math.max(bytes, 1))
    this.#high = Math.max(this.#high, this.#top)
    return offset
  }

  /** Runs `body` and frees the memory that `body` allocated in the frame (the private memory of a program). */
  scope<T>(body: () => T): T {
    const mark = this.#top
    try {
      return body()
    } finally {
      this.#top = mark
    }
  }

  /** Runs `body` and does not reuse the frame memory that it allocated, because other roles run at the same time. */
  apart<T>(body: () => T): T {
    const high = this.#high
    this.#high = this.#top
    try {
      return body()
    } finally {
      this.#top = this.#high
      this.#high = Math.max(high, this.#high)
    }
  }

  fragment(type: ValueType, machine: Machine): Buffer {
    const [rows, columns] = extentsOf(type.shape)
    const element = type.dtype === 'i64' ? 8 : 4
    const lanes = columns === 1 ? 1 : machine.lanes
    const stride = Math.ceil(columns / lanes) * lanes * element
    return { offset: this.take(rows * stride), dtype: type.dtype, rows, columns, stride, element }
  }
}

/** The number of bytes of one element in a tensor or a shared tile. */
export const storedBytes = (dtype: DType): number => dtypes[dtype].bytes
