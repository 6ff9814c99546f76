/**
 * Lowers `dot` nodes (matrix products). The matrix product is computed in the accumulator's own memory if no other node
 * needs it, so that a loop of products does not move its accumulator.
 */
import type { StorageDType } from '../../../ir/dtype.ts'
import type { Node } from '../../../ir/node.ts'
import { i32, stride, use } from '../build.ts'
import type { Expression, Local } from '../code.ts'
import { refOf, valueOf, type Lowering } from './context.ts'
import {
  dotScratchBytes,
  emitDot,
  emitPackedDot,
  packedDotScratchBytes,
  rowsLayout,
  type TileOperand,
} from './dot.ts'
import { evaluateInto, newBuffer } from './fragments.ts'
import type { Buffer } from './frame.ts'
import { packedOperand, standFor, standsForPacked } from './packed.ts'
import { emitPanelCopy } from './panels.ts'
import { strideOf, view, type RefView, type TileView } from './views.ts'

const inFrame = (l: Lowering, offset: number): Expression => ({
  kind: 'address',
  type: 'ptr',
  base: { kind: 'local', type: 'ptr', local: l.ambient.frame },
  scale: 1,
  offset,
})

/**
 * The buffer of a stored value, if `consumer` is the last reader of the value and can therefore overwrite the buffer.
 */
export function takeOver(l: Lowering, value: Node, consumer: Node, input: number): Buffer | undefined {
  const buffer = l.buffers.get(value)
  return buffer && !l.pinned.has(value) && l.plan.isLastUse(value, consumer, input) ? buffer : undefined
}

export function lowerDot(l: Lowering, node: Node): void {
  const [a, b, start] = node.inputs
  const buffer = l.preferred.get(node) ?? takeOver(l, start, node, 2) ?? newBuffer(l, node)
  const begun = l.fresh.get(node)
  // The loop's first matrix product can replace the sum instead of adding to it only if the product is computed in the
  // buffer of the sum that the loop carries.
  if (begun && l.buffers.get(start)?.offset !== buffer.offset) clearFresh(l, begun, l.buffers.get(start)!)
  evaluateInto(l, start, buffer)
  const left = operand(l, a)
  const sums = {
    accumulator: inFrame(l, buffer.offset),
    accumulatorStride: buffer.stride,
    fresh: begun && use(begun),
  }
  const { frame } = l.shared
  const declaration = b.op === 'shared' ? b : undefined
  frame.scope(() => {
    const take = (bytes: number): Expression => inFrame(l, frame.take(bytes))
    if (declaration && standsForPacked(l.shared, declaration)) {
      const right = packedOperand(l, node, declaration, view(l, declaration) as TileView)
      const scratch = take(packedDotScratchBytes(l.machine, left, right))
      emitPackedDot(l.writer, l.machine, { a: left, b: right, ...sums, scratch })
      return
    }
    const right = operand(l, b)
    const scratch = take(dotScratchBytes(l.machine, left, right))
    emitDot(l.writer, l.machine, { a: left, b: right, ...sums, scratch })
  })
  if (begun) l.writer.set(begun, i32(0))
  l.buffers.set(node, buffer)
}

/** Zeroes the sum that a loop carries if no matrix product was added to the sum. */
export function clearFresh(l: Lowering, fresh: Local, buffer: Buffer): void {
  l.writer.if(fresh, () => {
    l.writer.zeroBytes(inFrame(l, buffer.offset), i32(buffer.rows * buffer.stride))
    l.writer.set(fresh, i32(0))
  })
}

/** The operand of a matrix product. An operand that is a fragment is stored as f32 or i32, whatever its dtype. */
function operand(l: Lowering, node: Node): TileOperand {
  if (node.type.kind === 'ref') {
    const tile = view(l, node) as TileView
    return {
      base: tile.base,
      dtype: tile.dtype,
      rows: tile.rows,
      columns: tile.columns,
      rowStride: tile.rowStride as number,
      columnStride: tile.columnStride,
      layout: l.shared.layouts.get(tile.declaration!) ?? rowsLayout,
    }
  }
  let buffer = l.buffers.get(node)
  // A constant fragment gets memory only when a matrix product needs it as an operand.
  if (!buffer) evaluateInto(l, node, (buffer = newBuffer(l, node)))
  return {
    base: inFrame(l, buffer.offset),
    dtype: valueOf(node).dtype === 'i8' ? 'i32' : 'f32',
    rows: buffer.rows,
    columns: buffer.columns,
    rowStride: buffer.stride,
    columnStride: buffer.element,
    layout: rowsLayout,
  }
}

/** Copies global memory into a shared tile that is stored in panels. */
export function copyPanels(l: Lowering, node: Node, from: RefView, to: TileView): void {
  if (from.kind !== 'tile') throw new Error('only whole tiles of a tensor can be copied into panels')
  if (from.panelStride) return standFor(l, from, to.declaration!)
  const { dtype, shape } = refOf(node.inputs[0])
  const extents: readonly [number, number] = [from.rows, from.columns]
  const rowStride = shape.length === 1 ? stride(i32(0), 1) : strideOf(l, from.rowStride)
  const inside = from.inside ?? { rows: i32(from.rows), columns: i32(from.columns) }
  emitPanelCopy(
    l.writer,
    l.machine,
    { base: from.base, rowStride, dtype: dtype as StorageDType, ...inside, shape: extents },
    { base: to.base, layout: l.shared.layouts.get(to.declaration!)!, dtype: to.dtype, shape: extents },
  )
}
