/** Finds the uses of every IR node. The emitter may overwrite a value in place at the last use of the value. */
import { walk, type Block, type Node } from '../../../ir/node.ts'
import { isLoop, opOf } from '../../../ir/ops/index.ts'

export class Uses {
  readonly #home = new Map<Node, Block>()
  readonly #owner = new Map<Block, Node>()
  readonly #users = new Map<Node, Node[]>()
  readonly #yields = new Map<Node, Block[]>()

  constructor(body: Block) {
    const visit = (block: Block): void => {
      for (const param of block.params) this.#home.set(param, block)
      for (const node of block.nodes) {
        opOf(node)
        this.#home.set(node, block)
        for (const input of node.inputs) append(this.#users, input, node)
        for (const inner of node.blocks) {
          this.#owner.set(inner, node)
          visit(inner)
        }
      }
      for (const result of block.results) append(this.#yields, result, block)
    }
    visit(body)
  }

  count(node: Node): number {
    return (this.#users.get(node)?.length ?? 0) + (this.#yields.get(node)?.length ?? 0)
  }

  users(node: Node): readonly Node[] {
    return this.#users.get(node) ?? []
  }

  /** The loops and branches around a node, innermost first. */
  *around(node: Node): Generator<Node> {
    let block = this.#home.get(node)
    while (block) {
      const owner = this.#owner.get(block)
      if (!owner) return
      yield owner
      block = this.#home.get(owner)
    }
  }

  /**
   * The nodes that a role may execute after the given node, in the same or in a later iteration of the enclosing loops.
   * The result includes the nodes that follow the `roles` node in the kernel.
   */
  *after(node: Node): Generator<Node> {
    for (let at = node; ;) {
      const block = this.#home.get(at)!
      for (const later of block.nodes.slice(block.nodes.indexOf(at) + 1)) {
        yield later
        for (const inner of later.blocks) yield* walk(inner)
      }
      const owner = this.#owner.get(block)
      if (!owner) return
      // Nodes of other roles are not yielded, because those roles can execute only after a barrier has released them.
      if (isLoop(owner)) for (const inner of owner.blocks) yield* walk(inner)
      at = owner
    }
  }

  /**
   * True if `user` is the last use of `value` and uses it exactly once. Nodes that only reshape `value` share its
   * elements, so their uses count as uses of `value`.
   */
  diesAt(value: Node, user: Node): boolean {
    const block = this.#home.get(value)
    if (!block || this.#home.get(user) !== block) return false
    const last = block.nodes.indexOf(user)
    const shown = [value, ...this.#shapesOf(value)]
    const users = shown.flatMap((one) => this.#users.get(one) ?? [])
    const yields = shown.flatMap((one) => this.#yields.get(one) ?? [])
    const places = [...users.map((one) => this.#home.get(one)!), ...yields]
    if (yields.includes(block) || users.filter((one) => one === user).length !== 1) return false
    return places.every((place, i) => {
      if (i < users.length && place === block) return block.nodes.indexOf(users[i]) <= last
      return block.nodes.indexOf(this.#ownerIn(block, place)) < last
    })
  }

  /** Returns the nodes that have the same elements as `value` in the same registers, but another shape. */
  #shapesOf(value: Node): Node[] {
    const shapes = (this.#users.get(value) ?? []).filter((one) => opOf(one).elements === 'stretched')
    return shapes.flatMap((one) => [one, ...this.#shapesOf(one)])
  }

  #ownerIn(block: Block, inner: Block): Node {
    let owner = this.#owner.get(inner)!
    while (this.#home.get(owner) !== block) owner = this.#owner.get(this.#home.get(owner)!)!
    return owner
  }
}

function append<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key)
  if (list) list.push(value)
  else map.set(key, [value])
}
