/** Views taken apart: which tensor, on which rank, which windows and indices of its axes. In terms of IR, not of text. */
import { attribute, type Node } from '../../../ir/node.ts'
import { entryOf, type ViewName } from '../../../ir/ops/index.ts'
import type { Shape } from '../../../ir/type.ts'
import type { Ranges } from './ranges.ts'

/** An axis of the tensor that the view still has. */
export interface ViewAxis {
  readonly axis: number
  /** Starts of the windows around it; they add up. */
  readonly starts: readonly Node[]
  /** The extent of the innermost window; undefined: the tensor's own. */
  readonly size: Node | undefined
}

export interface TensorView {
  readonly base: Node
  /** The rank whose copy it is; undefined: this one's. */
  readonly owner: Node | undefined
  readonly axes: readonly ViewAxis[]
  /** Axes that were picked from, with the index. */
  readonly picks: readonly { readonly axis: number; readonly index: Node; readonly starts: readonly Node[] }[]
}

/** A tensor-typed node as a view of its parameter. */
export function viewOf(node: Node): TensorView {
  if (node.op === 'param') {
    const rank = node.type.kind === 'tensor' ? node.type.rank : 0
    const axes = Array.from({ length: rank }, (_, axis) => ({ axis, starts: [], size: undefined }))
    return { base: node, owner: undefined, axes, picks: [] }
  }
  return entryOf(views, node, 'is not a view of a tensor')(node, viewOf(node.inputs[0]))
}

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

/** A `tile` of a tensor: the view it is cut from, its indices and its shape. */
export interface TileView extends TensorView {
  readonly indices: readonly Node[]
  readonly shape: Shape
}

export function tileOf(node: Node): TileView {
  return { ...viewOf(node.inputs[0]), indices: node.inputs.slice(1), shape: attribute<Shape>(node, 'shape') }
}

/** Whether it is the first of tiles that fill an axis of a tensor which has elements: nothing of it is outside. */
export function isFirstOfFilled(view: TileView, i: number, ranges: Ranges): boolean {
  const index = view.indices[i]
  const isFirst = index.op === 'const' && attribute<number>(index, 'value') === 0
  const { size } = view.axes[i]
  const isFilled = ranges.factsOf(view.base)?.filled
  return isFirst && !size && isFilled === true && isWhole(view, i, ranges)
}

/** Whether tiles fill an axis, so that each is inside it or outside. */
export function isWhole(view: TileView, i: number, ranges: Ranges): boolean {
  const { axis, size } = view.axes[i]
  if (size) return ranges.isMultipleOf(size, view.shape[i])
  return ranges.extentDivisor(view.base, axis) % view.shape[i] === 0
}
