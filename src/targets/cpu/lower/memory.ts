/**
 * Lowers loads from memory and stores to memory. Weak memory accesses move rows of elements. Memory accesses with an
 * order, a mask or indices move single elements.
 */
import { eventKind } from '../abi.ts'
import type { StorageDType } from '../../../ir/dtype.ts'
import type { Node } from '../../../ir/node.ts'
import { binary, compare, constant, convert, i32, select, stride, use } from '../build.ts'
import type { CodeType, Expression, MemoryOrder } from '../code.ts'
import { isScalarRef, refOf, valueOf, type Lowering } from './context.ts'
import { memoryKind, narrow, rawCodeType, valueCodeType, widen } from './convert.ts'
import {
  bufferFor,
  bytesOfRef,
  lowerFragment,
  overElements,
  ownerOf,
  rowAxis,
  withLoads,
} from './fragments.ts'
import { extentsOf, storedBytes } from './frame.ts'
import { copyLines, frameLines, isFull, linesOf } from './lines.ts'
import { Nest, placeOf, vectorises } from './nest.ts'
import { scalar } from './scalars.ts'
import { orderOf, recorded } from './sync.ts'
import { indexOf, refView, strideOf, type PlacesView, type RefView, type TileView } from './views.ts'

export interface Place {
  readonly address: Expression
  /** A test whether the element is inside the tensor, or undefined if it always is. */
  readonly inside: Expression | undefined
}

/** The memory location of the element at the nest's current indices. */
export function placeIn(nest: Nest, view: RefView, key: string): Place {
  const { l } = nest
  switch (view.kind) {
    case 'places':
      return nest.gatherPlace(view, rowAxis(extentsOf(valueShape(view)).at(0)!), 'column')
    case 'tile': {
      const row = rowAxis(view.rows)
      const at = nest.place(key, view.base, view.rowStride, view.columnStride, row, 'column')
      if (!view.inside) return { address: at, inside: undefined }
      const fits = compare('lt', nest.index('column'), view.inside.columns)
      return {
        address: at,
        inside:
          row === 'zero' ? fits : binary('and', fits, compare('lt', nest.index('row'), view.inside.rows)),
      }
    }
    case 'rows': {
      const lines = linesOf(l, view)
      const row = nest.index(rowAxis(view.rows))
      const line = nest.within(2, () => use(l.writer.let('line', lines.at(row))))
      const inside = nest.within(2, () => use(l.writer.let('inside', lines.hasRow!(row))))
      const column = nest.index('column')
      return {
        address: {
          kind: 'address',
          type: 'ptr',
          base: line,
          index: column,
          scale: storedBytes(view.tensor.dtype),
          offset: 0,
        },
        inside: binary('and', inside, compare('lt', column, view.insideColumns)),
      }
    }
    default:
      return view satisfies never
  }
}

const valueShape = (view: PlacesView): readonly number[] => valueOf(view.indices[0]).shape

/** The memory location of the single element to which a scalar reference refers. */
export function scalarPlace(l: Lowering, view: PlacesView): Place {
  return placeOf(
    l,
    view,
    view.indices.map((index) => indexOf(l, index)),
  )
}

type Plain = Exclude<CodeType, 'ptr'>
const zeroOf = (type: CodeType): Expression => constant(type as Plain, 0)

/** Runs `body` only if the mask is true and the element is inside the tensor. */
export function guarded(
  l: Lowering,
  conditions: readonly (Expression | undefined)[],
  body: () => void,
): void {
  const known = conditions.filter((one): one is Expression => one !== undefined)
  if (known.length === 0) body()
  else
    l.writer.if(
      known.reduce((a, b) => binary('and', a, b)),
      body,
    )
}

// Loads from memory

export function lowerLoad(l: Lowering, node: Node): void {
  if (node.attributes.order !== undefined) return lowerStrongLoad(l, node)
  if (isScalarRef(node.inputs[0])) return lowerScalarLoad(l, node)
  lowerFragment(l, node)
}

function readWord(
  l: Lowering,
  dtype: StorageDType,
  at: Expression,
  order: MemoryOrder | undefined,
): Expression {
  const { writer, machine } = l
  if (order === undefined || storedBytes(dtype) < 4) {
    const raw = writer.load('raw', rawCodeType(dtype, false), memoryKind(dtype), at)
    // Every supported machine reads a byte or a 16-bit value atomically. A fence provides the memory order of the load.
    if (order === 'acquire') writer.emit({ kind: 'fence', order })
    return use(widen(writer, machine, dtype, raw))
  }
  const word = writer.atomicLoad('word', dtype === 'i64' ? 'i64' : 'i32', at, order)
  return dtype === 'f32' ? convert('bits', 'f32', word) : use(word)
}

function writeWord(
  l: Lowering,
  dtype: StorageDType,
  at: Expression,
  value: Expression,
  order: MemoryOrder | undefined,
): void {
  const { writer, machine } = l
  if (order === undefined || storedBytes(dtype) < 4) {
    if (order === 'release') writer.emit({ kind: 'fence', order })
    writer.store(memoryKind(dtype), at, narrow(writer, machine, dtype, value))
    return
  }
  writer.atomicStore(at, dtype === 'f32' ? convert('bits', 'i32', value) : value, order)
}

function lowerScalarLoad(l: Lowering, node: Node): void {
  const view = refView(l, node.inputs[0]) as PlacesView
  const result = readGuarded(
    l,
    node,
    scalarPlace(l, view),
    node.inputs[1] && scalar(l, node.inputs[1]),
    () => (node.inputs[2] ? scalar(l, node.inputs[2]) : undefined),
  )
  l.scalars.set(node, result)
}

/** Loads the element at a memory location: the result is `other` if the mask is false, and 0 outside the tensor. */
function readGuarded(
  l: Lowering,
  node: Node,
  place: Place,
  mask: Expression | undefined,
  other: () => Expression | undefined,
): Expression {
  const { writer } = l
  const dtype = refOf(node.inputs[0]).dtype as StorageDType
  const type = valueCodeType(dtype, false)
  const order = node.attributes.order === undefined ? undefined : orderOf(node)
  const result = writer.let('loaded', other() ?? zeroOf(type))
  const read = (): void => {
    if (other()) writer.set(result, zeroOf(type))
    guarded(l, [place.inside], () => writer.set(result, readWord(l, dtype, place.address, order)))
  }
  guarded(l, [mask], read)
  return use(result)
}

function lowerStrongLoad(l: Lowering, node: Node): void {
  if (isScalarRef(node.inputs[0])) return lowerScalarLoad(l, node)
  const [ref, mask, other] = node.inputs
  const view = refView(l, ref)
  const [rows, columns] = extentsOf(refOf(ref).shape)
  const buffer = bufferFor(l, node)
  withLoads(l, node.inputs.slice(1), node, (loads) =>
    overElements(l, rows, columns, false, loads, false, (nest) => {
      const row = rowAxis(rows)
      const place = placeIn(nest, view, 'target')
      const chosen = mask && nest.value(mask, row, 'column')
      const otherwise = other && nest.value(other, row, 'column')
      const value = nest.within(2, () => readGuarded(l, node, place, chosen, () => otherwise))
      nest.keep(buffer, value, row, 'column')
    }),
  )
  l.buffers.set(node, buffer)
}

// Stores to memory

export function lowerStore(l: Lowering, node: Node): void {
  const [ref, value, mask] = node.inputs
  const view = refView(l, ref)
  if (isScalarRef(ref)) {
    const place = scalarPlace(l, view as PlacesView)
    const order = node.attributes.order === undefined ? undefined : orderOf(node)
    guarded(l, [mask && scalar(l, mask), place.inside], () =>
      writeWord(l, refOf(ref).dtype as StorageDType, place.address, scalar(l, value), order),
    )
    return
  }
  const owner = ownerOf(view)
  const store = (): void =>
    node.attributes.order !== undefined ||
    mask ||
    view.kind === 'places' ||
    (view.kind === 'tile' && view.columnStride !== storedBytes(view.dtype))
      ? storeElements(l, node, view)
      : storeRows(l, node, view)
  if (owner && view.kind !== 'places') recorded(l, eventKind.copy, node, owner, i32(bytesOfRef(ref)), store)
  else store()
}

/** Stores elements one by one, where the mask is true. */
function storeElements(l: Lowering, node: Node, view: RefView): void {
  const [ref, value, mask] = node.inputs
  const { dtype, shape } = refOf(ref)
  const [rows, columns] = extentsOf(shape)
  const order = node.attributes.order === undefined ? undefined : orderOf(node)
  withLoads(l, node.inputs.slice(1), node, (loads) =>
    overElements(l, rows, columns, false, loads, false, (nest) => {
      const row = rowAxis(rows)
      const place = placeIn(nest, view, 'target')
      const chosen = mask && nest.value(mask, row, 'column')
      const stored = nest.value(value, row, 'column')
      nest.within(2, () =>
        guarded(l, [chosen, place.inside], () =>
          writeWord(l, dtype as StorageDType, place.address, stored, order),
        ),
      )
    }),
  )
}

/**
 * Stores rows directly to memory. At a tensor's edge, the rows are first stored into a temporary copy, and the elements
 * inside the tensor are then copied.
 */
function storeRows(l: Lowering, node: Node, view: Exclude<RefView, PlacesView>): void {
  const { writer, machine, shared, ambient } = l
  const value = node.inputs[1]
  const dtype = refOf(node.inputs[0]).dtype as StorageDType
  const { rows, columns } = view
  const bytes = storedBytes(dtype)
  withLoads(l, [value], node, (loads) => {
    let target: { base: Expression; stride: number | Expression }
    let finish: (() => void) | undefined
    if (view.kind === 'tile' && !view.inside) target = { base: view.base, stride: view.rowStride }
    else {
      const pitch = columns * bytes
      const offset = shared.frame.take(rows * pitch)
      const copy: Expression = { kind: 'address', type: 'ptr', base: use(ambient.frame), scale: 1, offset }
      const write = (): void =>
        copyLines(l, frameLines(copy, pitch), linesOf(l, view), rows, columns, bytes, false, true)
      if (view.kind === 'rows') {
        target = { base: copy, stride: pitch }
        finish = write
      } else {
        const full = isFull(l, view.inside, rows, columns)!
        const own = rows === 1 ? stride(i32(pitch), 1) : strideOf(l, (view as TileView).rowStride)
        target = {
          base: use(writer.let('base', select(full, view.base, copy))),
          stride: use(writer.let('pitch', select(full, own, strideOf(l, pitch)))),
        }
        finish = () => writer.if(select(full, i32(0), i32(1)), write)
      }
    }
    const row = rowAxis(rows)
    const vector = columns > 1 && dtype !== 'i64' && vectorises(l, value, row, 'column')
    overElements(l, rows, columns, vector, loads, false, (nest) => {
      const at = nest.place('target', target.base, target.stride, bytes, row, 'column')
      const stored = nest.shaped(nest.value(value, row, 'column'), nest.vector)
      nest.within(2, () => writer.store(memoryKind(dtype), at, narrow(writer, machine, dtype, stored)))
    })
    finish?.()
  })
}
