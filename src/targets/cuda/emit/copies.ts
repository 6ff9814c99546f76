/**
 * Decides how each copy between global and shared memory, in either direction, and each store of an accumulator, moves
 * its data.
 *
 *   tensor   TMA with a tensor map; if the tile is on another rank, the rank is the outermost axis of the map
 *   vector   16 bytes per thread, if rows are known to start at multiples of 16 bytes
 *   element  one element per thread, each with its own mask
 *   chunks   4, 8 or 16 bytes per thread by cp.async (in flight, to a shared tile), if rows are aligned to that size
 *
 * TMA masks accesses beyond the edge of the tensor. A tile may cross the end of a window (`slice`) of rows. A tile that
 * crosses the end of its window is copied in boxes of 8 rows and of 1 row. Boxes beyond the end of the window are read
 * from outside the tensor, where TMA returns zeros. TMA handles a window of columns only if tiles are known not to
 * cross the end of the window.
 */
import { dtypes } from '../../../ir/dtype.ts'
import { attribute, type Node } from '../../../ir/node.ts'
import { copyOf, opOf } from '../../../ir/ops/index.ts'
import type { RefType, TensorType } from '../../../ir/type.ts'
import type { Swizzle } from '../tensormap.ts'
import type { Layout } from './layout.ts'
import type { Ranges } from './ranges.ts'
import { hasAlignedRows, type EmitFacts } from './recipe.ts'
import { swizzleOf, tileRoot, type Tile } from './tiles.ts'
import { tileOf, viewOf, type TileView } from './views.ts'

/** A tensor map that the kernel needs. Equal tensor maps share one kernel parameter. */
export interface MapPlan {
  readonly tensor: string
  readonly box: readonly number[]
  readonly swizzle: Swizzle
  readonly ranked: boolean
  /** The number of rows per box, if one TMA copy covers only some rows of a tile. */
  readonly rows?: number
}

/** One box of a tile: its first row and column in the tile, and its byte offset in shared memory. */
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
  /**
   * The rows per strip and the distance between strips in bytes, if each program of a cluster copies one strip of the
   * tile. If each program copies one strip, `boxes` lists the boxes of the first strip, and `bytes` is the size of the
   * whole tile.
   */
  readonly part?: { readonly rows: number; readonly bytes: number }
  /** Tensor maps with boxes of 8 rows and of 1 row, if the tile may cross the end of a window of rows. */
  readonly ragged?: { readonly eight: MapPlan; readonly one: MapPlan }
}
/** The plan of a copy by cp.async, which threads start, and for whose completion the same threads wait. */
export interface ChunksPlan {
  readonly how: 'chunks'
  /** The number of bytes that one cp.async of a thread copies: 4, 8 or 16. */
  readonly bytes: number
}
export type CopyPlan = TensorPlan | ChunksPlan | { readonly how: 'vector' } | { readonly how: 'element' }

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

  /** Returns the plan by which a copy moves its data. */
  ofCopy(node: Node): CopyPlan {
    let plan = this.#plans.get(node)
    if (!plan) this.#plans.set(node, (plan = this.#planCopy(node)))
    return plan
  }

  #planCopy(node: Node): CopyPlan {
    const { source, target, mask } = copyOf(node)!
    const { completes } = opOf(node)
    if (completes === 'at drain') throw new Error(`${node.op} at ${node.site} is a store, not a copy`)
    if (completes === 'at barrier' && source.op === 'tile' && target.op !== 'transpose') {
      const tile = this.#tiles.get(tileRoot(target))!
      const plan = this.#tensorPlan(tileOf(source), tile, target)
      const { parts } = node.attributes
      if (plan && parts) return partPlan(plan, tileOf(source), tile, target, parts as number)
      if (plan) return plan
    }
    if (completes === 'at quiet' && !mask && target.op === 'tile' && isPlainTile(source)) {
      const view = tileOf(target)
      const plan = this.#isServed(view) && tensorPlan(view, this.#tiles.get(tileRoot(source))!, source)
      if (plan) return plan
    }
    if (completes === 'at quiet' && !this.#obstacle(node)) return { how: 'chunks', bytes: this.#chunk(node) }
    const isWide = [source, target].every((ref) => this.hasWideRows(ref))
    return { how: isWide ? 'vector' : 'element' }
  }

  /**
   * Returns the reason why a copy must be synchronous, because neither TMA nor cp.async can make it. Returns undefined
   * if TMA or cp.async can make the copy.
   */
  atOnce(node: Node): string | undefined {
    const { how } = this.ofCopy(node)
    return how === 'tensor' || how === 'chunks' ? undefined : this.#obstacle(node)!
  }

  /** Returns the reason why cp.async cannot make a copy. */
  #obstacle(node: Node): string | undefined {
    const { source, target, mask } = copyOf(node)!
    const spaces = [source, target].map(({ type }) => (type as RefType).space)
    if (spaces.join() === 'shared,global')
      return 'TMA needs aligned rows, tiles that do not cross the end of a window, and no mask'
    if (spaces.join() !== 'global,shared') return 'the copy does not write to a shared tile'
    if (mask) return 'the copy has a mask'
    if ([source, target].some(({ op }) => op === 'at')) return 'the copy gathers or scatters single elements'
    const bytes = this.#chunk(node)
    return bytes < 4
      ? `cp.async needs rows at multiples of 4 bytes, but rows are only known to start at multiples of ${bytes} bytes`
      : undefined
  }

  /**
   * Returns the largest size of a cp.async chunk, up to 16 bytes, for which every chunk is aligned and entirely inside
   * or entirely outside the tensor.
   */
  #chunk(node: Node): number {
    const { source, target } = copyOf(node)!
    const { dtype } = source.type as RefType
    return Math.min(this.alignment(source), this.alignment(target)) * dtypes[dtype].bytes
  }

  /** True if TMA can copy the tile in `parts` strips of equal height, each with boxes of its own. */
  canBeParted(node: Node, parts: number): boolean {
    const plan = this.ofCopy(node)
    const { shape } = copyOf(node)!.target.type as RefType
    return plan.how === 'tensor' && !plan.ragged && shape.length === 2 && shape[0] % (8 * parts) === 0
  }

  #tensorPlan(view: TileView, tile: Tile, target: Node): TensorPlan | undefined {
    const [rows, ...columns] = view.axes.map((_, i) => this.#endsWithTiles(view, i))
    if (!this.#hasMaps(view) || columns.includes(false)) return undefined
    const plan = tensorPlan(view, tile, target)
    return rows || !plan ? plan : raggedPlan(plan, view)
  }

  /**
   * Returns the plan for storing a fragment to a global tile by TMA from shared memory. Returns undefined if TMA cannot
   * be used.
   */
  ofStore(node: Node, layout: Layout): TensorPlan | undefined {
    const [target, value] = node.inputs
    const mask = node.op === 'store' ? node.inputs[2] : undefined
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

  /**
   * True if all 16-byte chunks of the referenced memory are aligned, and each is entirely inside or entirely outside
   * the tensor.
   */
  hasWideRows(ref: Node): boolean {
    const { dtype } = ref.type as RefType
    return this.alignment(ref) * dtypes[dtype].bytes === 16
  }

  /** The number of elements per aligned vector access in a row of the referenced memory, at most 16 bytes. */
  alignment(ref: Node): number {
    const { dtype, shape } = ref.type as RefType
    const most = 16 / dtypes[dtype].bytes
    if (ref.op === 'at' || ref.op === 'transpose' || shape.length === 0) return 1
    const inTile = commonPower(most, shape[shape.length - 1])
    if ((ref.type as RefType).space === 'shared') return inTile
    const view = viewOf(ref.inputs[0])
    const facts = this.#facts.tensors[attribute<string>(view.base, 'name')]
    if (!facts) return 1
    const inner = view.axes[view.axes.length - 1]
    const known = [...inner.starts, ...(inner.size ? [inner.size] : [])].map((node) =>
      this.#ranges.divisor(node),
    )
    return [...known, facts.divisors[facts.divisors.length - 1]].reduce(commonPower, inTile)
  }

  #isServed(view: TileView): boolean {
    return this.#hasMaps(view) && view.axes.every((_, i) => this.#endsWithTiles(view, i))
  }

  /** True if no tile crosses the end of the view's window along axis `i`. */
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

/** True for a shared tile, or a stage or row of a shared tile, that is not transposed. */
const isPlainTile = (ref: Node): boolean =>
  ref.op === 'shared' || (ref.op === 'pick' && isPlainTile(ref.inputs[0]))

/** Returns the plan for a copy by TMA between a tile of a tensor and a view of a shared tile, in either direction. */
function tensorPlan(view: TileView, tile: Tile, inShared: Node, parts = 1): TensorPlan | undefined {
  const { bytes } = dtypes[tile.dtype]
  const shape = (inShared.type as RefType).shape
  const columns = shape[shape.length - 1]
  const rows = shape.length === 2 ? shape[0] : 1
  const boxRows = rows / parts
  // TMA can copy one row of a larger shared tile only if the row starts at a multiple of 128 bytes. A row of a swizzled
  // tile is not contiguous.
  const isRow = shape.length === 1 && inShared.op === 'pick'
  if (isRow && ((tile.columns * bytes) % 128 !== 0 || tile.span > 0)) return undefined
  if ((columns * bytes) % 16 !== 0) return undefined
  const width = tile.span === 0 ? columns : tile.span / bytes
  if (width > MAX_BOX) return undefined
  const height = Math.min(boxRows, MAX_BOX)
  if (boxRows % height !== 0) return undefined
  const boxes: Box[] = []
  for (let column = 0; column < columns; column += width)
    for (let row = 0; row < boxRows; row += height)
      boxes.push({ row, column, offset: column * bytes * rows + row * width * bytes })
  // If panels (strips of columns) are narrow and have an odd number of rows, they may start at addresses that TMA does
  // not accept.
  if (boxes.some(({ offset }) => offset % 128 !== 0)) return undefined
  const box = shape.length === 1 ? [width] : [width, height]
  return { how: 'tensor', map: mapOf(view, box, swizzleOf(tile)), boxes, bytes: rows * columns * bytes }
}

/** Returns the plan for one strip of a tile, where each program of a cluster copies one strip. */
function partPlan(plan: TensorPlan, view: TileView, tile: Tile, target: Node, parts: number): TensorPlan {
  const { boxes, map } = tensorPlan(view, tile, target, parts)!
  const rows = (target.type as RefType).shape[0] / parts
  return { ...plan, boxes, map, part: { rows, bytes: rows * map.box[0] * dtypes[tile.dtype].bytes } }
}

/**
 * Adds tensor maps with boxes of 8 rows and of 1 row to the plan. Returns undefined if rows do not start at multiples
 * of 128 bytes, as TMA requires.
 */
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

/**
 * Returns the largest power of two that divides both numbers. `a` must be a power of two. Every power of two divides 0.
 */
function commonPower(a: number, b: number): number {
  return b === 0 ? a : Math.min(a, b & -b)
}
