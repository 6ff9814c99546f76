/**
 * Lowers scalar values to constants and local variables. Every scalar is either a constant or a local variable that is
 * set at its node's position.
 */
import { attribute, type Node } from '../../../ir/node.ts'
import type { OpWith } from '../../../ir/ops/index.ts'
import { constant, use } from '../build.ts'
import type { CodeType, Expression } from '../code.ts'
import { valueOf, type Lowering } from './context.ts'
import { valueCodeType } from './convert.ts'
import { element } from './elements.ts'
import { extentOf, view, type FlagsView } from './views.ts'

type IdName = OpWith<{ effect: 'pure'; varies: 'by rank' }> | OpWith<{ effect: 'pure'; varies: 'by program' }>

/** The value of a scalar node. */
export function scalar(l: Lowering, node: Node): Expression {
  let value = l.scalars.get(node)
  if (!value) {
    value = (stands(node) ? standing[node.op](l, node) : undefined) ?? l.capture?.(node)
    if (!value) throw new Error(`${node.op} has no value here`)
    l.scalars.set(node, value)
  }
  return value
}

/** Scalars that have the same value in all roles of a program. */
const standing: Readonly<
  Record<'const' | 'param' | IdName, (l: Lowering, node: Node) => Expression | undefined>
> = {
  const(_, node) {
    const type = valueCodeType(valueOf(node).dtype, false) as Exclude<CodeType, 'ptr'>
    const value = attribute<number>(node, 'value')
    return constant(type, type === 'i32' ? value | 0 : value)
  },
  rank: (l) => l.rank,
  program: (l) => use(l.ambient.program),
  programs: (l) => l.launchWord('grid'),
  param: (l, node) => (l.shared.ir.body.params.includes(node) ? l.scalarParam(node) : undefined),
}

const stands = (node: Node): node is Node & { readonly op: keyof typeof standing } => node.op in standing

/** True if every role of a program can compute the scalar itself, so that the leader need not pass it. */
export const isStanding = (l: Lowering, node: Node): boolean =>
  stands(node) && (node.op !== 'param' || l.shared.ir.body.params.includes(node))

/** The extent of one axis of a tensor or flag set. */
export function lowerExtent(l: Lowering, node: Node): void {
  l.scalars.set(node, extentOf(l, node))
}

export function lowerEpoch(l: Lowering, node: Node): void {
  const { param } = view(l, node.inputs[0]) as FlagsView
  l.scalars.set(node, l.epoch(param, node.attributes.side === 'signal' ? 'signalled' : 'waited'))
}

/** Lowers a scalar operation at its position. */
export function lowerElement(l: Lowering, node: Node): void {
  const value = element(
    l,
    node,
    node.inputs.map((input) => scalar(l, input)),
  )
  l.scalars.set(
    node,
    value.kind === 'local' || value.kind === 'const' ? value : use(l.writer.let(node.op, value)),
  )
}
