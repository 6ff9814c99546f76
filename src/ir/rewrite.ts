/**
 * Helpers that build a changed copy of the IR. Passes never modify a node in place; they copy a block and replace some
 * of its nodes. A Copier maps old nodes to new nodes and infers their types again, so a pass cannot leave an outdated
 * type.
 */
import { Block, Node, type Attributes } from './node.ts'
import { inferType, type OpName } from './ops/index.ts'
import type { Site } from './site.ts'
import type { Type } from './type.ts'

export class Copier {
  readonly map = new Map<Node, Node>()
  #block = new Block()
  /**
   * A callback for every node of every copied block. The callback returns the node's replacement, or undefined to copy
   * the node unchanged.
   */
  readonly replace: (node: Node, copier: Copier) => Node | 'drop' | undefined

  constructor(replace: (node: Node, copier: Copier) => Node | 'drop' | undefined = () => undefined) {
    this.replace = replace
  }

  get(node: Node): Node {
    const mapped = this.map.get(node)
    if (!mapped) throw new Error(`${node.op} has not been copied`)
    return mapped
  }

  /** The nodes that have been appended to the current block. */
  get nodes(): readonly Node[] {
    return this.#block.nodes
  }

  /** Appends a new node to the current block. */
  emit(
    op: OpName,
    inputs: readonly Node[],
    attributes: Attributes = {},
    blocks: readonly Block[] = [],
    site?: Site,
  ): Node {
    const node = new Node(op, inferType(op, { inputs, attributes, blocks }), inputs, attributes, blocks, site)
    this.#block.nodes.push(node)
    return node
  }

  constant(value: number, site?: Site): Node {
    return this.emit('const', [], { dtype: 'i32', value }, [], site)
  }

  /**
   * Builds a block with the function `fill`, which appends nodes through this copier and returns the block's results.
   */
  block(
    params: readonly { type: Type; name: string; site?: Site }[],
    fill: (params: readonly Node[]) => readonly Node[],
  ): Block {
    const outer = this.#block
    const block = new Block()
    this.#block = block
    for (const { type, name, site } of params)
      block.params.push(new Node('param', type, [], { name }, [], site))
    block.results = fill(block.params)
    this.#block = outer
    return block
  }

  /** Copies a block, including its parameters. */
  copyBlock(source: Block): Block {
    const params = source.params.map((param) => ({
      type: param.type,
      name: String(param.attributes.name),
      site: param.site,
    }))
    return this.block(params, (fresh) => {
      source.params.forEach((param, i) => this.map.set(param, fresh[i]))
      this.copyNodes(source)
      return source.results.map((result) => this.get(result))
    })
  }

  /** Copies the nodes of a block into the current block. */
  copyNodes(source: Block): void {
    for (const node of source.nodes) this.copyNode(node)
  }

  copyNode(node: Node): void {
    const replaced = this.replace(node, this)
    if (replaced === 'drop') return
    this.map.set(node, replaced ?? this.copyAsIs(node))
  }

  copyAsIs(node: Node): Node {
    const blocks = node.blocks.map((block) => this.copyBlock(block))
    return this.emit(
      node.op,
      node.inputs.map((input) => this.get(input)),
      node.attributes,
      blocks,
      node.site,
    )
  }
}
