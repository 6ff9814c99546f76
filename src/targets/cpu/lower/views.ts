/**
 * Lowers views to local variables: a base address, extents and strides. Tensors are stored in row-major order. The copy
 * of rank r is r heap strides after the copy of rank 0. An index outside its extent is an error in the kernel, which
 * the checker reports. The generated code clamps an out-of-bounds index, so that it never accesses memory outside a
 * tensor.
 */
import type { StorageDType } from '../../../ir/dtype.ts'
import { attribute, type Node } from '../../../ir/node.ts'
import { entryOf, type OpWith, type ViewName } from '../../../ir/ops/index.ts'
import { elements, type Shape } from '../../../ir/type.ts'
import { address, binary, compare, convert, i32, mul, select, step, stride, sub, use } from '../build.ts'
import type { Expression } from '../code.ts'
import { barriersOf, constantOf, refOf, tensorOf, valueOf, type Lowering } from './context.ts'
import { scalar } from './scalars.ts'
import { storedBytes } from './frame.ts'
import { isPacked, packedMisuse, packedView, panelAt } from './packed.ts'
import { raise } from './sync.ts'

/** A tensor, or a slice of one, on one rank. */
export interface TensorView {
  readonly kind: 'tensor'
  readonly param: Node
  readonly dtype: StorageDType
  readonly base: Expression
  readonly extents: readonly Expression[]
  /** The strides of the view in bytes, as `ptr`-sized numbers. */
  readonly strides: readonly Expression[]
  /** The rank that owns the copy of the tensor, or undefined for this rank. */
  readonly owner: Expression | undefined
  /**
   * The distance between panels of a packed tensor in bytes. The row stride of a packed tensor is that of one panel.
   */
  readonly panelStride?: Expression
}

/** A tile of a tensor in global memory, or a shared tile in the frame (the private memory of a program). */
export interface TileView {
  readonly kind: 'tile'
  readonly space: 'global' | 'shared'
  readonly dtype: StorageDType
  /** The address of element [0, 0] of the tile. */
  readonly base: Expression
  readonly rows: number
  readonly columns: number
  /** The distance between rows in bytes, static or known at launch, and the distance between columns in bytes. */
  readonly rowStride: number | Expression
  readonly columnStride: number
  /** The number of rows and columns that are inside the tensor, or undefined if all are. */
  readonly inside: { readonly rows: Expression; readonly columns: Expression } | undefined
  readonly owner: Expression | undefined
  /** The node that declares the shared tile. */
  readonly declaration?: Node
  /** The distance between panels of a packed tensor in bytes. */
  readonly panelStride?: Expression
}

/**
 * Rows of a tensor selected by a fragment of indices. The fragment of row indices is stored in the private memory of
 * the program.
 */
export interface RowsView {
  readonly kind: 'rows'
  readonly tensor: TensorView
  readonly indices: Node
  readonly rows: number
  readonly columns: number
  /** The address of the first column in row 0 of the tensor. */
  readonly base: Expression
  readonly insideColumns: Expression
}

/** Single elements, selected by one scalar or fragment of indices per axis. */
export interface PlacesView {
  readonly kind: 'places'
  readonly dtype: StorageDType
  readonly space: 'global' | 'shared'
  readonly base: Expression
  readonly extents: readonly Expression[]
  readonly strides: readonly (Expression | number)[]
  readonly indices: readonly Node[]
  readonly owner: Expression | undefined
}

export interface FlagsView {
  readonly kind: 'flags'
  readonly param: Node
  /** The address of flag 0 of the set, or of the selected flag. */
  readonly base: Expression
  readonly index: Expression
  readonly owner: Expression | undefined
}

/** Barriers, each of which is a word that counts arrivals, in the frame (the private memory of a program). */
export interface BarriersView {
  readonly kind: 'barriers'
  readonly base: Expression
  readonly arrivals: number
}

export type View = TensorView | TileView | RowsView | PlacesView | FlagsView | BarriersView
export type RefView = TileView | RowsView | PlacesView

export function view(l: Lowering, node: Node): View {
  let found = l.views.get(node)
  if (!found) l.views.set(node, (found = entryOf(makers, node, 'is not a view')(l, node)))
  return found
}

export function refView(l: Lowering, node: Node): RefView {
  const found = view(l, node)
  if (found.kind === 'tile' || found.kind === 'rows' || found.kind === 'places') return found
  throw new Error(`${node.op} is not a reference to memory`)
}

/** The error for an op that only the compiler stages of a GPU insert. */
export function isOfGpu({ op }: Node): never {
  throw new Error(`${op} exists only in kernels lowered for a GPU`)
}

const makers: Readonly<
  Record<ViewName | 'param' | OpWith<{ effect: 'declare' }>, (l: Lowering, node: Node) => View>
> = {
  param: parameter,
  shared: sharedTile,
  barriers(l, node) {
    const base = address(l.ambient.frame, 0, 1, l.shared.declared.get(node)!)
    return { kind: 'barriers', base, arrivals: barriersOf(node).arrivals }
  },
  staging: (_, node) => isOfGpu(node),
  'staging.place': (_, node) => isOfGpu(node),
  held: (_, node) => isOfGpu(node),
  on: onRank,
  slice,
  pick,
  tile,
  rows,
  at,
  transpose(l, node) {
    const from = view(l, node.inputs[0]) as TileView
    return {
      ...from,
      rows: from.columns,
      columns: from.rows,
      rowStride: from.columnStride,
      columnStride: from.rowStride as number,
    }
  },
}

function parameter(l: Lowering, node: Node): View {
  if (node.type.kind === 'flags')
    return { kind: 'flags', param: node, base: l.ownCopy(node), index: i32(0), owner: undefined }
  const { dtype, rank } = tensorOf(node)
  const axes = Array.from({ length: rank }, (_, axis) => axis)
  const whole: TensorView = {
    kind: 'tensor',
    param: node,
    dtype: dtype as StorageDType,
    base: l.ownCopy(node),
    extents: axes.map((axis) => l.extent(node, axis)),
    strides: axes.map((axis) => l.axisStride(node, axis, rank, storedBytes(dtype))),
    owner: undefined,
  }
  return isPacked(l.shared, node) ? packedView(l, whole) : whole
}

function sharedTile(l: Lowering, node: Node): TileView {
  const { dtype, shape } = refOf(node)
  const [count, columns] =
    shape.length === 1 ? [1, shape[0]] : [shape[shape.length - 2], shape[shape.length - 1]]
  return {
    kind: 'tile',
    space: 'shared',
    dtype: dtype as StorageDType,
    // A shared tile that is an alias of a packed tensor's tile has no memory of its own.
    base: use(l.writer.let('tile', address(l.ambient.frame, 0, 1, l.shared.declared.get(node) ?? 0))),
    rows: count,
    columns,
    rowStride: columns * storedBytes(dtype),
    columnStride: storedBytes(dtype),
    inside: undefined,
    owner: undefined,
    declaration: node,
  }
}

/** The value of an index, converted to i32. */
export function indexOf(l: Lowering, node: Node): Expression {
  const value = scalar(l, node)
  return valueOf(node).dtype === 'i64' ? use(l.writer.let('index', convert('wrap', 'i32', value))) : value
}

const clamp = (l: Lowering, index: Expression, extent: Expression): Expression => {
  if (index.kind === 'const' && index.value === 0) return index
  const low = l.writer.let('index', select(compare('ge', index, extent), sub(extent, i32(1)), index))
  return use(l.writer.let('index', select(compare('lt', low, i32(0)), i32(0), low)))
}

function onRank(l: Lowering, node: Node): View {
  const from = view(l, node.inputs[0]) as TensorView | FlagsView
  const rank = node.inputs[1]
  if (rank.op === 'rank' && from.owner === undefined) return from
  const owner = indexOf(l, rank)
  const known = constantOf(rank)
  if (known === undefined || known < 0 || known >= l.shared.ir.world)
    l.writer.if(compare('geU', owner, i32(l.shared.ir.world)), () => raise(l, 'badRank', node))
  const base = l.shared.options.scattered
    ? step(from.base, from.owner ? sub(l.heapAt(owner), l.heapAt(from.owner)) : l.heapAt(owner), l.heapUnit)
    : step(from.base, sub(owner, from.owner ?? l.rank), l.heapStride)
  return { ...from, base: use(l.writer.let('peer', base)), owner }
}

function slice(l: Lowering, node: Node): TensorView {
  const from = view(l, node.inputs[0]) as TensorView
  const axis = attribute<number>(node, 'axis')
  if (from.panelStride && axis === 1)
    throw packedMisuse(node, from.param, 'the kernel slices the columns of the tensor')
  const { writer } = l
  const extent = from.extents[axis]
  const given = indexOf(l, node.inputs[1])
  const start =
    given.kind === 'const' && given.value === 0
      ? given
      : use(writer.let('start', select(compare('gtU', given, extent), extent, given)))
  const room = writer.let('room', sub(extent, start))
  const size = indexOf(l, node.inputs[2])
  const kept = writer.let('size', select(compare('gtU', size, room), room, size))
  return {
    ...from,
    base: use(writer.let('slice', step(from.base, start, from.strides[axis]))),
    extents: from.extents.map((one, i) => (i === axis ? use(kept) : one)),
  }
}

function pick(l: Lowering, node: Node): View {
  const from = view(l, node.inputs[0])
  const index = indexOf(l, node.inputs[1])
  const { writer } = l
  if (from.kind === 'tensor')
    return {
      ...from,
      base: use(writer.let('picked', step(from.base, clamp(l, index, from.extents[0]), from.strides[0]))),
      extents: from.extents.slice(1),
      strides: from.strides.slice(1),
    }
  if (from.kind === 'barriers') {
    const { count } = barriersOf(node.inputs[0])
    return { ...from, base: use(writer.let('barrier', address(from.base, clamp(l, index, i32(count)), 4))) }
  }
  const { shape } = refOf(node.inputs[0])
  const inner = elements(shape.slice(1)) * storedBytes((from as TileView).dtype)
  const base = address((from as TileView).base, clamp(l, index, i32(shape[0])), inner)
  const picked = { ...(from as TileView), base: use(writer.let('stage', base)) }
  return shape.length === 3 ? picked : { ...picked, rows: 1 }
}

function tile(l: Lowering, node: Node): TileView {
  const from = view(l, node.inputs[0]) as TensorView
  const shape = attribute<Shape>(node, 'shape')
  const bytes = storedBytes(from.dtype)
  const { writer } = l
  const starts = shape.map((extent, axis) => {
    const start = mul(indexOf(l, node.inputs[1 + axis]), i32(extent))
    return start.kind === 'const' ? start : use(writer.let('start', start))
  })
  /** A tile that begins before the tensor has no elements inside the tensor. */
  const inside = shape.map((_, axis) => {
    const room = writer.let('room', sub(from.extents[axis], starts[axis]))
    return starts[axis].kind === 'const'
      ? use(room)
      : use(writer.let('inside', select(compare('lt', starts[axis], i32(0)), i32(0), room)))
  })
  const last = shape.length - 1
  const row = last === 0 ? from.base : step(from.base, starts[0], from.strides[0])
  return {
    kind: 'tile',
    space: 'global',
    dtype: from.dtype,
    base: use(
      writer.let(
        'tile',
        from.panelStride
          ? panelAt(l, row, starts[last], from.panelStride)
          : address(row, starts[last], bytes),
      ),
    ),
    panelStride: from.panelStride,
    rows: last === 0 ? 1 : shape[0],
    columns: shape[last],
    rowStride: last === 0 ? 0 : from.strides[0],
    columnStride: bytes,
    inside: { rows: last === 0 ? i32(1) : inside[0], columns: inside[last] },
    owner: from.owner,
  }
}

function rows(l: Lowering, node: Node): RowsView {
  const tensor = view(l, node.inputs[0]) as TensorView
  const [count, width] = refOf(node).shape
  const start = l.writer.let('start', mul(indexOf(l, node.inputs[2]), i32(width)))
  const room = l.writer.let('room', sub(tensor.extents[1], start))
  const inside = l.writer.let('inside', select(compare('lt', start, i32(0)), i32(0), room))
  const base = l.writer.let('columns', address(tensor.base, start, storedBytes(tensor.dtype)))
  return {
    kind: 'rows',
    tensor,
    indices: node.inputs[1],
    rows: count,
    columns: width,
    base: use(base),
    insideColumns: use(inside),
  }
}

function at(l: Lowering, node: Node): View {
  const from = view(l, node.inputs[0])
  const indices = node.inputs.slice(1)
  if (from.kind === 'flags') {
    let flat = i32(0)
    indices.forEach((one, axis) => {
      const extent = l.extent(from.param, axis)
      const index = clamp(l, indexOf(l, one), extent)
      flat = axis === 0 ? index : binary('add', mul(flat, extent), index)
    })
    const index = use(l.writer.let('flag', flat))
    return { ...from, index, base: use(l.writer.let('word', address(from.base, index, 4))) }
  }
  if (from.kind === 'tensor')
    return {
      kind: 'places',
      space: 'global',
      dtype: from.dtype,
      base: from.base,
      extents: from.extents,
      strides: from.strides,
      indices,
      owner: from.owner,
    }
  const { shape } = refOf(node.inputs[0])
  const inner = from as TileView
  const strides = [inner.rowStride as number, inner.columnStride]
  return {
    kind: 'places',
    space: 'shared',
    dtype: inner.dtype,
    base: inner.base,
    extents: shape.map((extent) => i32(extent)),
    strides:
      shape.length === 1
        ? [inner.columnStride]
        : shape.length === 3
          ? [shape[1] * shape[2] * storedBytes(inner.dtype), ...strides]
          : strides,
    indices,
    owner: undefined,
  }
}

/** A row stride as a `ptr`-sized expression. */
export const strideOf = (l: Lowering, bytes: number | Expression): Expression =>
  typeof bytes === 'number'
    ? l.once(`bytes ${bytes}`, (writer) => writer.let('bytes', stride(i32(bytes), 1)))
    : bytes

export const extentOf = (l: Lowering, node: Node): Expression => {
  const axis = attribute<number>(node, 'axis')
  const from = view(l, node.inputs[0])
  return from.kind === 'tensor' ? from.extents[axis] : l.extent((from as FlagsView).param, axis)
}
