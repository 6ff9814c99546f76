/**
 * Decomposes views into their tensor, rank, windows and axis indices. The tensor, rank, windows and indices are IR
 * nodes, not emitted text.
 */
import { attribute, type Node } from '../../../ir/node.ts'
import { entryOf, type ViewName } from '../../../ir/ops/index.ts'
import type { Shape } from '../../../ir/type.ts'
import type { Ranges } from './ranges.ts'

/** An axis of the tensor that is also an axis of the view. */
export interface ViewAxis {
  readonly axis: number
  /** The starts of the nested windows along one axis. The sum of the starts is the start of the view. */
  readonly starts: readonly Node[]
  /** The extent of the innermost window; undefined for the full extent of the tensor. */
  readonly size: Node | undefined
}

export interface TensorView {
  readonly base: Node
  /** The rank whose copy of the tensor is viewed; undefined for the executing rank. */
  readonly owner: Node | undefined
  readonly axes: readonly ViewAxis[]
  /** The axes of the tensor that a `pick` has removed, each with the picked index. */
  readonly picks: readonly { readonly axis: number; readonly index: Node; readonly starts: readonly Node[] }[]
}

/** Decomposes a tensor-typed node into a view of its tensor parameter. */
export function viewOf(node: Node): TensorView {
  if (node.op === 'param') {
    const rank = node.type.kind === 'tensor' ? node.type.rank : 0
    const axes = Array.from({ length: rank }, (_, axis) => ({ axis, starts: [], size: undefined }))
    return { base: node, owner: undefined, axes, picks: [] }
  }
  return entryOf(views, node, 'is not a view of a tensor')(node, viewOf(node.inputs[0]))
}

/** True for the views that `viewOf` can decompose. For example, `viewOf` cannot decompose gathered rows. */
export const hasView = ({ op }: Node): boolean => Object.hasOwn(views, op)

const views: Readonly<Partial<Record<ViewName, (node: Node, of: TensorView) => TensorView>>> = {
  on: ({ inputs: [, owner] }, view) => ({ ...view, owner: owner.op === 'rank' ? undefined : owner }),
  slice(node, view) {
    const at = attribute<number>(node, 'axis')
    const [, start, size] = node.inputs
    const axes = view.axes.map((axis, i) =>
      i === at ? { ...axis, starts: [...axis.starts, start], size } : axis,
    )
    return { ...view, axes }
  },
  pick({ inputs: [, index] }, view) {
    const [first, ...axes] = view.axes
    return { ...view, axes, picks: [...view.picks, { axis: first.axis, index, starts: first.starts }] }
  },
}

/** One flag of a set: the parameter, the rank whose flag it is (undefined for this rank), and its indices in the set. */
export interface FlagPlace {
  readonly base: Node
  readonly owner: Node | undefined
  readonly indices: readonly Node[]
}

export function flagPlaceOf(flag: Node): FlagPlace {
  if (flag.op === 'param') return { base: flag, owner: undefined, indices: [] }
  return entryOf(flagViews, flag, 'is not a view of flags')(flag, flagPlaceOf(flag.inputs[0]))
}

const flagViews: Readonly<Partial<Record<ViewName, (node: Node, of: FlagPlace) => FlagPlace>>> = {
  on: ({ inputs: [, owner] }, of) => ({ ...of, owner: owner.op === 'rank' ? undefined : owner }),
  at: ({ inputs: [, ...indices] }, of) => ({ ...of, indices }),
}

/** A `tile` of a tensor: the view that contains the tile, the tile indices and the tile shape. */
export interface TileView extends TensorView {
  readonly indices: readonly Node[]
  readonly shape: Shape
}

export function tileOf(node: Node): TileView {
  return { ...viewOf(node.inputs[0]), indices: node.inputs.slice(1), shape: attribute<Shape>(node, 'shape') }
}

/**
 * True if the tile is certainly inside the tensor along axis `i`: the tile has index 0 on axis `i`, tiles fill that
 * axis, and the tensor has elements.
 */
export function isFirstOfFilled(view: TileView, i: number, ranges: Ranges): boolean {
  const index = view.indices[i]
  const isFirst = index.op === 'const' && attribute<number>(index, 'value') === 0
  const { size } = view.axes[i]
  const isFilled = ranges.factsOf(view.base)?.filled
  return isFirst && !size && isFilled === true && isWhole(view, i, ranges)
}

/**
 * True if the extent of axis `i` is a multiple of the tile's extent, so that each tile is entirely inside or entirely
 * outside.
 */
export function isWhole(view: TileView, i: number, ranges: Ranges): boolean {
  const { axis, size } = view.axes[i]
  if (size) return ranges.isMultipleOf(size, view.shape[i])
  return ranges.extentDivisor(view.base, axis) % view.shape[i] === 0
}
