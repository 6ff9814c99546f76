/**
 * Lowers atomic operations, element by element. Atomic operations without a machine instruction become
 * compare-and-exchange loops.
 */
import type { DType } from '../../../ir/dtype.ts'
import type { Node } from '../../../ir/node.ts'
import { accessesOf, entryOf, storedValues, type AtomicName } from '../../../ir/ops/index.ts'
import { binary, compare, constant, convert, use } from '../build.ts'
import type { AtomicName as AtomicInstruction, CodeType, Expression, Local } from '../code.ts'
import { isScalarRef, refOf, type Lowering } from './context.ts'
import { valueCodeType } from './convert.ts'
import { extreme } from './elements.ts'
import { bufferFor, overElements, rowAxis, withLoads } from './fragments.ts'
import { extentsOf } from './frame.ts'
import { guarded, placeIn, scalarPlace } from './memory.ts'
import { scalar } from './scalars.ts'
import { orderOf } from './sync.ts'
import { refView, type PlacesView } from './views.ts'

export function lowerAtomic(l: Lowering, node: Node): void {
  const [{ ref, mask }] = accessesOf(node)
  const values = storedValues(node)
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

/**
 * An atomic update: the integer instruction for it, if there is one, and the new value as an expression of the old
 * value.
 */
interface Change {
  readonly instruction?: AtomicInstruction
  readonly leaves: (l: Lowering, dtype: DType, old: Expression, value: Expression) => Expression
}

const bitwise = (instruction: 'and' | 'or' | 'xor'): Change => ({
  instruction,
  leaves: (_, __, old, value) => binary(instruction, old, value),
})
const bound = (name: 'min' | 'max'): Change => ({
  leaves: (l, dtype, old, value) => extreme(l, name, dtype, old, value),
})

/** All atomic operations except compare-and-exchange, with which the fallback loops implement the other operations. */
const changes: Readonly<Record<Exclude<AtomicName, 'atomic.cas'>, Change>> = {
  'atomic.add': { instruction: 'add', leaves: (_, __, old, value) => binary('add', old, value) },
  'atomic.sub': { instruction: 'sub', leaves: (_, __, old, value) => binary('sub', old, value) },
  'atomic.xchg': { instruction: 'exchange', leaves: (_, __, ___, value) => value },
  'atomic.and': bitwise('and'),
  'atomic.or': bitwise('or'),
  'atomic.xor': bitwise('xor'),
  'atomic.min': bound('min'),
  'atomic.max': bound('max'),
}

/** Updates one element atomically. If the argument `result` is given, this local variable receives the old value. */
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
  const { instruction, leaves } = entryOf(changes, node, 'is not an atomic')
  if (instruction && (dtype !== 'f32' || instruction === 'exchange'))
    return keep(writer.atomic(instruction, at, word(value), order))
  const place = writer.let('place', at)
  const seen = writer.atomicLoad('seen', dtype === 'i64' ? 'i64' : 'i32', place, 'relaxed')
  writer.loop(() => {
    const next = leaves(l, dtype, back(seen), value)
    const found = writer.compareExchange(place, seen, writer.let('next', word(next)), order)
    writer.if(compare('eq', found, seen), () => writer.break())
    writer.set(seen, found)
  })
  keep(seen)
}
