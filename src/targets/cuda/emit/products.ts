/**
 * Which instruction multiplies: the widest one that the shapes, the dtype and the operands' places allow.
 *
 *   wgmma     16-bit floats, whole warpgroups of 64 rows: operands by descriptors of swizzled tiles, the left one also from
 *             registers
 *   swapped   wgmma of the transposed product, for fewer rows: what was the right operand has 64 of its columns as rows
 *   mma       16-bit floats, any number of rows: tiles of 16 x 8 by mma.sync, operands by ldmatrix; rows that do not fill a tile
 *             are computed and ignored
 *   elements  everything else: one multiplication and addition an element, in f32 (i32 for i8)
 */
import { dtypes } from '../../../ir/dtype.ts'
import type { Node } from '../../../ir/node.ts'
import type { RefType, ValueType } from '../../../ir/type.ts'
import type { Group } from './groups.ts'
import { isSwappable, spreadOf, type Layout } from './layout.ts'
import { spanOf, tileRoot } from './tiles.ts'

export type Product = 'wgmma' | 'swapped' | 'mma' | 'elements'

/** Whether it is wgmma, which reads its operands by descriptors. */
export const isByWarpgroups = (product: Product | undefined): boolean =>
  product === 'wgmma' || product === 'swapped'

/** What one wgmma has at most. */
const MAX_COLUMNS = 256

/**
 * Columns of each of the wgmmas that so many columns take: eights, or, where columns are what lies side by side, whole panels of the
 * right operand. Undefined: they cannot be shared out evenly.
 */
export function columnsAtOnce(columns: number, right: SharedColumns): number | undefined {
  const step = right.areInner ? Math.min(columns, right.span / 2) : 8
  for (let parts = Math.ceil(columns / MAX_COLUMNS); parts * step <= columns; parts++)
    if (columns % (parts * step) === 0) return columns / parts
  return undefined
}

/** How the columns of a right operand lie in shared memory. */
export interface SharedColumns {
  /** Bytes of a panel's row. */
  readonly span: number
  readonly areInner: boolean
}

/** The product whose accumulator got that layout. */
export const productIn = (dot: Node, { kind }: Layout, group: Group): Product =>
  kind === 'swapped' ? 'swapped' : productOf(dot, group)

/** Whether the transposed product can be had instead: both operands are where descriptors reach them. */
export function maySwap(dot: Node, group: Group): boolean {
  const operands = dot.inputs.slice(0, 2)
  return (
    productOf(dot, group) === 'mma' &&
    operands.every((operand, side) => operand.type.kind === 'ref' && rowSpan(operand, side) !== 'none') &&
    (dot.type as ValueType).shape[0] <= MAX_COLUMNS &&
    isSwappable((dot.type as ValueType).shape, group)
  )
}

/** Unless it is swapped. */
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

/** Why no instruction of the matrix unit takes a product, and what to change. */
export interface Obstacle {
  /** The dtype alone is the reason, whatever the shape. */
  readonly isDType: boolean
  readonly why: string
  readonly advice: string
}

/** Undefined: mma.sync takes it, if wgmma does not. */
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

/** The swizzle a shared operand has, or that of the tile a right operand from registers is staged in. */
function rowSpan(operand: Node, side: number): number | 'none' {
  if (operand.type.kind === 'value' && side === 0) return 0
  return spanOf(rowBytes(operand)) || 'none'
}

/** Whether a view has turned its tile an odd number of times. */
function isTransposed(operand: Node): boolean {
  if (operand.type.kind === 'value' || operand.inputs.length === 0) return false
  return isTransposed(operand.inputs[0]) !== (operand.op === 'transpose')
}

/** Bytes of a row as it lies in shared memory. */
function rowBytes(operand: Node): number {
  const type = operand.type.kind === 'ref' ? (tileRoot(operand).type as RefType) : (operand.type as ValueType)
  return type.shape[type.shape.length - 1] * dtypes[type.dtype].bytes
}
