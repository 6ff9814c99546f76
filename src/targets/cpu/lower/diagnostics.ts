/** Lowers the op for assertions. */
import { attribute, type Node } from '../../../ir/node.ts'
import { unary } from '../build.ts'
import type { Lowering } from './context.ts'
import { scalar } from './scalars.ts'
import { raise } from './sync.ts'

export function assert(l: Lowering, node: Node): void {
  const { sites } = l.shared
  sites.messages[sites.number(node)] = attribute<string>(node, 'message')
  const holds = scalar(l, node.inputs[0])
  l.writer.if(unary('eqz', holds), () => raise(l, 'assertion', node))
}
