/**
 * Renders the nine atomics. Atomics act on elements of global or shared memory, and each atomic has an order and a
 * scope.
 */
import { entryOf, type AtomicName, type Order, type Scope } from '../../../../ir/ops/index.ts'
import type { RefType } from '../../../../ir/type.ts'
import { isFragment } from '../assign.ts'
import type { StrongAccess } from '../accesses.ts'
import { all, code, integer, joined, REGISTER, type Code } from '../code.ts'
import { registerType } from '../spell.ts'
import { placeOf } from './places.ts'
import type { Renderer } from './renderer.ts'

/** The PTX operation of each atomic. PTX has no atomic `sub`, so the negated value is added. */
const verbs: Readonly<Record<AtomicName, StrongAccess['op'] | 'sub'>> = {
  'atomic.add': 'add',
  'atomic.sub': 'sub',
  'atomic.cas': 'cas',
  'atomic.xchg': 'xchg',
  'atomic.and': 'and',
  'atomic.or': 'or',
  'atomic.xor': 'xor',
  'atomic.min': 'min',
  'atomic.max': 'max',
}

export const atomic: Renderer = (node, emission) => {
  const { order, scope } = node.attributes as { order: Order; scope: Scope }
  const [ref] = node.inputs
  const { dtype } = ref.type as RefType
  const type = registerType(dtype)
  const verb = entryOf(verbs, node, 'is not an atomic')
  const values = node.inputs.slice(1, verb === 'cas' ? 3 : 2)
  const mask = node.inputs.at(1 + values.length)
  const place = placeOf(ref, emission)
  const op = verb === 'sub' ? 'add' : verb
  const call = emission.strong({ op, dtype, order, scope, space: place.space }, node)
  const operands = (i: Code, at?: readonly Code[]): Code =>
    joined(
      values
        .map((value) => emission.element(value, i, at).text)
        .map((text) =>
          verb === 'sub' ? (dtype === 'f32' ? code`-${text}` : code`(${type})(0 - ${text})`) : text,
        ),
      ', ',
    )
  const isUsed = emission.plans.uses.count(node) > 0
  if (!isFragment(node)) {
    const text = code`${call}(${place.address([], integer(0))}, ${operands(integer(0))})`
    const guard = mask && emission.scalar(mask)
    if (isUsed) {
      const name = emission.variable(`before_${verb}`)
      emission.fromLeader(node, type, name, guard ? code`${guard} ? ${text} : (${type})0` : text)
      emission.setVariable(node, name)
    } else emission.byLeader(code`${guard ? code`if (${guard}) ` : ''}${text};`, node.site)
  } else {
    const layout = emission.plans.layouts.of(node)
    if (isUsed && layout.isFirst)
      emission.refuse(
        node,
        'the result of an atomic on one element per row or column of a matrix is not lowered to CUDA yet',
      )
    const name = isUsed ? emission.declareFragment(node, `before_${verb}`) : undefined
    const at = layout.place(REGISTER)
    const conditions = [
      layout.isFirst,
      layout.exists(REGISTER),
      place.inside(at),
      mask && emission.element(mask, REGISTER, at).text,
    ]
    const guard = all(conditions)
    const text = code`${call}(${place.address(at, REGISTER)}, ${operands(REGISTER, at)})`
    if (name)
      emission.out.unrolled(
        layout.count,
        code`${name}[i] = ${guard ? code`(${guard}) ? ${text} : (${type})0` : text};`,
        node.site,
      )
    else emission.out.unrolled(layout.count, code`${guard ? code`if (${guard}) ` : ''}${text};`, node.site)
  }
}
