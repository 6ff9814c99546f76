/**
 * Views with concrete numbers: the owner rank, the extents, and the elements of a tile that are inside the tensor.
 */
import type { Datum } from '../ops/index.ts'
import { elements, type Shape } from '../type.ts'

/**
 * An axis of a view: its extent, and the range [low, high) that is inside the tensor. If the range of an axis is
 * undefined, it is unknown.
 */
interface Axis {
  readonly extent: number | undefined
  readonly inside: Interval | undefined
}
type Interval = readonly [low: number, high: number]

interface Owned {
  /** The tensor parameter to which the view refers. */
  readonly name: string
  /** The rank that owns this copy of the tensor, or undefined if it is unknown. */
  readonly owner: number | undefined
}
export interface TensorView extends Owned {
  readonly kind: 'tensor' | 'flags'
  readonly axes: readonly Axis[]
}
export interface Places extends Owned {
  readonly kind: 'places'
  readonly shape: Shape
  /** The range of each axis of `shape` that is inside the tensor. */
  readonly inside: readonly Interval[] | undefined
}
export type View = TensorView | Places

export function whole(
  kind: 'tensor' | 'flags',
  name: string,
  owner: number,
  extents: readonly number[],
): TensorView {
  return { kind, name, owner, axes: extents.map((extent) => ({ extent, inside: [0, extent] })) }
}

export const on = (view: TensorView, owner: number | undefined): TensorView => ({ ...view, owner })

export const pick = (view: TensorView): TensorView => ({ ...view, axes: view.axes.slice(1) })

export function slice(
  view: TensorView,
  axis: number,
  start: number | undefined,
  size: number | undefined,
): TensorView {
  const { inside } = view.axes[axis]
  const sliced: Axis = {
    extent: size,
    inside: inside && start !== undefined && size !== undefined ? window(inside, start, size) : undefined,
  }
  return { ...view, axes: view.axes.with(axis, sliced) }
}

export function tile(view: TensorView, indices: readonly (number | undefined)[], shape: Shape): Places {
  const parts = shape.map((extent, axis) => cut(view.axes[axis], indices[axis], extent))
  return places(view, shape, parts)
}

/**
 * The elements of rows that are gathered by index. A row index outside the tensor is an error in the kernel, so all
 * gathered rows count as traffic.
 */
export function rows(view: TensorView, column: number | undefined, shape: Shape): Places {
  return places(view, shape, [[0, shape[0]], cut(view.axes[1], column, shape[1])])
}

/**
 * Elements that are selected one by one. An index outside the tensor is an error in the kernel, so all selected
 * elements count as traffic.
 */
export const at = (view: TensorView, shape: Shape): Places =>
  places(
    view,
    shape,
    shape.map((extent) => [0, extent] as const),
  )

/** A text key that is equal for equal views. */
export function key(view: View): string {
  const axes =
    view.kind === 'places' ? [view.shape, view.inside] : view.axes.map((axis) => [axis.extent, axis.inside])
  return `${view.name}@${view.owner}${JSON.stringify(axes)}`
}

/** The number of elements that are inside all references and whose mask is true, or undefined if unknown. */
export function lanes(all: readonly Places[], mask: Datum | undefined): number | undefined {
  const [{ shape }] = all
  const low = shape.map(() => 0)
  const high = [...shape]
  for (const { inside } of all) {
    if (!inside) return undefined
    inside.forEach(([from, to], axis) => {
      low[axis] = Math.max(low[axis], from)
      high[axis] = Math.min(high[axis], to)
    })
  }
  if (mask === undefined) return elements(shape.map((_, axis) => Math.max(0, high[axis] - low[axis])))
  if (typeof mask === 'number') return mask ? lanes(all, undefined) : 0
  const columns = shape[shape.length - 1]
  return mask.reduce((count, isOn, lane) => {
    const position = shape.length === 2 ? [Math.floor(lane / columns), lane % columns] : [lane]
    const isInside = position.every((p, axis) => p >= low[axis] && p < high[axis])
    return count + (isOn && isInside ? 1 : 0)
  }, 0)
}

function places(view: TensorView, shape: Shape, parts: readonly (Interval | undefined)[]): Places {
  const inside = parts.every((part) => part !== undefined) ? parts : undefined
  return { kind: 'places', name: view.name, owner: view.owner, shape, inside }
}

function cut(axis: Axis, index: number | undefined, extent: number): Interval | undefined {
  return axis.inside && index !== undefined ? window(axis.inside, index * extent, extent) : undefined
}

/** The range of [start, start + size) that is inside the tensor, relative to `start`. */
function window([low, high]: Interval, start: number, size: number): Interval {
  const from = Math.max(0, low - start)
  return [from, Math.max(from, Math.min(size, high - start))]
}
