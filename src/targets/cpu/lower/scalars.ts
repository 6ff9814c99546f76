/** Scalars: every one is a local, set where its node stands, or a constant. */
import { attribute, type Node } from '../../../ir/node.ts'
import { constant, use } from '../build.ts'
import type { CodeType, Expression } from '../code.ts'
import { valueOf, type Lowering } from './context.ts'
import { valueCodeType } from './convert.ts'
import { element } from './elements.ts'
import { extentOf, view, type FlagsView } from './views.ts'

/** The value of a scalar node. */
export function scalar(l: Lowering, node: Node): Expression {
  let value = l.scalars.get(node)
  if (!value) {
    value = standing(l, node) ?? l.capture?.(node)
    if (!value) throw new Error(`${node.op} has no value here`)
    l.scalars.set(node, value)
  }
  return value
}

/** What is the same everywhere in a program. */
function standing(l: Lowering, node: Node): Expression | undefined {
  switch (node.op) {
    case 'const': {
      const type = valueCodeType(valueOf(node).dtype, false) as Exclude<CodeType, 'ptr'>
      const value = attribute<number>(node, 'value')
      return constant(type, type === 'i32' ? value | 0 : value)
    }
    case 'rank':
      return l.rank
    case 'program':
      return use(l.ambient.program)
    case 'programs':
      return l.launchWord('grid')
    case 'param':
      return l.shared.ir.body.params.includes(node) ? l.scalarParam(node) : undefined
    default:
      return undefined
  }
}

/** A scalar operation, where it stands. */
export function lowerScalar(l: Lowering, node: Node): void {
  const { writer } = l
  switch (node.op) {
    case 'const':
    case 'rank':
    case 'program':
    case 'programs':
      scalar(l, node)
      return
    case 'dim':
      l.scalars.set(node, extentOf(l, node))
      return
    case 'epoch': {
      const { param } = view(l, node.inputs[0]) as FlagsView
      l.scalars.set(node, l.epoch(param, node.attributes.side === 'signal' ? 'signalled' : 'waited'))
      return
    }
    default: {
      const value = element(
        l,
        node,
        node.inputs.map((input) => scalar(l, input)),
      )
      l.scalars.set(
        node,
        value.kind === 'local' || value.kind === 'const' ? value : use(writer.let(node.op, value)),
      )
    }
  }
}
