/**
 * Implements memory with shadow state for each element: its last writer, and its readers since that write. With shadow
 * state, two accesses that are not ordered by happens-before are found in whichever order they ran. Strong accesses
 * have a separate history (atomics.ts).
 */
import type { DType } from '../../ir/dtype.ts'
import type { Node } from '../../ir/node.ts'
import type { Identity } from './agent.ts'
import type { Location } from './atomics.ts'
import type { Clock } from './clock.ts'

/** The value that marks an element which was never written. */
const NOBODY = -1
/**
 * The value that marks an element which only strong accesses have written. The location's history of strong accesses
 * records who wrote the element.
 */
const STRONGLY = -2

export interface Allocation {
  readonly name: string
  readonly dtype: DType
  readonly shape: readonly number[]
  readonly strides: readonly number[]
  /** The memory of a tensor or shared tile: one buffer per rank. A shared tile has one buffer in total. */
  readonly buffers: readonly Buffer[]
}

/** The component that performs an access, with its identity, its clock and the node it executes. */
export interface Accessor {
  readonly identity: Identity
  readonly clock: Clock
  /** The logical time of the component. */
  readonly time: number
  readonly kernel: string
  readonly node: Node | undefined
  /**
   * The clock that determines which reads are ordered before a write by this accessor. By default, the accessor's
   * `clock` determines which reads are ordered before the write.
   */
  readonly afterReads?: Clock
}

export interface Conflict {
  readonly earlier: { readonly component: number; readonly node: Node | undefined; readonly writes: boolean }
}

export class Buffer {
  readonly name: string
  /** A name for the buffer that is unique and equal in every run. */
  readonly key: string
  readonly rank: number
  readonly shape: readonly number[]
  readonly data: Float64Array
  readonly #note: string
  readonly #writer: Int32Array
  readonly #writeTime: Int32Array
  readonly #writeNode: (Node | undefined)[]
  /** The readers of each element since its last write: one linked list per element, all in one pool. */
  readonly #firstReader: Int32Array
  #readers: Int32Array = new Int32Array(64 * 3)
  #readerNodes: (Node | undefined)[] = []
  #readerCount = 0
  /** The histories of the elements that strong operations accessed. */
  readonly locations = new Map<number, Location>()

  /** The argument `note` is a suffix for the buffer's description. */
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

  /** Returns the last write of an element if that write is not ordered before the access `by`. */
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

  /**
   * Records a read if a quick check shows that it causes no finding. If the full check is necessary, this function
   * returns false and records nothing.
   */
  readQuickly(i: number, by: Accessor): boolean {
    const writer = this.#writer[i]
    if (writer < 0 || by.clock.get(writer) < this.#writeTime[i]) return false
    if (this.locations.size > 0 && this.locations.has(i)) return false
    this.noteRead(i, by)
    return true
  }

  /**
   * Records a read by an agent or an asynchronous copy. If an earlier read is ordered before the new read, only the new
   * read is kept, because an access that is ordered after the new read is also ordered after the earlier read.
   */
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

  /** The name of an element in messages, for example "inbox[2, 5] of rank 1". */
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
