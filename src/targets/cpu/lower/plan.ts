/**
 * Decides where fragments are computed. If a single consumer reads a fragment element by element, the fragment is not
 * stored: the consumer's loop computes its elements. The plan determines which fragments are stored ("kept"), when a
 * kept fragment is read for the last time, and which loop-carried values the next iteration's values may overwrite.
 */
import { attribute, walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { isElementwise, isStrong, opOf, origin, writtenRefs } from '../../../ir/ops/index.ts'
import { hasEffect } from '../../../ir/passes/dead.ts'
import { elements, type ValueType } from '../../../ir/type.ts'

interface Use {
  /** The node that uses the value; undefined if the block yields the value. */
  readonly user: Node | undefined
  readonly block: Block
  /** The value's index among the inputs of the node that uses it, or among the results of the block that yields it. */
  readonly input: number
}

export const isFragment = (node: Node): boolean => node.type.kind === 'value' && node.type.shape.length > 0
const countOf = (node: Node): number => elements((node.type as ValueType).shape)

const isWeakLoad = (node: Node): boolean => node.op === 'load' && !isStrong(node)

const isStretching = (node: Node): boolean => opOf(node).elements === 'stretched'
const isIndices = (node: Node): boolean => opOf(node).elements === 'indices'

/**
 * True if the user node, to compute an element at one index, reads elements of the fragment at other indices, as a
 * matrix product or gathered rows do.
 */
function wantsWhole(user: Node, input: number): boolean {
  const { accesses, effect, elements, isView } = opOf(user)
  if (accesses.some(({ at }) => at === input)) return true
  if (isView && user.type.kind !== 'value') return user.op !== 'at'
  return effect === 'pure' && elements === 'other'
}

/**
 * The maximum number of operations for a fragment that each reader recomputes from scalars and indices instead of
 * storing it.
 */
const mostCheap = 4
/** The maximum cost of each recomputed operation, in additions. */
const mostAtOnce = 4

export class Plan {
  readonly #uses = new Map<Node, Use[]>()
  readonly #home = new Map<Node, { readonly block: Block; readonly position: number }>()
  readonly #owner = new Map<Block, Node>()
  readonly #roots = new Map<Node, ReadonlySet<Node | Block>>()
  readonly #kept = new Map<Node, boolean>()
  readonly #cheap = new Map<Node, number>()

  constructor(ir: KernelIR) {
    this.#index(ir.body)
    for (const node of [...walk(ir.body)].reverse()) if (isFragment(node)) this.isKept(node)
  }

  #index(block: Block): void {
    for (const param of block.params) this.#home.set(param, { block, position: -1 })
    block.nodes.forEach((node, position) => {
      this.#home.set(node, { block, position })
      node.inputs.forEach((from, input) => this.#use(from, { user: node, block, input }))
      for (const inner of node.blocks) {
        this.#owner.set(inner, node)
        this.#index(inner)
      }
    })
    block.results.forEach((from, input) => this.#use(from, { user: undefined, block, input }))
  }

  #use(node: Node, use: Use): void {
    const known = this.#uses.get(node)
    if (known) known.push(use)
    else this.#uses.set(node, [use])
  }

  isUsed(node: Node): boolean {
    return this.#uses.has(node)
  }

  users(node: Node): readonly Node[] {
    return (this.#uses.get(node) ?? []).flatMap(({ user }) => (user ? [user] : []))
  }

  blockOf(node: Node): Block {
    return this.#home.get(node)!.block
  }

  /**
   * The number of operations that compute the fragment from scalars, indices and constants, or infinity if the
   * computation needs anything else.
   */
  #cost(node: Node): number {
    if (!isFragment(node)) return 0
    let cost = this.#cheap.get(node)
    if (cost !== undefined) return cost
    const inputs = node.inputs.reduce((sum, input) => sum + this.#cost(input), 0)
    cost =
      isIndices(node) || isStretching(node)
        ? inputs
        : isElementwise(node) && Number(opOf(node).operations) <= mostAtOnce
          ? inputs + 1
          : Infinity
    this.#cheap.set(node, cost)
    return cost
  }

  /** True if the fragment's elements are stored in the program's private memory (the frame). */
  isKept(node: Node): boolean {
    let kept = this.#kept.get(node)
    if (kept === undefined) this.#kept.set(node, (kept = this.#decide(node)))
    return kept
  }

  #decide(node: Node): boolean {
    if (this.#cost(node) <= mostCheap) return false
    const isView = isStretching(node)
    if (!isView && !isElementwise(node) && !isWeakLoad(node)) return true
    const { block, position } = this.#home.get(node)!
    for (const { user, input } of this.#uses.get(node) ?? [])
      if (!user || wantsWhole(user, input)) return true
    if (isView) return false
    if (this.#isStretched(node)) return true
    const roots = this.roots(node)
    if (roots.size !== 1) return true
    const [root] = roots
    if (!('op' in root) || this.#home.get(root)!.block !== block) return true
    return isWeakLoad(node) && !this.#mayDelay(node, root, position)
  }

  /** True if some user reads an element more than once. */
  #isStretched(node: Node): boolean {
    return this.users(node).some(
      (user) =>
        opOf(user).elements === 'moved' ||
        (isStretching(user) && (countOf(user) > countOf(node) || this.#isStretched(user))),
    )
  }

  /**
   * The nodes whose code reads the fragment's elements: its direct users, or the nodes whose loops compute those users.
   */
  roots(node: Node): ReadonlySet<Node | Block> {
    const known = this.#roots.get(node)
    if (known) return known
    const roots = new Set<Node | Block>()
    for (const { user, block } of this.#uses.get(node) ?? []) {
      if (!user) roots.add(block)
      else if (user.op === 'at' || (isFragment(user) && !this.isKept(user)))
        for (const root of this.roots(user)) roots.add(root)
      else roots.add(user)
    }
    this.#roots.set(node, roots)
    return roots
  }

  /**
   * True if the load may run at the node that consumes it instead: neither that node nor the nodes in between change
   * the memory that the load reads.
   */
  #mayDelay(load: Node, root: Node, position: number): boolean {
    const { block, position: end } = this.#home.get(root)!
    for (let at = position + 1; at < end; at++) {
      const { effect } = opOf(block.nodes[at])
      if (effect === 'write' || effect === 'sync' || (effect === 'control' && hasEffect(block.nodes[at])))
        return false
    }
    if (opOf(root).effect !== 'write') return true
    const [from, to] = [load.inputs[0], writtenRefs(root)[0]]
    if (from === to && root.op === 'store' && from.op !== 'at')
      return this.#isReadInPlace(root.inputs[1], load)
    if (origin(from).base === origin(to).base || from.op === 'at' || to.op === 'at') return false
    // The code must allow for two parameters that are the same tensor. If two parameters are the same tensor, whole
    // tiles of one shape are identical or disjoint.
    return from.op === 'tile' && to.op === 'tile' && this.#isReadInPlace(root.inputs[1], load)
  }

  /** True if the computation of element (i, j) of `node` reads no element of `value` except element (i, j). */
  #isReadInPlace(node: Node, value: Node): boolean {
    if (node === value) return true
    if (!this.reads(node, value)) return true
    return isElementwise(node) && node.inputs.every((input) => this.#isReadInPlace(input, value))
  }

  /** True if the code that computes `node` reads `value` while it runs. */
  reads(node: Node, value: Node): boolean {
    if (node === value) return true
    if (!isFragment(node) && !opOf(node).isView) return false
    // Fragments whose place of computation is not decided yet count as computed by their consumers.
    if (this.#kept.get(node)) return false
    return node.inputs.some((input) => this.reads(input, value))
  }

  /** True if all readers of `value` are in `block` before `position`, except `last`, which is at `position`. */
  #isReadUpTo(value: Node, block: Block, position: number, last: Node): boolean {
    for (const root of this.roots(value)) {
      if (root === last) continue
      if (!('op' in root)) return false
      // A reader inside a nested loop counts as a reader at the position of that loop.
      let outer = root
      while (this.#home.get(outer)!.block !== block) {
        const owner = this.#owner.get(this.#home.get(outer)!.block)
        if (!owner) return false
        outer = owner
      }
      if (this.#home.get(outer)!.position >= position) return false
    }
    return true
  }

  /**
   * True if `consumer` is the last reader of a kept value and reads it only as input number `input`, so that the
   * consumer may reuse the memory of the value.
   */
  isLastUse(value: Node, consumer: Node, input: number): boolean {
    const { block, position } = this.#home.get(consumer)!
    if (this.#home.get(value)!.block !== block) return false
    const uses = this.#uses.get(value)!
    return (
      this.#isReadUpTo(value, block, position, consumer) &&
      uses.filter(({ user }) => user === consumer).every((use) => use.input === input) &&
      consumer.inputs.every((other, i) => i === input || !this.reads(other, value))
    )
  }

  /**
   * True if the next value of a fragment that a loop carries can be written to the buffer of the current value. Writing
   * in place requires that the current value is not read afterwards, and that the computation of the next value reads
   * it element by element.
   */
  mayOverwrite(param: Node, successor: Node): boolean {
    const { block } = this.#home.get(param)!
    const made = successor.op === 'result' ? successor.inputs[0] : successor
    const home = this.#home.get(made)
    if (!home || home.block !== block || home.position < 0) return false
    if (!this.#isReadUpTo(param, block, home.position, made)) return false
    if (!isFragment(successor)) return false
    if (successor.op === 'result') {
      if (opOf(made).state === 'yielded') return false
      const state = attribute<number>(successor, 'index')
      const first = made.inputs.length - made.blocks[made.blocks.length - 1].results.length
      return made.inputs.every((input, i) =>
        i === first + state ? this.#isReadInPlace(input, param) : !this.reads(input, param),
      )
    }
    if (successor.op === 'dot')
      return (
        !this.reads(successor.inputs[0], param) &&
        !this.reads(successor.inputs[1], param) &&
        this.#isReadInPlace(successor.inputs[2], param)
      )
    if (isElementwise(successor)) return successor.inputs.every((input) => this.#isReadInPlace(input, param))
    return successor.inputs.every((input) => !this.reads(input, param))
  }
}
