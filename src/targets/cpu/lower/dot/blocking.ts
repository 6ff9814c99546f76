/** What a product is, statically, and how it is cut into blocks: for the registers, for the caches, and in its scratch memory. */
import { dtypes, type StorageDType } from '../../../../ir/dtype.ts'
import type { Machine } from '../../code.ts'
import { panelColumns, wideBytes } from './tiles.ts'

/** The left operand, with bytes to the next row and to the next step of the inner axis. */
export interface Left {
  readonly dtype: StorageDType
  readonly rowStride: number
  readonly stepStride: number
}
export type Right =
  /** In panels, one after the other. */
  | { readonly kind: 'panels'; readonly dtype: StorageDType }
  /** In panels of a packed tensor: the distance of panels, how deep they are here and how many there are is known at launch. */
  | { readonly kind: 'packed'; readonly dtype: StorageDType }
  /** Its columns lie one after the other, each along the inner axis: see inner.ts. */
  | { readonly kind: 'inner'; readonly dtype: StorageDType; readonly columnStride: number }
  /** As it lies: read in place where that is fast, else cut into panels on the way. */
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
  /** Bytes to the next row of the sums. */
  readonly sumRow: number
}

export const isWide = (dtype: StorageDType): boolean => dtype === 'f32' || dtype === 'i32'
const upTo = (value: number, multiple: number): number => Math.ceil(value / multiple) * multiple
/** Blocks of equal size, none above `most`. */
const evenly = (total: number, most: number, multiple: number): number =>
  upTo(Math.ceil(total / Math.ceil(total / most)), multiple)

/**
 * Rows in blocks of `most`, and what comes after them. A few blocks of one row less are faster than one of very few rows, which
 * would load more than it multiplies.
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
  /** Steps of the inner axis, and rows, in a block. */
  readonly depth: number
  readonly rows: number
  /** Whether the right operand is cut into panels here, and the place of one block's panels in the scratch. */
  readonly packs: 'nothing' | 'edge' | 'panels'
  readonly panels: number
  /** Bytes in the scratch: the sums of a ragged edge, then panels, then the widened left operand. */
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
  // Rows that fit one microkernel read a panel once: there is nothing to keep near.
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

/** Neighbouring columns can be read in place; that pays while few rows read them, or while they stay in the first level. */
function packing(machine: Machine, { rows, columns, depth, right }: Product): Blocking['packs'] {
  if (right.kind !== 'rows') return 'nothing'
  if (right.columnStride !== dtypes[right.dtype].bytes) return 'panels'
  const small = isWide(right.dtype) && depth * right.stepStride <= machine.l1 / 2
  if (rows > machine.rows && !small) return 'panels'
  return (columns % panelColumns(machine)) % machine.lanes === 0 ? 'nothing' : 'edge'
}

export const productScratch = (machine: Machine, product: Product): number =>
  blockingOf(machine, product).scratch
