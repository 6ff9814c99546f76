/**
 * Growable columns of numbers, stored as a list of typed arrays (chunks). Growing a column copies nothing and leaves no
 * garbage. Timeline events are stored in columns instead of objects. With columns, a million events cost only tens of
 * megabytes, and a pass over one field reads only that field.
 *
 * The chunks of a long column are in resizable buffers. Resizing a buffer to 0 returns its memory to the operating
 * system at once. Memory that is not in resizable buffers is returned only by the garbage collector and the memory
 * allocator. Resizable buffers are slower to write, so each chunk is first filled in an ordinary buffer.
 */

/**
 * A column of indices, whose element type is as wide as the largest index needs. A column with a `Signed` type may
 * contain -1.
 */
export type Unsigned = Uint8Array | Uint16Array | Uint32Array
export type Signed = Int8Array | Int16Array | Int32Array
type Numbers = Float64Array | Unsigned | Signed

const BITS = 16
const PIECE = 1 << BITS
const MASK = PIECE - 1
const SMALLEST = 64
/** A column with more than this number of chunks counts as long, so its full chunks are in resizable buffers. */
const FEW = 1

export class Column<T extends Numbers> {
  length = 0
  private pieces: T[]
  /** The chunk that is being filled, and the number of values in all chunks before it. */
  private last: T
  private before = 0
  private readonly make: (length: number) => T

  constructor(make: (length: number) => T) {
    this.make = make
    this.last = make(SMALLEST)
    this.pieces = [this.last]
  }

  push(value: number): void {
    if (this.length - this.before === this.last.length) this.grow()
    this.last[this.length++ - this.before] = value
  }

  get(index: number): number {
    return this.pieces[index >>> BITS][index & MASK]
  }

  set(index: number, value: number): void {
    this.pieces[index >>> BITS][index & MASK] = value
  }

  /** Returns the values in the order that `from` gives, empties the column and frees its memory. */
  take(from: Uint32Array): T {
    const taken = this.make(from.length)
    this.moveTo(taken, from)
    return taken
  }

  /** Writes the values to `to` in the order that `from` gives, empties the column and frees its memory. */
  moveTo(to: Numbers, from: Uint32Array): void {
    const { pieces } = this
    // The copy loop is fast only if it handles few array types. The loop therefore collects values in the column's own
    // type, and `set` converts them to the narrower type.
    const picked = this.make(Math.min(from.length, PIECE))
    for (let at = 0; at < from.length; at += PIECE) {
      const count = Math.min(PIECE, from.length - at)
      for (let i = 0; i < count; i++) {
        const index = from[at + i]
        picked[i] = pieces[index >>> BITS][index & MASK]
      }
      to.set(picked.subarray(0, count), at)
    }
    this.clear()
  }

  /**
   * Returns the values of the column in the order in which they were pushed, empties the column and frees its memory.
   */
  all(): T {
    const all = this.make(this.length)
    this.pieces.forEach((piece, i) =>
      all.set(piece.subarray(0, Math.min(piece.length, this.length - i * PIECE)) as never, i * PIECE),
    )
    this.clear()
    return all
  }

  /** Removes all values from the column and frees its memory. */
  clear(): void {
    for (const piece of this.pieces) release(piece)
    this.last = this.make(SMALLEST)
    this.pieces = [this.last]
    this.length = this.before = 0
  }

  /**
   * Allocates space for more values at the end of the column. The first chunk of a column grows by doubling, which
   * saves memory for columns that stay small. All chunks after the first are allocated at their full size.
   */
  private grow(): void {
    if (this.last.length < PIECE) {
      const grown = this.make(this.last.length * 2)
      grown.set(this.last as never)
      this.pieces[0] = grown
      this.last = grown
      return
    }
    if (this.pieces.length > FEW) this.pieces[this.pieces.length - 1] = releasable(this.last)
    else this.last = this.make(PIECE)
    this.pieces.push(this.last)
    this.before = this.length
  }
}

/** A resizable array buffer, as in ES2024. Node supports resizable array buffers since version 20. */
interface ResizableBuffer extends ArrayBuffer {
  readonly resizable: boolean
  resize(bytes: number): void
}

function releasable<T extends Numbers>(piece: T): T {
  const make = ArrayBuffer as new (bytes: number, options: { maxByteLength: number }) => ArrayBuffer
  const buffer = new make(piece.byteLength, { maxByteLength: piece.byteLength })
  const copy = new (piece.constructor as new (buffer: ArrayBuffer, offset: number, length: number) => T)(
    buffer,
    0,
    piece.length,
  )
  copy.set(piece as never)
  return copy
}

function release({ buffer }: Numbers): void {
  const resizable = buffer as ResizableBuffer
  if (resizable.resizable) resizable.resize(0)
}

type Type<T extends Numbers> = {
  readonly BYTES_PER_ELEMENT: number
  new (length: number): T
  new (buffer: ArrayBuffer, offset: number, length: number): T
}

/** The narrowest unsigned array type that can hold indices below `count`. */
export const unsigned = (count: number): Type<Unsigned> =>
  count <= 1 << 8 ? Uint8Array : count <= 1 << 16 ? Uint16Array : Uint32Array
/** The narrowest signed array type that can hold -1 and indices below `count`. */
export const signed = (count: number): Type<Signed> =>
  count <= 1 << 7 ? Int8Array : count <= 1 << 15 ? Int16Array : Int32Array

/** Returns a new, zero-filled array of the same type as `column`. */
export const another = <T extends Numbers>(column: T, length: number): T =>
  new (column.constructor as Type<T>)(length)

/**
 * Allocates columns of equal length in one buffer. The system allocator returns one large buffer to the system when it
 * is freed, while many small buffers leave fragmented memory behind.
 */
export function together<C extends Record<string, Numbers>>(
  length: number,
  types: { readonly [K in keyof C]: Type<C[K]> },
): C {
  // The columns with the widest elements come first, so that each column starts at a multiple of its element size.
  const widest = Object.entries(types).sort(([, a], [, b]) => b.BYTES_PER_ELEMENT - a.BYTES_PER_ELEMENT)
  const width = widest.reduce((sum, [, { BYTES_PER_ELEMENT: bytes }]) => sum + bytes, 0)
  const buffer = new ArrayBuffer(length * width)
  let offset = 0
  return Object.fromEntries(
    widest.map(([name, type]) => {
      const column = new type(buffer, offset, length)
      offset += column.byteLength
      return [name, column]
    }),
  ) as C
}

export const float64 = (length: number): Float64Array => new Float64Array(length)
export const int32 = (length: number): Int32Array => new Int32Array(length)
export const uint32 = (length: number): Uint32Array => new Uint32Array(length)
export const uint8 = (length: number): Uint8Array => new Uint8Array(length)
