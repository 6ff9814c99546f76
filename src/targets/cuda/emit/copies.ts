/**
 * Copy planning: how each copy between global and shared memory, and each store of an accumulator, moves its bytes.
 *
 *   tensor   the copy engine (TMA), by a tensor map; rank is the map's outermost axis where the tile is another rank's
 *   vector   16 bytes a thread, where rows are known to start at multiples of 16 bytes
 *   element  one element a thread, each masked by itself
 *
 * The engine masks at the tensor's edge. Tiles that may cross the end of a window (`slice`) of rows are copied in boxes of 8
 * rows and of one, those beyond the end from outside the tensor, where the engine reads zeros; windows of columns are served
 * only if tiles are known to end with them.
 */
import { dtypes } from '../../../ir/dtype.ts'
import { attribute, type Node } from '../../../ir/node.ts'
import type { RefType, TensorType } from '../../../ir/type.ts'
import type { Swizzle } from '../tensormap.ts'
import type { Layout } from './layout.ts'
import type { Ranges } from './ranges.ts'
import { hasAlignedRows, type EmitFacts } from './recipe.ts'
import { swizzleOf, tileRoot, type Tile } from './tiles.ts'
import { tileOf, viewOf, type TileView } from './views.ts'

/** A tensor map that the kernel needs; equal ones are one parameter. */
export interface MapPlan {
  readonly tensor: string
  readonly box: readonly number[]
  readonly swizzle: Swizzle
  readonly ranked: boolean
  /** Where it serves parts of tiles: rows of its box. */
  readonly rows?: number
}

/** One box of a tile: where it starts, in the tile's elements and in shared memory. */
export interface Box {
  readonly row: number
  readonly column: number
  readonly offset: number
}

export interface TensorPlan {
  readonly how: 'tensor'
  readonly map: MapPlan
  readonly boxes: readonly Box[]
  readonly bytes: number
  /** Of tiles that may cross the end of a window of rows: maps for 8 rows and for one. */
  readonly ragged?: { readonly eight: MapPlan; readonly one: MapPlan }
}
export type CopyPlan = TensorPlan | { readonly how: 'vector' } | { readonly how: 'element' }

const MAX_BOX = 256

export class CopyPlanner {
  readonly #facts: EmitFacts
  readonly #ranges: Ranges
  readonly #tiles: ReadonlyMap<Node, Tile>
  readonly #plans = new Map<Node, CopyPlan>()

  constructor(facts: EmitFacts, ranges: Ranges, tiles: ReadonlyMap<Node, Tile>) {
    this.#facts = facts
    this.#ranges = ranges
    this.#tiles = tiles
  }

  /** Of `copy.async` and `copy`. */
  ofCopy(node: Node): CopyPlan {
    let plan = this.#plans.get(node)
    if (!plan) this.#plans.set(node, (plan = this.#planCopy(node)))
    return plan
  }

  #planCopy(node: Node): CopyPlan {
    const [source, target] = node.inputs
    if (node.op === 'copy.async' && source.op === 'tile' && target.op !== 'transpose') {
      const plan = this.#tensorPlan(tileOf(source), this.#tiles.get(tileRoot(target))!, target)
      if (plan) return plan
    }
    const isWide = [source, target].every((ref) => this.hasWideRows(ref))
    return { how: isWide ? 'vector' : 'element' }
  }

  #tensorPlan(view: TileView, tile: Tile, target: Node): TensorPlan | undefined {
    const [rows, ...columns] = view.axes.map((_, i) => this.#endsWithTiles(view, i))
    if (!this.#hasMaps(view) || columns.includes(false)) return undefined
    const plan = tensorPlan(view, tile, target)
    return rows || !plan ? plan : raggedPlan(plan, view)
  }

  /** Of a store of a fragment to a global tile: through shared memory by the engine, or undefined. */
  ofStore(node: Node, layout: Layout): TensorPlan | undefined {
    const [target, value, mask] = node.inputs
    if (target.op !== 'tile' || mask || node.attributes.order !== undefined) return undefined
    const { dtype, shape } = value.type as RefType
    const { bytes } = dtypes[dtype]
    if (!layout.spread?.isWarpgroups || !['bf16', 'f16', 'f32'].includes(dtype)) return undefined
    const view = tileOf(target)
    if ((shape[1] * bytes) % 128 !== 0 || !this.#isServed(view)) return undefined
    const width = 128 / bytes
    const boxes: Box[] = []
    for (let row = 0; row < (layout.count * 2) / shape[1]; row++)
      for (let column = 0; column < shape[1]; column += width)
        boxes.push({ row: 64 * row, column, offset: 0 })
    return { how: 'tensor', map: mapOf(view, [width, 64], '128B'), boxes, bytes: 64 * 128 }
  }

  /** Whether 16-byte chunks of a place are aligned and lie inside or outside as a whole. */
  hasWideRows(ref: Node): boolean {
    const { dtype } = ref.type as RefType
    return this.alignment(ref) * dtypes[dtype].bytes === 16
  }

  /** How many elements, up to 16 bytes, can be accessed at once at every multiple of that many in a row of the place. */
  alignment(ref: Node): number {
    const { dtype, shape } = ref.type as RefType
    const most = 16 / dtypes[dtype].bytes
    if (ref.op === 'at' || ref.op === 'transpose' || shape.length === 0) return 1
    const inTile = commonPower(most, shape[shape.length - 1])
    if ((ref.type as RefType).space === 'shared') return inTile
    const view = viewOf(ref.inputs[0])
    const facts = this.#facts.tensors[attribute<string>(view.base, 'name')]
    if (!facts?.aligned) return 1
    const inner = view.axes[view.axes.length - 1]
    const known = [...inner.starts, ...(inner.size ? [inner.size] : [])].map((node) =>
      this.#ranges.divisor(node),
    )
    return [...known, facts.divisors[facts.divisors.length - 1]].reduce(commonPower, inTile)
  }

  #isServed(view: TileView): boolean {
    return this.#hasMaps(view) && view.axes.every((_, i) => this.#endsWithTiles(view, i))
  }

  /** Whether no tile crosses the end of a window along an axis of the view. */
  #endsWithTiles(view: TileView, i: number): boolean {
    const { size } = view.axes[i]
    return !size || this.#ranges.isMultipleOf(size, view.shape[i])
  }

  #hasMaps(view: TileView): boolean {
    const type = view.base.type
    if (type.kind !== 'tensor' || !['bf16', 'f16', 'f32', 'i32', 'u32'].includes(type.dtype)) return false
    const facts = this.#facts.tensors[attribute<string>(view.base, 'name')]
    return facts !== undefined && hasAlignedRows(facts, type.dtype)
  }
}

function tensorPlan(view: TileView, tile: Tile, target: Node): TensorPlan | undefined {
  const { bytes } = dtypes[tile.dtype]
  const shape = (target.type as RefType).shape
  const columns = shape[shape.length - 1]
  const rows = shape.length === 2 ? shape[0] : 1
  // A row of a tile of several rows: its start must suit the engine, and in panels it lies in several places.
  const isRow = shape.length === 1 && target.op === 'pick'
  if (isRow && ((tile.columns * bytes) % 128 !== 0 || tile.span > 0)) return undefined
  if ((columns * bytes) % 16 !== 0) return undefined
  const width = tile.span === 0 ? columns : tile.span / bytes
  if (width > MAX_BOX) return undefined
  const height = Math.min(rows, MAX_BOX)
  if (rows % height !== 0) return undefined
  const boxes: Box[] = []
  for (let column = 0; column < columns; column += width)
    for (let row = 0; row < rows; row += height)
      boxes.push({ row, column, offset: column * bytes * rows + row * width * bytes })
  // Narrow panels of an odd number of rows do not all begin where the engine wants it.
  if (boxes.some(({ offset }) => offset % 128 !== 0)) return undefined
  const box = shape.length === 1 ? [width] : [width, height]
  return { how: 'tensor', map: mapOf(view, box, swizzleOf(tile)), boxes, bytes: rows * columns * bytes }
}

/** The plan with maps for parts of the tile; undefined where a row does not start where the engine wants it. */
function raggedPlan(plan: TensorPlan, view: TileView): TensorPlan | undefined {
  const [width, height, ...picks] = plan.map.box
  const type = view.base.type as TensorType
  if (view.shape.length !== 2 || (width * dtypes[type.dtype].bytes) % 128 !== 0) return undefined
  const map = (rows: number): MapPlan => ({ ...plan.map, box: [width, rows, ...picks], rows })
  return { ...plan, ragged: { eight: map(height % 8 === 0 ? 8 : 1), one: map(1) } }
}

function mapOf(view: TileView, box: readonly number[], swizzle: Swizzle): MapPlan {
  return {
    tensor: attribute<string>(view.base, 'name'),
    box: [...box, ...view.picks.map(() => 1)],
    swizzle,
    ranked: view.owner !== undefined,
  }
}

/** The largest power of two that divides both; `a` is one, and 0 is divided by all. */
function commonPower(a: number, b: number): number {
  return b === 0 ? a : Math.min(a, b & -b)
}
