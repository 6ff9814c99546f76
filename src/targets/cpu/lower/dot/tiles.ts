/**
 * Tiles as a product sees them, and how they are kept. `rows`: as the author declared them, in their own dtype. `panels`: widened
 * to f32 (i8 to i32) and cut along an axis into panels of `width`, each of which is contiguous with the other axis outside:
 *
 *   axis 1   element (r, c) of an R x C tile is number (c / width) * R * width + r * width + c % width
 *   axis 0   element (r, c) is number (r / width) * C * width + c * width + r % width
 *
 * So the right operand of a product has panels of the microkernel's columns, step by step of the inner axis, and one panel as
 * wide as the tile is the tile itself, row by row, widened. The last panel is as wide as the others; what its last places hold
 * does not matter.
 */
import { dtypes, type StorageDType } from '../../../../ir/dtype.ts'
import type { RefType, Shape } from '../../../../ir/type.ts'
import type { CodeFunction, CodeType, Expression, Machine, MemoryKind } from '../../code.ts'

export type TileLayout =
  { readonly kind: 'rows' } | { readonly kind: 'panels'; readonly axis: 0 | 1; readonly width: number }

/** A tile in a program's memory. Strides are in bytes; a transposed view has extents and strides exchanged. */
export interface TileOperand {
  readonly base: Expression
  readonly dtype: StorageDType
  readonly rows: number
  readonly columns: number
  /** Of a tile in panels: as if it were kept by rows in its dtype, so that a transposed view can be told. */
  readonly rowStride: number
  readonly columnStride: number
  /** Of the tile as it was declared, whether or not the view is transposed. */
  readonly layout: TileLayout
}

export const rowsLayout: TileLayout = { kind: 'rows' }

/** What is multiplied and summed: f32, or i32 for i8. */
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

/** Columns of a panel of the right operand: what the microkernel multiplies at once. */
export const panelColumns = (machine: Machine): number => machine.lanes * machine.columns

/** Bytes of one panel's element: everything is widened. */
export const wideBytes = 4

export function panelElements(shape: Shape, layout: Extract<TileLayout, { kind: 'panels' }>): number {
  const [rows, columns] = shape.slice(-2)
  const stages = shape.length > 2 ? shape[0] : 1
  const [along, across] = layout.axis === 1 ? [columns, rows] : [rows, columns]
  return stages * Math.ceil(along / layout.width) * layout.width * across
}

/** How many bytes a tile takes in a layout; a multiple of its element. */
export function panelBytes(type: RefType, layout: TileLayout, _machine: Machine): number {
  if (layout.kind === 'panels') return panelElements(type.shape, layout) * wideBytes
  return type.shape.reduce((product, extent) => product * extent, dtypes[type.dtype].bytes)
}

const functions = new WeakMap<Machine, Map<string, CodeFunction>>()

/** One function for each machine and name: what several products of a module share is rendered once. */
export function sharedFunction(machine: Machine, name: string, make: () => CodeFunction): CodeFunction {
  let known = functions.get(machine)
  if (!known) functions.set(machine, (known = new Map<string, CodeFunction>()))
  let made = known.get(name)
  if (!made) known.set(name, (made = make()))
  return made
}

export const pointers = (...names: string[]): [string, CodeType][] => names.map((name) => [name, 'ptr'])
