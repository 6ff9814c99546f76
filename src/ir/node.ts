/**
 * The IR: one node type, one block type.
 *
 * A node is an op applied to inputs; its type is inferred by the op's record and its attributes are plain data. Nodes
 * with effects take place in the order of their block. Control flow is structured: a node may own blocks, whose
 * parameters are `param` nodes and whose results are what the block yields. A node that yields several values is
 * followed by `result` nodes, one a value.
 */
import { opOf, type OpName } from './ops/table.ts'
import type { Site } from './site.ts'
import type { Type } from './type.ts'

export type AttributeValue = string | number | boolean | readonly (string | number)[]
export type Attributes = Readonly<Record<string, AttributeValue | undefined>>

export class Node {
  readonly op: OpName
  readonly type: Type
  readonly inputs: readonly Node[]
  readonly attributes: Attributes
  readonly blocks: readonly Block[]
  /** Where the author wrote it. */
  readonly site: Site | undefined

  constructor(
    op: OpName,
    type: Type,
    inputs: readonly Node[],
    attributes: Attributes = {},
    blocks: readonly Block[] = [],
    site?: Site,
  ) {
    this.op = op
    this.type = type
    this.inputs = inputs
    this.attributes = attributes
    this.blocks = blocks
    this.site = site
  }
}

export class Block {
  readonly params: Node[] = []
  readonly nodes: Node[] = []
  results: readonly Node[] = []
}

/** A recorded kernel: its parameters are the params of the body, in order and with their names as attribute. */
export interface KernelIR {
  readonly name: string
  readonly body: Block
  /** What it was specialised for. */
  readonly world: number
  readonly meta: Readonly<Record<string, unknown>>
  /** The last stage that it has passed: `recorded`, or one of a target's list (stages.ts). */
  readonly stage: string
  /** Ops that its stages have replaced. The verifier rejects a kernel that contains one. */
  readonly removed?: readonly OpName[]
  /** Tensors whose words may carry the epochs of flags, by name: see `tensor`. */
  readonly carried?: Readonly<Record<string, string>>
  /** What passes want the author to know. */
  readonly notes?: readonly string[]
}

/** Every node of a block and of the blocks inside it, in program order. An op without a record is refused. */
export function* walk(block: Block): Generator<Node> {
  for (const node of block.nodes) {
    opOf(node)
    yield node
    for (const inner of node.blocks) yield* walk(inner)
  }
}

export function attribute<T extends AttributeValue>(node: Node, name: string): T {
  const value = node.attributes[name]
  if (value === undefined) throw new Error(`${node.op} has no attribute ${name}`)
  return value as T
}
