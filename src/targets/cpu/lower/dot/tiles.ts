/**
 * Describes the operand tiles of a matrix product and their layouts. The layout `rows` is the declared layout, in the
 * declared dtype. In the layout `panels`, elements are widened to f32 (i8 to i32) and divided along one axis into
 * panels of `width`. Each panel is contiguous in memory and consists of vectors of `width` elements along that axis:
 *
 *   axis 1   element (r, c) of an R x C tile has index (c / width) * R * width + r * width + c % width
 *   axis 0   element (r, c) has index (r / width) * C * width + c * width + r % width
 *
 * The right operand of a matrix product has panels as wide as the microkernel, ordered by steps of the inner axis. A
 * tile with a single panel along axis 1 is the widened tile in row order. The last panel has full width, and its
 * padding may contain any values.
 */
import { dtypes, type StorageDType } from '../../../../ir/dtype.ts'
import type { RefType, Shape } from '../../../../ir/type.ts'
import type { CodeFunction, CodeType, Expression, Machine, MemoryKind } from '../../code.ts'

export type TileLayout =
  { readonly kind: 'rows' } | { readonly kind: 'panels'; readonly axis: 0 | 1; readonly width: number }

/**
 * A tile in a program's memory. The strides of a tile are in bytes. A transposed view of a tile has its extents and
 * strides exchanged.
 */
export interface TileOperand {
  readonly base: Expression
  readonly dtype: StorageDType
  readonly rows: number
  readonly columns: number
  /**
   * The byte strides of the tile. For a tile in panels, the strides that the tile would have in row order, which show
   * whether the view is transposed.
   */
  readonly rowStride: number
  readonly columnStride: number
  /** The layout of the declared tile, regardless of whether the view is transposed. */
  readonly layout: TileLayout
}

export const rowsLayout: TileLayout = { kind: 'rows' }

/** The types used for multiplying and summing: f32, or i32 for i8. */
export interface Numbers {
  readonly dtype: 'f32' | 'i32'
  readonly memory: MemoryKind
  readonly vector: 'vf32' | 'vi32'
  readonly scalar: 'f32' | 'i32'
}
export const numbersOf = (dtype: StorageDType): Numbers =>
  dtypes[dtype].kind === 'int'
    ? { dtype: 'i32', memory: 'i32', vector: 'vi32', scalar: 'i32' }
    : { dtype: 'f32', memory: 'f32', vector: 'vf32', scalar: 'f32' }

/** The number of columns of a panel of the right operand, which is the width of the microkernel. */
export const panelColumns = (machine: Machine): number => machine.lanes * machine.columns

/** The number of bytes of one element in a panel, where all elements are widened. */
export const wideBytes = 4

export function panelElements(shape: Shape, layout: Extract<TileLayout, { kind: 'panels' }>): number {
  const [rows, columns] = shape.slice(-2)
  const stages = shape.length > 2 ? shape[0] : 1
  const [along, across] = layout.axis === 1 ? [columns, rows] : [rows, columns]
  return stages * Math.ceil(along / layout.width) * layout.width * across
}

/** The number of bytes of a tile in the given layout. */
export function panelBytes(type: RefType, layout: TileLayout, _machine: Machine): number {
  if (layout.kind === 'panels') return panelElements(type.shape, layout) * wideBytes
  return type.shape.reduce((product, extent) => product * extent, dtypes[type.dtype].bytes)
}

const functions = new WeakMap<Machine, Map<string, CodeFunction>>()

/** Returns one function per machine and name, so that code shared by several products of a module is rendered once. */
export function sharedFunction(machine: Machine, name: string, make: () => CodeFunction): CodeFunction {
  let known = functions.get(machine)
  if (!known) functions.set(machine, (known = new Map<string, CodeFunction>()))
  let made = known.get(name)
  if (!made) known.set(name, (made = make()))
  return made
}

export const pointers = (...names: string[]): [string, CodeType][] => names.map((name) => [name, 'ptr'])
