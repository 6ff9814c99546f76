/**
 * `dot`: accumulator += a x b, in place. Floats are widened to f32 and summed in f32, i8 in i32, in the order of the inner axis up
 * to a few sums kept apart. Extents and strides are static and need not be multiples of anything.
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
  // One panel as wide as the tile is the tile by rows, widened.
  const transposed = a.rowStride < a.columnStride
  return transposed
    ? { dtype, rowStride: wideBytes, stepStride: width * wideBytes }
    : { dtype, rowStride: width * wideBytes, stepStride: wideBytes }
}

function rightOf(machine: Machine, a: TileOperand, b: TileOperand): Right {
  const { dtype } = numbersOf(b.dtype)
  const extents = { rows: a.rows, columns: b.columns, depth: b.rows }
  // Its own panel, as wide as the tile, is the tile by rows, widened.
  if (b.layout.kind === 'panels' && b.rowStride < b.columnStride && b.layout.axis === 1)
    return { kind: 'inner', dtype, columnStride: b.layout.width * wideBytes }
  if (b.layout.kind === 'panels') return { kind: 'panels', dtype }
  const isAlong = b.rowStride === dtypes[b.dtype].bytes && isAlongDepth(a)
  if (isAlong && isInner(machine, extents))
    return { kind: 'inner', dtype: b.dtype, columnStride: b.columnStride }
  return { kind: 'rows', dtype: b.dtype, stepStride: b.rowStride, columnStride: b.columnStride }
}

/** Whether neighbours of a row are, or become, neighbours in memory. */
function isAlongDepth(a: TileOperand): boolean {
  const { dtype, stepStride } = leftOf(a)
  return stepStride === dtypes[dtype].bytes
}

function productOf(machine: Machine, a: TileOperand, b: TileOperand, sumRow: number): Product {
  if (a.columns !== b.rows)
    throw new Error(`dot: the inner extents differ: [${a.rows}x${a.columns}] x [${b.rows}x${b.columns}]`)
  if (dtypes[a.dtype].kind !== dtypes[b.dtype].kind)
    throw new Error(`dot: the operands differ: ${a.dtype} and ${b.dtype}`)
  return {
    rows: a.rows,
    columns: b.columns,
    depth: a.columns,
    left: leftOf(a),
    right: rightOf(machine, a, b),
    sumRow,
  }
}

/** What `emitDot` needs of scratch memory, whatever the accumulator. */
export const dotScratchBytes = (machine: Machine, a: TileOperand, b: TileOperand): number =>
  productScratch(machine, productOf(machine, a, b, b.columns * wideBytes))

export interface DotOperands {
  readonly a: TileOperand
  readonly b: TileOperand
  /** f32, or i32 for integers, by rows. */
  readonly accumulator: Expression
  /** Bytes to its next row. */
  readonly accumulatorStride: number
  /** i32: the accumulator holds nothing yet, so the product replaces it; by default it is added to. */
  readonly fresh?: Expression
  /** `dotScratchBytes` of memory that nobody else uses meanwhile; aligned to 64 bytes it is fastest. */
  readonly scratch: Expression
}

export function emitDot(writer: Writer, machine: Machine, operands: DotOperands): void {
  const { a, b, accumulator, accumulatorStride, scratch, fresh = i32(0) } = operands
  const product = productOf(machine, a, b, accumulatorStride)
  writer.call(productFunction(machine, product), a.base, b.base, accumulator, scratch, fresh)
}

/** A tile of a packed tensor (see panels.ts), which a product reads where it lies. */
export interface PackedOperand {
  /** The first panel's first element of the tile. */
  readonly base: Operand
  readonly dtype: TileOperand['dtype']
  /** The tile's static extents; columns are a multiple of a panel's. */
  readonly rows: number
  readonly columns: number
  /** Bytes from one panel to the next, a ptr-sized number; i32: how many rows and panels of the tile exist. */
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

/** accumulator += a x b with b straight from a packed tensor. What lies outside the tensor adds nothing. */
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
