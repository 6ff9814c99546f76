/** Describes a matrix product statically, and divides it into blocks for registers, caches and scratch memory. */
import { dtypes, type StorageDType } from '../../../../ir/dtype.ts'
import type { Machine } from '../../code.ts'
import { panelColumns, wideBytes } from './tiles.ts'

/** The left operand, with its strides in bytes along rows and along the inner axis. */
export interface Left {
  readonly dtype: StorageDType
  readonly rowStride: number
  readonly stepStride: number
}
export type Right =
  /** The operand is stored as panels, one after the other. */
  | { readonly kind: 'panels'; readonly dtype: StorageDType }
  /**
   * The operand is stored as panels of a packed tensor. The number of panels, their depth and the distance between them
   * are known only at launch.
   */
  | { readonly kind: 'packed'; readonly dtype: StorageDType }
  /** The operand is stored as columns, one after the other, each contiguous along the inner axis (inner.ts). */
  | { readonly kind: 'inner'; readonly dtype: StorageDType; readonly columnStride: number }
  /**
   * The operand is stored in its declared layout. If reading the operand in its declared layout is slow, the operand is
   * first copied into panels.
   */
  | {
      readonly kind: 'rows'
      readonly dtype: StorageDType
      readonly stepStride: number
      readonly columnStride: number
    }

export interface Product {
  readonly rows: number
  readonly columns: number
  readonly depth: number
  readonly left: Left
  readonly right: Right
  /** The distance between rows of the sums, in bytes. */
  readonly sumRow: number
}

export const isWide = (dtype: StorageDType): boolean => dtype === 'f32' || dtype === 'i32'
const upTo = (value: number, multiple: number): number => Math.ceil(value / multiple) * multiple
/**
 * Divides `total` into equal blocks of at most about `most`, and returns the size of a block, rounded up to a multiple
 * of `multiple`.
 */
const evenly = (total: number, most: number, multiple: number): number =>
  upTo(Math.ceil(total / Math.ceil(total / most)), multiple)

/**
 * Divides rows into blocks of `most` rows and a remainder. Making some blocks one row smaller avoids a remainder of
 * very few rows, which would load more data than it multiplies.
 */
export function splitRows(
  rows: number,
  most: number,
): { readonly whole: number; readonly rest: readonly number[] } {
  const left = rows % most
  const blocks = Math.floor(rows / most)
  const smaller = most - left
  if (left > 0 && smaller - 1 <= blocks)
    return { whole: (blocks + 1 - smaller) * most, rest: new Array<number>(smaller).fill(most - 1) }
  return { whole: blocks * most, rest: left > 0 ? [left] : [] }
}

export interface Blocking {
  /** The size of a block: steps of the inner axis, and rows. */
  readonly depth: number
  readonly rows: number
  /** Whether the right operand is copied into panels, and how many panels of one block the scratch memory holds. */
  readonly packs: 'nothing' | 'edge' | 'panels'
  readonly panels: number
  /**
   * Offsets in the scratch memory, in bytes: first the sums of a partial edge, then panels, then the widened left
   * operand.
   */
  readonly panelsAt: number
  readonly leftAt: number
  readonly scratch: number
}

const deepest = 512

export function blockingOf(machine: Machine, product: Product): Blocking {
  const { rows, columns, left } = product
  const width = panelColumns(machine)
  const panelStep = width * wideBytes
  const most = Math.max(16, Math.min(deepest, Math.floor(machine.l1 / 2 / panelStep)))
  // If all rows fit into one microkernel, each panel is read only once, so there is no reason to keep it in a cache.
  const depth = rows <= machine.rows ? product.depth : evenly(product.depth, most, 4)
  const mostRows = Math.max(1, Math.floor(machine.l2 / 2 / (depth * wideBytes) / machine.rows)) * machine.rows
  const blockRows = evenly(rows, mostRows, machine.rows)
  const packs = packing(machine, product)
  const panels =
    packs === 'nothing' ? 0 : packs === 'panels' && blockRows < rows ? Math.ceil(columns / width) : 1
  const panelsAt = upTo(machine.rows * panelStep, 64)
  const leftAt = panelsAt + panels * depth * panelStep
  const leftBytes = isWide(left.dtype) ? 0 : rows * product.depth * wideBytes
  return {
    depth,
    rows: blockRows,
    packs,
    panels,
    panelsAt,
    leftAt,
    scratch: upTo(leftAt + leftBytes, 64),
  }
}

/**
 * Decides how much of the right operand is copied into panels. An operand whose columns are adjacent in memory is read
 * in place if few rows are multiplied by it, or if it stays in the L1 cache.
 */
function packing(machine: Machine, { rows, columns, depth, right }: Product): Blocking['packs'] {
  if (right.kind !== 'rows') return 'nothing'
  if (right.columnStride !== dtypes[right.dtype].bytes) return 'panels'
  const small = isWide(right.dtype) && depth * right.stepStride <= machine.l1 / 2
  if (rows > machine.rows && !small) return 'panels'
  return (columns % panelColumns(machine)) % machine.lanes === 0 ? 'nothing' : 'edge'
}

export const productScratch = (machine: Machine, product: Product): number =>
  blockingOf(machine, product).scratch
