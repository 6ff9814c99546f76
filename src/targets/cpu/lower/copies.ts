/**
 * Lowers copies between memories: whole rows of bytes, or single elements if there is a mask or the columns are not
 * contiguous.
 */
import { eventKind } from '../abi.ts'
import type { StorageDType } from '../../../ir/dtype.ts'
import type { Node } from '../../../ir/node.ts'
import { constant, i32 } from '../build.ts'
import type { CodeType, Expression } from '../code.ts'
import { borrow } from './borrowed.ts'
import { isScalarRef, refOf, type Lowering } from './context.ts'
import { memoryKind, rawCodeType } from './convert.ts'
import { bytesOfRef, overElements, ownerOf, rowAxis, withLoads } from './fragments.ts'
import { extentsOf, storedBytes } from './frame.ts'
import { copyLines, linesOf } from './lines.ts'
import { guarded, placeIn, scalarPlace, type Place } from './memory.ts'
import { copyPanels } from './products.ts'
import { scalar } from './scalars.ts'
import { recorded } from './sync.ts'
import { refView, type PlacesView, type RefView } from './views.ts'

export function lowerCopy(l: Lowering, node: Node): void {
  const [source, target] = node.inputs
  const [from, to] = [refView(l, source), refView(l, target)]
  const owner = ownerOf(from) ?? ownerOf(to)
  const copy = (): void => copyBetween(l, node, from, to)
  if (owner) recorded(l, eventKind.copy, node, owner, i32(bytesOfRef(source)), copy)
  else copy()
}

const inRows = (view: RefView): boolean =>
  view.kind === 'rows' || (view.kind === 'tile' && view.columnStride === storedBytes(view.dtype))

function copyBetween(l: Lowering, node: Node, from: RefView, to: RefView): void {
  const mask = node.op === 'copy' ? node.inputs[2] : undefined
  const { dtype, shape } = refOf(node.inputs[0])
  const [rows, columns] = extentsOf(shape)
  if (to.kind === 'tile' && to.declaration && l.shared.layouts.get(to.declaration)?.kind === 'panels')
    return copyPanels(l, node, from, to)
  if (!mask && from.kind !== 'places' && to.kind !== 'places' && inRows(from) && inRows(to)) {
    const fill = to.kind === 'tile' && to.space === 'shared'
    const copy = (): void =>
      copyLines(l, linesOf(l, from), linesOf(l, to), rows, columns, storedBytes(dtype), fill)
    const isBorrowed = to.kind === 'tile' && to.declaration && l.shared.borrowed.has(to.declaration)
    if (isBorrowed && from.kind === 'tile') borrow(l, from, to, copy)
    else copy()
    return
  }
  copyElements(l, node, from, to, mask)
}

/**
 * Copies a tile element by element. Shared memory receives zeros where the source is outside its tensor. Global memory
 * receives only elements that are inside both tensors.
 */
function copyElements(l: Lowering, node: Node, from: RefView, to: RefView, mask: Node | undefined): void {
  const { dtype, shape } = refOf(node.inputs[0])
  const fill = refOf(node.inputs[1]).space === 'shared'
  const move = (source: Place, target: Place, chosen: Expression | undefined): void =>
    moveElement(l, dtype as StorageDType, source, target, chosen, fill)
  if (isScalarRef(node.inputs[0])) {
    move(scalarPlace(l, from as PlacesView), scalarPlace(l, to as PlacesView), mask && scalar(l, mask))
    return
  }
  const [rows, columns] = extentsOf(shape)
  withLoads(l, mask ? [mask] : [], node, (loads) =>
    overElements(l, rows, columns, false, loads, false, (nest) => {
      const source = placeIn(nest, from, 'source')
      const target = placeIn(nest, to, 'target')
      const chosen = mask && nest.value(mask, rowAxis(rows), 'column')
      nest.within(2, () => move(source, target, chosen))
    }),
  )
}

function moveElement(
  l: Lowering,
  dtype: StorageDType,
  source: Place,
  target: Place,
  chosen: Expression | undefined,
  fill: boolean,
): void {
  const { writer } = l
  const kind = memoryKind(dtype)
  const type = rawCodeType(dtype, false)
  guarded(l, [chosen, target.inside], () => {
    const whole = (): void =>
      writer.store(kind, target.address, writer.load('raw', type, kind, source.address))
    if (!source.inside) whole()
    else if (!fill) writer.if(source.inside, whole)
    else
      writer.if(source.inside, whole, () =>
        writer.store(kind, target.address, constant(type as Exclude<CodeType, 'ptr'>, 0)),
      )
  })
}
