/**
 * Lowers the matrix product `dot`: accumulator += a x b, in place. Floats are widened to f32 and summed in f32; i8 is
 * summed in i32. The terms are summed in the order of the inner axis, except that a few partial sums are kept
 * separately. The extents and strides of the operands are compile-time constants and can have any value.
 */
import { dtypes } from '../../../ir/dtype.ts'
import { i32, type Operand, type Writer } from '../build.ts'
import type { Expression, Machine } from '../code.ts'
import { productScratch, type Left, type Product, type Right } from './dot/blocking.ts'
import { isInner } from './dot/inner.ts'
import { productFunction } from './dot/product.ts'
import { numbersOf, wideBytes, type TileOperand } from './dot/tiles.ts'

export { panelBytes, rowsLayout, type TileLayout, type TileOperand } from './dot/tiles.ts'

function leftOf(a: TileOperand): Left {
  if (a.layout.kind === 'rows') return { dtype: a.dtype, rowStride: a.rowStride, stepStride: a.columnStride }
  const { dtype } = numbersOf(a.dtype)
  const { width } = a.layout
  // The tile has a single panel, which is as wide as the tile, so its elements are in row order.
  const transposed = a.rowStride < a.columnStride
  return transposed
    ? { dtype, rowStride: wideBytes, stepStride: width * wideBytes }
    : { dtype, rowStride: width * wideBytes, stepStride: wideBytes }
}

function rightOf(machine: Machine, a: TileOperand, b: TileOperand): Right {
  const { dtype } = numbersOf(b.dtype)
  const extents = { rows: a.rows, columns: b.columns, depth: b.rows }
  // The operand is a transposed view of a tile with a single panel. The panel is in row order, so the view's columns
  // are contiguous.
  if (b.layout.kind === 'panels' && b.rowStride < b.columnStride && b.layout.axis === 1)
    return { kind: 'inner', dtype, columnStride: b.layout.width * wideBytes }
  if (b.layout.kind === 'panels') return { kind: 'panels', dtype }
  const isAlong = b.rowStride === dtypes[b.dtype].bytes && isAlongDepth(a)
  if (isAlong && isInner(machine, extents))
    return { kind: 'inner', dtype: b.dtype, columnStride: b.columnStride }
  return { kind: 'rows', dtype: b.dtype, stepStride: b.rowStride, columnStride: b.columnStride }
}

/** True if the elements of a row of the left operand, which may already be widened, are contiguous in memory. */
function isAlongDepth(a: TileOperand): boolean {
  const { dtype, stepStride } = leftOf(a)
  return stepStride === dtypes[dtype].bytes
}

function productOf(machine: Machine, a: TileOperand, b: TileOperand, sumRow: number): Product {
  if (a.columns !== b.rows)
    throw new Error(`dot: the inner extents differ: [${a.rows}x${a.columns}] x [${b.rows}x${b.columns}]`)
  if (dtypes[a.dtype].kind !== dtypes[b.dtype].kind)
    throw new Error(`dot: cannot multiply ${a.dtype} by ${b.dtype}: both must be floats or both integers`)
  return {
    rows: a.rows,
    columns: b.columns,
    depth: a.columns,
    left: leftOf(a),
    right: rightOf(machine, a, b),
    sumRow,
  }
}

/** The scratch memory in bytes that `emitDot` needs, for any accumulator. */
export const dotScratchBytes = (machine: Machine, a: TileOperand, b: TileOperand): number =>
  productScratch(machine, productOf(machine, a, b, b.columns * wideBytes))

export interface DotOperands {
  readonly a: TileOperand
  readonly b: TileOperand
  /** The address of the accumulator, whose sums are stored in row order as f32, or as i32 for integer operands. */
  readonly accumulator: Expression
  /** The distance between rows of the accumulator, in bytes. */
  readonly accumulatorStride: number
  /**
   * An i32 that is non-zero if the accumulator is uninitialised: the matrix product then replaces its contents. By
   * default, the matrix product is added to the accumulator.
   */
  readonly fresh?: Expression
  /**
   * The address of `dotScratchBytes` bytes that no other code uses at the same time. Scratch memory that is aligned to
   * 64 bytes is fastest.
   */
  readonly scratch: Expression
}

export function emitDot(writer: Writer, machine: Machine, operands: DotOperands): void {
  const { a, b, accumulator, accumulatorStride, scratch, fresh = i32(0) } = operands
  const product = productOf(machine, a, b, accumulatorStride)
  writer.call(productFunction(machine, product), a.base, b.base, accumulator, scratch, fresh)
}

/** A tile of a packed tensor (panels.ts), which a matrix product reads in place. */
export interface PackedOperand {
  /** The address of the first element of the tile in its first panel. */
  readonly base: Operand
  readonly dtype: TileOperand['dtype']
  /** The static extents of the tile. The number of columns is a multiple of the panel width. */
  readonly rows: number
  readonly columns: number
  /**
   * `panelStride` is the distance between panels in bytes (ptr-sized). `rowsInside` and `panelsInside` (i32) are the
   * numbers of rows and panels of the tile that are inside the tensor.
   */
  readonly panelStride: Operand
  readonly rowsInside: Operand
  readonly panelsInside: Operand
}

function packedProduct(a: TileOperand, b: PackedOperand, sumRow: number): Product {
  const right: Right = { kind: 'packed', dtype: b.dtype }
  return { rows: a.rows, columns: b.columns, depth: a.columns, left: leftOf(a), right, sumRow }
}

export const packedDotScratchBytes = (machine: Machine, a: TileOperand, b: PackedOperand): number =>
  productScratch(machine, packedProduct(a, b, b.columns * wideBytes))

/**
 * Computes accumulator += a x b, with b read directly from a packed tensor. Elements outside the tensor contribute
 * nothing to the matrix product.
 */
export function emitPackedDot(
  writer: Writer,
  machine: Machine,
  operands: Omit<DotOperands, 'b'> & { readonly b: PackedOperand },
): void {
  const { a, b, accumulator, accumulatorStride, scratch, fresh = i32(0) } = operands
  const product = productFunction(machine, packedProduct(a, b, accumulatorStride))
  const { base, panelStride, rowsInside, panelsInside } = b
  writer.call(product, a.base, base, accumulator, scratch, fresh, panelStride, rowsInside, panelsInside)
}
