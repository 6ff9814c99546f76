/** Small helpers to build IR by hand, for tests of single ops and of the verifier. */
import { Block, Node, type Attributes, type KernelIR } from '../../src/ir/node.ts'
import { inferType, ops, type Datum, type OpName } from '../../src/ir/ops/index.ts'
import type { Type } from '../../src/ir/type.ts'

/** Builds a node with the type that its op infers. */
export function node(
  op: OpName,
  inputs: readonly Node[] = [],
  attributes: Attributes = {},
  blocks: readonly Block[] = [],
): Node {
  return new Node(op, inferType(op, { inputs, attributes, blocks }), inputs, attributes, blocks)
}

export function param(type: Type, name = 'x'): Node {
  return new Node('param', type, [], { name })
}

export function block(params: readonly Node[], nodes: readonly Node[], results: readonly Node[] = []): Block {
  const made = new Block()
  made.params.push(...params)
  made.nodes.push(...nodes)
  made.results = results
  return made
}

export function kernelOf(body: Block, stage: KernelIR['stage'] = 'recorded'): KernelIR {
  return { name: 'test', body, world: 2, meta: {}, stage }
}

/** Evaluates an op on data of the given types. */
export function evaluate(
  op: OpName,
  types: readonly Type[],
  data: readonly Datum[],
  attributes: Attributes = {},
): Datum {
  const inputs = types.map((type, i) => param(type, `x${i}`))
  return ops[op].evaluate!(node(op, inputs, attributes), data)
}
