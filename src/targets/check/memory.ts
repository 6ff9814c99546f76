/**
 * Memory with a shadow: for each element who wrote it last and who has read it since, so that two accesses that are not ordered
 * by happens-before are found whatever order they took place in. Strong accesses have a history of their own (atomics.ts).
 */
import type { DType } from '../../ir/dtype.ts'
import type { Node } from '../../ir/node.ts'
import type { Identity } from './agent.ts'
import type { Location } from './atomics.ts'
import type { Clock } from './clock.ts'

/** Never written by anyone. */
const NOBODY = -1
/** Written, but only with an order; the location's history knows by whom. */
const STRONGLY = -2

export interface Allocation {
  readonly name: string
  readonly dtype: DType
  readonly shape: readonly number[]
  readonly strides: readonly number[]
  /** One a rank; a shared tile has one. */
  readonly buffers: readonly Buffer[]
}

/** Who is accessing: a component with its identity, clock and the node that does it. */
export interface Accessor {
  readonly identity: Identity
  readonly clock: Clock
  /** The time of the component itself. */
  readonly time: number
  readonly kernel: string
  readonly node: Node | undefined
  /** Reads that a write of it comes after; undefined: those that `clock` knows. */
  readonly afterReads?: Clock
}

export interface Conflict {
  readonly earlier: { readonly component: number; readonly node: Node | undefined; readonly writes: boolean }
}

export class Buffer {
  readonly name: string
  /** The same in every run, and unlike any other buffer's. */
  readonly key: string
  readonly rank: number
  readonly shape: readonly number[]
  readonly data: Float64Array
  readonly #note: string
  readonly #writer: Int32Array
  readonly #writeTime: Int32Array
  readonly #writeNode: (Node | undefined)[]
  /** Readers since the last write: a linked list an element, in one pool. */
  readonly #firstReader: Int32Array
  #readers: Int32Array = new Int32Array(64 * 3)
  #readerNodes: (Node | undefined)[] = []
  #readerCount = 0
  /** Histories of elements that were accessed with an order. */
  readonly locations = new Map<number, Location>()

  /** `note` ends its description. */
  constructor(
    name: string,
    key: string,
    rank: number,
    shape: readonly number[],
    elements: number,
    note = rank >= 0 ? ` of rank ${rank}` : '',
  ) {
    this.name = name
    this.#note = note
    this.key = key
    this.rank = rank
    this.shape = shape
    this.data = new Float64Array(elements).fill(NaN)
    this.#writer = new Int32Array(elements).fill(NOBODY)
    this.#writeTime = new Int32Array(elements)
    this.#writeNode = new Array<Node | undefined>(elements)
    this.#firstReader = new Int32Array(elements).fill(-1)
  }

  isWritten(i: number): boolean {
    return this.#writer[i] !== NOBODY
  }

  /** A write that is not ordered before `by`, if there is one. */
  conflictingWrite(i: number, by: Accessor): Conflict | undefined {
    const writer = this.#writer[i]
    if (writer < 0 || by.clock.get(writer) >= this.#writeTime[i]) return undefined
    return { earlier: { component: writer, node: this.#writeNode[i], writes: true } }
  }

  conflictingRead(i: number, by: Accessor): Conflict | undefined {
    const { clock, afterReads = clock } = by
    for (let at = this.#firstReader[i]; at >= 0; at = this.#readers[at * 3 + 2]) {
      const reader = this.#readers[at * 3]
      if (afterReads.get(reader) < this.#readers[at * 3 + 1])
        return { earlier: { component: reader, node: this.#readerNodes[at], writes: false } }
    }
    return undefined
  }

  /** Read where nothing can be wrong; false where somebody has to look closer, and nothing was noted. */
  readQuickly(i: number, by: Accessor): boolean {
    const writer = this.#writer[i]
    if (writer < 0 || by.clock.get(writer) < this.#writeTime[i]) return false
    if (this.locations.size > 0 && this.locations.has(i)) return false
    this.noteRead(i, by)
    return true
  }

  /** A read that comes after an earlier one stands for it: whoever is ordered after this one is ordered after both. */
  noteRead(i: number, by: Accessor): void {
    const { component } = by.identity
    const { time } = by
    for (let at = this.#firstReader[i]; at >= 0; at = this.#readers[at * 3 + 2]) {
      const reader = this.#readers[at * 3]
      if (reader !== component && by.clock.get(reader) < this.#readers[at * 3 + 1]) continue
      this.#readers[at * 3] = component
      this.#readers[at * 3 + 1] = time
      this.#readerNodes[at] = by.node
      return
    }
    const at = this.#readerCount++
    if (at * 3 >= this.#readers.length) {
      const grown = new Int32Array(this.#readers.length * 2)
      grown.set(this.#readers)
      this.#readers = grown
    }
    this.#readers[at * 3] = component
    this.#readers[at * 3 + 1] = time
    this.#readers[at * 3 + 2] = this.#firstReader[i]
    this.#readerNodes[at] = by.node
    this.#firstReader[i] = at
  }

  noteWrite(i: number, by: Accessor): void {
    const { component } = by.identity
    this.#writer[i] = component
    this.#writeTime[i] = by.time
    this.#writeNode[i] = by.node
    this.#firstReader[i] = -1
  }

  noteStrongWrite(i: number, value: number): void {
    if (this.#writer[i] === NOBODY) this.#writer[i] = STRONGLY
    this.data[i] = value
  }

  /** "inbox[2, 5] of rank 1" */
  describe(i: number): string {
    const indices: number[] = []
    let rest = i
    for (let axis = this.shape.length - 1; axis >= 0; axis--) {
      indices.unshift(rest % this.shape[axis])
      rest = Math.floor(rest / this.shape[axis])
    }
    const at = indices.length > 0 ? `[${indices.join(', ')}]` : ''
    return `${this.name}${at}${this.#note}`
  }
}

export function rowMajor(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length)
  let stride = 1
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = stride
    stride *= shape[axis]
  }
  return strides
}
