/** Renders the nine atomics. They act on elements of global or shared memory, and each has an order and a scope. */
import type { Order, Scope } from '../../../../ir/ops/index.ts'
import type { RefType } from '../../../../ir/type.ts'
import { isFragment } from '../assign.ts'
import type { StrongAccess } from '../device.ts'
import { registerType } from '../spell.ts'
import { placeOf } from './places.ts'
import type { Renderer } from './renderer.ts'

export const atomic: Renderer = (node, emission) => {
  const { order, scope } = node.attributes as { order: Order; scope: Scope }
  const [ref] = node.inputs
  const { dtype } = ref.type as RefType
  const type = registerType(dtype)
  const verb = node.op.slice('atomic.'.length)
  const values = node.inputs.slice(1, verb === 'cas' ? 3 : 2)
  const mask = node.inputs.at(1 + values.length)
  const place = placeOf(ref, emission)
  const op = (verb === 'sub' ? 'add' : verb) as StrongAccess['op']
  const call = emission.strong({ op, dtype, order, scope, space: place.space }, node)
  const operands = (i: string, at?: readonly string[]): string =>
    values
      .map((value) => emission.element(value, i, at).text)
      .map((text) => (verb === 'sub' ? (dtype === 'f32' ? `-${text}` : `(${type})(0 - ${text})`) : text))
      .join(', ')
  const isUsed = emission.plans.uses.count(node) > 0
  if (!isFragment(node)) {
    const text = `${call}(${place.address([], '0')}, ${operands('0')})`
    const guard = mask && emission.scalar(mask)
    if (isUsed) {
      const name = emission.names.take(`before_${verb}`)
      emission.fromLeader(type, name, guard ? `${guard} ? ${text} : (${type})0` : text, node.site)
      emission.setVariable(node, name)
    } else emission.byLeader(`${guard ? `if (${guard}) ` : ''}${text};`, node.site)
  } else {
    const layout = emission.plans.layouts.of(node)
    if (isUsed && layout.isFirst)
      emission.refuse(
        node,
        'whose result is used, on one element a row or column of a product, is not lowered to CUDA yet',
      )
    const name = isUsed ? emission.declareFragment(node, `before_${verb}`) : undefined
    const at = layout.place('i')
    const conditions = [
      layout.isFirst,
      layout.exists('i'),
      place.inside(at),
      mask && emission.element(mask, 'i', at).text,
    ]
    const guard = conditions.filter((one) => one !== undefined).join(' && ')
    const text = `${call}(${place.address(at, 'i')}, ${operands('i', at)})`
    if (name)
      emission.out.unrolled(
        layout.count,
        `${name}[i] = ${guard ? `(${guard}) ? ${text} : (${type})0` : text};`,
        node.site,
      )
    else emission.out.unrolled(layout.count, `${guard ? `if (${guard}) ` : ''}${text};`, node.site)
  }
}
