/**
 * The recorder appends nodes to the current block and tracks the scope of each value. The recorder reports a call that
 * violates the signature of an op as an error at the author's line.
 */
import { Block, Node, type Attributes } from '../ir/node.ts'
import { inferType, SpecError, type OpName } from '../ir/ops/index.ts'
import { KernelError, Site } from '../ir/site.ts'
import type { Type } from '../ir/type.ts'

/**
 * Throws an error if the body of a kernel or loop is async. A body is recorded while it runs, so operations after an
 * `await` would be lost.
 */
export function expectSynchronous(returned: unknown, what: string, site = Site.here()): void {
  if (!(returned instanceof Promise)) return
  // A rejection of the body's promise is ignored, because the error that is thrown next explains the problem.
  returned.catch(() => undefined)
  throw new KernelError(
    `${what}: the body is recorded while it runs and cannot be async; use await before the kernel`,
    site,
  )
}

export class Recorder {
  readonly world: number
  readonly root = new Block()
  readonly #open: Block[] = [this.root]
  readonly #home = new WeakMap<Node, Block>()
  #closed = false

  constructor(world: number) {
    this.world = world
  }

  emit(
    op: OpName,
    inputs: readonly Node[],
    attributes: Attributes = {},
    blocks: readonly Block[] = [],
  ): Node {
    const site = Site.here()
    if (this.#closed)
      throw new KernelError(
        `${op} was called after the kernel was recorded: use symbolic values only inside the body of the kernel`,
        site,
      )
    for (const input of inputs) this.#expectInScope(input, op, site)
    let type: Type
    try {
      type = inferType(op, { inputs, attributes, blocks })
    } catch (error) {
      if (error instanceof SpecError) throw new KernelError(`${op}: ${error.message}`, site)
      throw error
    }
    const node = new Node(op, type, inputs, attributes, blocks, site)
    const block = this.#open[this.#open.length - 1]
    block.nodes.push(node)
    this.#home.set(node, block)
    return node
  }

  param(block: Block, type: Type, name: string): Node {
    const node = new Node('param', type, [], { name }, [], Site.here())
    block.params.push(node)
    this.#home.set(node, block)
    return node
  }

  /** Records the operations of `body` into `block`. The nodes that the body returns become the block's results. */
  within(block: Block, body: () => readonly Node[]): Block {
    this.#open.push(block)
    try {
      const results = body()
      const site = Site.here()
      for (const result of results) this.#expectInScope(result, 'the result of a block', site)
      block.results = results
    } finally {
      this.#open.pop()
    }
    return block
  }

  close(): void {
    this.#closed = true
  }

  #expectInScope(node: Node, op: string, site: Site): void {
    const home = this.#home.get(node)
    if (!home)
      throw new KernelError(`${op}: the operand belongs to another kernel or another recording`, site)
    if (!this.#open.includes(home))
      throw new KernelError(
        `${op}: the value made at ${node.site} does not exist here: it belongs to a loop, branch or role that has ended. ` +
          'Return the value from its block, as carried state or as a result of if()',
        site,
      )
  }
}
