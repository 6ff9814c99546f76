/**
 * The IR consists of one node type and one block type.
 *
 * A node is an op applied to inputs. The type of a node is inferred by a function in the record of its op. The
 * attributes of a node are plain data. Nodes with effects execute in the order of their block. Control flow in the IR
 * is structured: a node may own blocks. The parameters of a block are `param` nodes, and the results of a block are the
 * values that it yields. A node with several values is followed by one `result` node per value.
 */
import type { Decision } from './decisions.ts'
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
  /** The source position at which the author's code created the node. */
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

/**
 * A kernel after recording, as IR. The parameters of a kernel are the `param` nodes of its body, in order, with their
 * names as an attribute.
 */
export interface KernelIR {
  readonly name: string
  readonly body: Block
  /** The number of ranks for which the kernel was specialised. */
  readonly world: number
  readonly meta: Readonly<Record<string, unknown>>
  /** The last compiler stage that the kernel has passed: `recorded`, or a stage of a target's list (stages.ts). */
  readonly stage: string
  /** All compiler stages that the kernel has passed, in order; undefined for a recorded kernel. */
  readonly passed?: readonly string[]
  /**
   * The names of ops that compiler stages have replaced by others in this kernel. The verifier rejects a kernel that
   * still contains a replaced op.
   */
  readonly removed?: readonly OpName[]
  /**
   * For each tensor that a GPU may transfer as flag-in-data words, which hold an epoch in their low bits: the name of
   * the flags that such words replace (see `tensor`).
   */
  readonly carried?: Readonly<Record<string, string>>
  /** The decisions of each compiler stage, for a human reader (decisions.ts). */
  readonly decisions?: Readonly<Record<string, readonly Decision[]>>
  /** Notes from compiler passes to the author of the kernel. */
  readonly notes?: readonly string[]
}

/**
 * Yields every node of a block and of the blocks inside it, in program order. `walk` throws an error if the op of a
 * node has no record.
 */
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
