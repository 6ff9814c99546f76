/**
 * The frame: a program's memory. A header of words, then what the kernel declares and computes, at offsets known now. Space of
 * a block's fragments is used again after the block; what outlives a block is taken before it is entered.
 */
import { dtypes, type DType } from '../../../ir/dtype.ts'
import type { Shape, ValueType } from '../../../ir/type.ts'
import type { Machine } from '../code.ts'

/** The words that a leader and its roles meet through; all are 0 outside a launch. */
export const header = {
  /** 64 bits of zero: the pointer to the start of the memory. */
  memory: 0,
  /** The launch that the leader runs, by its number on its queue; the roles take part from then on. */
  sequence: 8,
  /** How often roles were started in this launch, or -1 when there will be no more. */
  go: 12,
  /** Which of the kernel's `roles`. */
  which: 16,
  program: 20,
  /** How many times a role has ended in this launch. */
  done: 24,
  /** Arrivals at the barrier of all roles, since the roles were started. */
  meeting: 28,
  bytes: 64,
} as const

/** Rows of a fragment begin on whole vectors, so that a loop may write to a row's end and beyond it. */
export interface Buffer {
  /** From the frame's start. */
  readonly offset: number
  readonly dtype: DType
  readonly rows: number
  readonly columns: number
  /** From row to row, and from element to element; in bytes. */
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

  /** The frame's size: a multiple of 64. */
  get bytes(): number {
    return aligned(this.#high)
  }

  take(bytes: number): number {
    const offset = this.#top
    this.#top = aligned(offset + Math.max(bytes, 1))
    this.#high = Math.max(this.#high, this.#top)
    return offset
  }

  /** What is taken within is free again afterwards. */
  scope<T>(body: () => T): T {
    const mark = this.#top
    try {
      return body()
    } finally {
      this.#top = mark
    }
  }

  /** What is taken within stays taken, inner scopes too: others run at the same time. */
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

/** Bytes of one element in a tensor or a shared tile. */
export const storedBytes = (dtype: DType): number => dtypes[dtype].bytes
