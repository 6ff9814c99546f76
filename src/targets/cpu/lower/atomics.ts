/** Atomics, one element after the other. What no machine has as one instruction is a loop of compare-and-exchange. */
import type { DType } from '../../../ir/dtype.ts'
import type { Node } from '../../../ir/node.ts'
import { binary, compare, constant, convert, use } from '../build.ts'
import type { AtomicName, CodeType, Expression, Local } from '../code.ts'
import { isScalarRef, refOf, type Lowering } from './context.ts'
import { valueCodeType } from './convert.ts'
import { extreme } from './elements.ts'
import { bufferFor, overElements, rowAxis, withLoads } from './fragments.ts'
import { extentsOf } from './frame.ts'
import { guarded, placeIn, scalarPlace } from './memory.ts'
import { scalar } from './scalars.ts'
import { orderOf } from './sync.ts'
import { refView, type PlacesView } from './views.ts'

const operandsOf = (node: Node): number => (node.op === 'atomic.cas' ? 2 : 1)

export function lowerAtomic(l: Lowering, node: Node): void {
  const [ref, ...rest] = node.inputs
  const values = rest.slice(0, operandsOf(node))
  const mask: Node | undefined = rest[values.length]
  const view = refView(l, ref)
  const { dtype, shape } = refOf(ref)
  const used = l.plan.isUsed(node)
  const type = valueCodeType(dtype, false) as Exclude<CodeType, 'ptr'>
  if (isScalarRef(ref)) {
    const place = scalarPlace(l, view as PlacesView)
    const result = used ? l.writer.let('before', constant(type, 0)) : undefined
    guarded(l, [mask && scalar(l, mask), place.inside], () =>
      modify(
        l,
        node,
        dtype,
        place.address,
        values.map((value) => scalar(l, value)),
        result,
      ),
    )
    if (result) l.scalars.set(node, use(result))
    return
  }
  const [rows, columns] = extentsOf(shape)
  const buffer = used ? bufferFor(l, node) : undefined
  withLoads(l, mask ? [...values, mask] : values, node, (loads) =>
    overElements(l, rows, columns, false, loads, false, (nest) => {
      const row = rowAxis(rows)
      const place = placeIn(nest, view, 'target')
      const operands = values.map((value) => nest.value(value, row, 'column'))
      const chosen = mask && nest.value(mask, row, 'column')
      const result = nest.within(2, () => {
        const before = buffer && l.writer.let('before', constant(type, 0))
        guarded(l, [chosen, place.inside], () => modify(l, node, dtype, place.address, operands, before))
        return before
      })
      if (buffer && result) nest.keep(buffer, use(result), row, 'column')
    }),
  )
  if (buffer) l.buffers.set(node, buffer)
}

const plain: Readonly<Partial<Record<string, AtomicName>>> = {
  'atomic.add': 'add',
  'atomic.sub': 'sub',
  'atomic.xchg': 'exchange',
  'atomic.and': 'and',
  'atomic.or': 'or',
  'atomic.xor': 'xor',
}

/** Changes one place; `result`, where given, becomes what was there before. */
function modify(
  l: Lowering,
  node: Node,
  dtype: DType,
  at: Expression,
  [value, desired]: readonly Expression[],
  result: Local | undefined,
): void {
  const { writer } = l
  const order = orderOf(node)
  const word = (operand: Expression): Expression =>
    dtype === 'f32' ? convert('bits', 'i32', operand) : operand
  const back = (bits: Local): Expression => (dtype === 'f32' ? convert('bits', 'f32', bits) : use(bits))
  const keep = (bits: Local): void => {
    if (result) writer.set(result, back(bits))
  }
  if (node.op === 'atomic.cas') return keep(writer.compareExchange(at, value, desired, order))
  const name = plain[node.op]
  if (name && (dtype !== 'f32' || name === 'exchange'))
    return keep(writer.atomic(name, at, word(value), order))
  const place = writer.let('place', at)
  const seen = writer.atomicLoad('seen', dtype === 'i64' ? 'i64' : 'i32', place, 'relaxed')
  writer.loop(() => {
    const next = changed(l, node, dtype, back(seen), value)
    const found = writer.compareExchange(place, seen, writer.let('next', word(next)), order)
    writer.if(compare('eq', found, seen), () => writer.break())
    writer.set(seen, found)
  })
  keep(seen)
}

function changed(l: Lowering, node: Node, dtype: DType, old: Expression, value: Expression): Expression {
  switch (node.op) {
    case 'atomic.add':
      return binary('add', old, value)
    case 'atomic.sub':
      return binary('sub', old, value)
    case 'atomic.min':
      return extreme(l, 'min', dtype, old, value)
    case 'atomic.max':
      return extreme(l, 'max', dtype, old, value)
    default:
      throw new Error(`${node.op} is not an atomic`)
  }
}
