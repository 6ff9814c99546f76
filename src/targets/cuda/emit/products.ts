/**
 * Chooses the instruction for a matrix product: the widest one that the shapes, the dtype and the locations of the
 * operands allow.
 *
 *   wgmma     16-bit floats, whole warpgroups of 64 rows. The operands are swizzled shared tiles
 *   swapped   wgmma of the transposed product, for fewer rows, if the columns are a multiple of 64 per warpgroup
 *   mma       16-bit floats, any number of rows: tiles of 16 x 8 by mma.sync, with operands loaded by ldmatrix
 *   elements  all other products: one scalar multiply-add per element and step, in f32 (i32 for i8)
 *
 * The left operand of wgmma can also be in registers. With mma.sync, the padding rows of a partial tile are computed
 * and ignored.
 */
import { dtypes } from '../../../ir/dtype.ts'
import type { Node } from '../../../ir/node.ts'
import type { RefType, ValueType } from '../../../ir/type.ts'
import type { Group } from './groups.ts'
import { isSwappable, spreadOf, type Layout } from './layout.ts'
import { spanOf, tileRoot } from './tiles.ts'

export type Product = 'wgmma' | 'swapped' | 'mma' | 'elements'

/** True if the matrix product uses wgmma, which reads its operands through descriptors. */
export const isByWarpgroups = (product: Product | undefined): boolean =>
  product === 'wgmma' || product === 'swapped'

/** The maximum number of columns of one wgmma instruction. */
const MAX_COLUMNS = 256

/**
 * Returns the number of columns per wgmma instruction for a matrix product with `columns` columns. The number of
 * columns per wgmma instruction is a multiple of 8. If columns are the inner axis of the right operand in shared
 * memory, an instruction covers a whole number of panels (strips of columns). Returns undefined if the columns of the
 * product cannot be divided evenly among instructions.
 */
export function columnsAtOnce(columns: number, right: SharedColumns): number | undefined {
  const step = right.areInner ? Math.min(columns, right.span / 2) : 8
  for (let parts = Math.ceil(columns / MAX_COLUMNS); parts * step <= columns; parts++)
    if (columns % (parts * step) === 0) return columns / parts
  return undefined
}

/** The layout of a right operand's columns in shared memory. */
export interface SharedColumns {
  /** The number of bytes per row of a panel (a strip of columns). */
  readonly span: number
  readonly areInner: boolean
}

/** Returns the instruction kind of a `dot` whose accumulator has the given layout. */
export const productIn = (dot: Node, { kind }: Layout, group: Group): Product =>
  kind === 'swapped' ? 'swapped' : productOf(dot, group)

/**
 * True if wgmma may compute the transposed product instead of mma.sync. wgmma descriptors must be able to address both
 * operands.
 */
export function maySwap(dot: Node, group: Group): boolean {
  const operands = dot.inputs.slice(0, 2)
  return (
    productOf(dot, group) === 'mma' &&
    operands.every((operand, side) => operand.type.kind === 'ref' && rowSpan(operand, side) !== 'none') &&
    (dot.type as ValueType).shape[0] <= MAX_COLUMNS &&
    isSwappable((dot.type as ValueType).shape, group)
  )
}

/** Returns the instruction kind of a `dot`, without considering the transposed form (`swapped`). */
export function productOf(dot: Node, group: Group): Exclude<Product, 'swapped'> {
  if (obstacleOf(dot)) return 'elements'
  const [a, b] = dot.inputs
  const { shape } = dot.type as ValueType
  const spans = [a, b].map(rowSpan)
  const isReadable = spans.every((span) => span !== 'none')
  const right = { span: Number(spans[1]), areInner: !isTransposed(b) }
  const isByWarpgroups =
    spreadOf(shape, group).isWarpgroups && isReadable && columnsAtOnce(shape[1], right) !== undefined
  return isByWarpgroups ? 'wgmma' : 'mma'
}

/** The reason why a matrix product cannot use the matrix unit, and advice about a change that would allow it. */
export interface Obstacle {
  /** True if the dtype alone prevents the use of the matrix unit, whatever the shape is. */
  readonly isDType: boolean
  readonly why: string
  readonly advice: string
}

/**
 * Returns the reason why the matrix unit cannot be used, or undefined if at least mma.sync can compute the matrix
 * product.
 */
export function obstacleOf(dot: Node): Obstacle | undefined {
  const [a, b] = dot.inputs
  const { dtype, shape } = a.type as ValueType
  const [depth, columns] = [shape[1], (dot.type as ValueType).shape[1]]
  if (dtypes[dtype].bytes !== 2)
    return {
      isDType: true,
      why: 'which multiplies bf16 and f16 here',
      advice: 'Use bf16 or f16 operands',
    }
  const because = (why: string, advice: string): Obstacle => ({
    isDType: false,
    why: `because ${why}`,
    advice,
  })
  if (depth % 16 !== 0)
    return because(`K = ${depth} is not a multiple of 16`, 'Use a K that is a multiple of 16')
  if (columns % 8 !== 0)
    return because(`N = ${columns} is not a multiple of 8`, 'Use an N that is a multiple of 8')
  const side = [a, b].findIndex((operand) => rowBytes(operand) % 16 !== 0)
  if (side < 0) return undefined
  return because(
    `the ${['left', 'right'][side]} operand has rows of ${rowBytes([a, b][side])} bytes in shared memory, ` +
      'not a multiple of 16 bytes',
    'Use shared tiles whose rows are a multiple of 16 bytes',
  )
}

/**
 * Returns the swizzle span, in bytes, of an operand in shared memory, or of the shared tile that stages a right operand
 * from registers. Returns 0 for a left operand in registers, and `none` if the rows permit no swizzle.
 */
function rowSpan(operand: Node, side: number): number | 'none' {
  if (operand.type.kind === 'value' && side === 0) return 0
  return spanOf(rowBytes(operand)) || 'none'
}

/** True if a view transposes its tile an odd number of times. */
function isTransposed(operand: Node): boolean {
  if (operand.type.kind === 'value' || operand.inputs.length === 0) return false
  return isTransposed(operand.inputs[0]) !== (operand.op === 'transpose')
}

/** The number of bytes per row of an operand in shared memory, before any transposition. */
function rowBytes(operand: Node): number {
  const type = operand.type.kind === 'ref' ? (tileRoot(operand).type as RefType) : (operand.type as ValueType)
  return type.shape[type.shape.length - 1] * dtypes[type.dtype].bytes
}
