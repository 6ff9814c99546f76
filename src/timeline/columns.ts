/**
 * Growable columns: typed arrays in pieces, so that growing copies nothing and leaves nothing behind. Events live in
 * columns, not in objects, so that a million of them cost tens of megabytes and a pass over one property reads only
 * that property.
 *
 * The pieces of a long column are in buffers that can be resized, because only their memory goes back to the system
 * when it is told to, not when a collector and an allocator get round to it. They are slower to write, so a piece is
 * filled elsewhere first.
 */

type Numbers = Float64Array | Int32Array | Uint32Array | Uint8Array

const BITS = 16
const PIECE = 1 << BITS
const MASK = PIECE - 1
const SMALLEST = 64
/** Columns of more pieces than this are long. */
const FEW = 8

export class Column<T extends Numbers> {
  length = 0
  private pieces: T[]
  /** The piece that is being filled, and how many are in the pieces before it. */
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

  /** The values in the order of `from`; the column is empty afterwards, its memory free. */
  take(from: Uint32Array): T {
    const { pieces } = this
    const taken = this.make(from.length)
    for (let i = 0; i < from.length; i++) taken[i] = pieces[from[i] >>> BITS][from[i] & MASK]
    this.clear()
    return taken
  }

  /** The values in the order in which they came. */
  all(): T {
    const all = this.make(this.length)
    this.pieces.forEach((piece, i) =>
      all.set(piece.subarray(0, Math.min(piece.length, this.length - i * PIECE)) as never, i * PIECE),
    )
    return all
  }

  /** Empties it, and frees its memory. */
  clear(): void {
    for (const piece of this.pieces) release(piece)
    this.last = this.make(SMALLEST)
    this.pieces = [this.last]
    this.length = this.before = 0
  }

  /** The first piece grows by doubling, for columns that stay small; the others are whole from the start. */
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

/** As of ES2024; Node has it since 20. */
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

export const float64 = (length: number): Float64Array => new Float64Array(length)
export const int32 = (length: number): Int32Array => new Int32Array(length)
export const uint32 = (length: number): Uint32Array => new Uint32Array(length)
export const uint8 = (length: number): Uint8Array => new Uint8Array(length)
