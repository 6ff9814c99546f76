/** Small helpers to build IR by hand, for tests of single ops and of the verifier. */
import { Block, Node, walk, type Attributes, type KernelIR } from '../../src/ir/node.ts'
import { declaresBarriers, epochOf, inferType, ops, type Datum, type OpName } from '../../src/ir/ops/index.ts'
import type { Type } from '../../src/ir/type.ts'

/** Builds a node with the result type that the op infers from the inputs. */
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

/** Returns the body of a kernel after the ops that the last GPU stage requires at the start of a program. */
export function started(body: Block): Block {
  const barriers = body.nodes.filter(declaresBarriers)
  const declared = body.nodes.filter(({ op }) => op === 'shared' || op === 'barriers')
  const used = [...walk(body)].flatMap((one) => epochOf(one) ?? [])
  const read = used.filter(
    ({ flags, side }, i) => used.findIndex((one) => one.flags === flags && one.side === side) === i,
  )
  const advanced = read.filter(({ flags, side }) =>
    used.some((one) => one.advances && one.flags === flags && one.side === side),
  )
  const epochs = (op: OpName, some: typeof used): Node[] =>
    some.length === 0
      ? []
      : [
          node(
            op,
            some.map(({ flags }) => flags),
            { sides: some.map(({ side }) => side), thread: 0 },
          ),
        ]
  const start = [
    ...(barriers.length > 0 ? [node('start.barriers', barriers, { arrivals: barriers.map(() => 1) })] : []),
    node('start.after'),
    ...epochs('start.epochs', read),
    node('start.meet'),
    ...epochs('start.advance', advanced),
  ]
  const others = body.nodes.filter((one) => !declared.includes(one))
  return block(body.params, [...declared, ...start, ...others], body.results)
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
