/**
 * Derives facts about integer scalars from their definitions: which integers are never negative, and which powers of
 * two divide them. The analyses of signs and of divisors are conservative. Sums and products of indices are assumed not
 * to overflow, because they address memory.
 */
import { attribute, type Block, type Node } from '../../../ir/node.ts'
import { entryOf, opOf, type ControlName, type OpName } from '../../../ir/ops/index.ts'
import type { EmitFacts, TensorFacts } from './recipe.ts'

export class Ranges {
  readonly #facts: EmitFacts
  /** The control node and the block that each block parameter belongs to. */
  readonly #owners = new Map<Node, { control: Node; block: Block }>()
  /** Nodes that may be negative. All other nodes are assumed to be non-negative until the assumption is refuted. */
  readonly #maybeNegative = new Set<Node>()
  #trial = new Map<Node, boolean>()

  constructor(body: Block, facts: EmitFacts) {
    this.#facts = facts
    const visit = (block: Block): void => {
      for (const node of block.nodes) {
        opOf(node)
        for (const inner of node.blocks) {
          for (const param of inner.params) this.#owners.set(param, { control: node, block: inner })
          visit(inner)
        }
      }
    }
    visit(body)
  }

  /**
   * The control node of a block parameter and the parameter's index in the carried state; undefined for loop indices.
   */
  carried(param: Node): { control: Node; index: number } | undefined {
    const owner = this.#owners.get(param)
    if (!owner) return undefined
    const index = owner.block.params.indexOf(param) - leadingParams(owner.control, owner.block)
    return index < 0 ? undefined : { control: owner.control, index }
  }

  /**
   * True if the node is never negative. Values carried by loops are assumed non-negative; a refuted assumption restarts
   * the search.
   */
  isNonNegative(node: Node): boolean {
    for (;;) {
      this.#trial = new Map()
      const found = this.#visit(node)
      const refuted = [...this.#trial].filter(([one, holds]) => !holds && !this.#maybeNegative.has(one))
      for (const [one] of refuted) this.#maybeNegative.add(one)
      if (refuted.length === 0) return found
    }
  }

  #visit(node: Node): boolean {
    if (this.#maybeNegative.has(node)) return false
    const known = this.#trial.get(node)
    if (known !== undefined) return known
    this.#trial.set(node, true)
    const found = this.#find(node)
    this.#trial.set(node, found)
    return found
  }

  /**
   * For each op, the rule that says whether its result is non-negative. The result of an op without a rule may be
   * negative, so the table need not list every op.
   */
  readonly #nonNegative: Readonly<Partial<Record<OpName, (node: Node) => boolean>>> = {
    const: (node) => attribute<number>(node, 'value') >= 0,
    rank: () => true,
    program: () => true,
    programs: () => true,
    dim: () => true,
    iota: () => true,
    add: (node) => this.#all(node),
    mul: (node) => this.#all(node),
    div: (node) => this.#all(node),
    min: (node) => this.#all(node),
    shr: (node) => this.#all(node),
    mod: ({ inputs: [dividend] }) => this.#visit(dividend),
    max: ({ inputs }) => inputs.some((input) => this.#visit(input)),
    select: ({ inputs }) => inputs.slice(1).every((input) => this.#visit(input)),
    param: (node) => this.#param(node),
    result: (node) => this.#result(node),
  }

  /** For each control op, whether the indices that it passes to its block are non-negative. */
  readonly #indices: Readonly<Record<ControlName, (control: Node) => boolean>> = {
    for: ({ inputs: [low] }) => this.#visit(low),
    persistent: () => true,
    pipeline: () => true,
    teams: () => true,
    boxes: () => true,
    // The blocks of `while`, `if`, `until`, `once`, `roles` and `last` have no index parameters.
    while: () => false,
    if: () => false,
    until: () => false,
    once: () => false,
    roles: () => false,
    last: () => false,
  }

  #find(node: Node): boolean {
    return this.#nonNegative[node.op]?.(node) ?? false
  }

  #all({ inputs }: Node): boolean {
    return inputs.every((input) => this.#visit(input))
  }

  #param(param: Node): boolean {
    const owner = this.#owners.get(param)
    if (!owner) return false
    const { control, block } = owner
    const carried = this.carried(param)
    if (!carried) return entryOf(this.#indices, control)(control)
    if (opOf(control).state !== 'carried') return false
    const init = control.inputs[control.inputs.length - block.results.length + carried.index]
    return this.#visit(init) && this.#visit(block.results[carried.index])
  }

  #result(node: Node): boolean {
    const [control] = node.inputs
    const index = attribute<number>(node, 'index')
    const { state } = opOf(control)
    if (state === 'yielded') return control.blocks.every((block) => this.#visit(block.results[index]))
    if (state !== 'carried') return false
    const [block] = control.blocks
    return this.#visit(block.params[leadingParams(control, block) + index])
  }

  /**
   * Returns a power of two that divides the integer. The result 1 means that no larger divisor is known, and the result
   * 0 means that the integer is 0.
   */
  divisor(node: Node): number {
    return this.#divisors[node.op]?.(node) ?? 1
  }

  /**
   * For each op, the rule that computes a power of two that divides its result. Nothing is known about the result of an
   * op without a rule, so the table need not list every op.
   */
  readonly #divisors: Readonly<Partial<Record<OpName, (node: Node) => number>>> = {
    const: (node) => powerOfTwo(attribute<number>(node, 'value')),
    dim: (node) => {
      const [of] = node.inputs
      return of.op === 'param' ? this.extentDivisor(of, attribute<number>(node, 'axis')) : 1
    },
    mul: ({ inputs: [a, b] }) => Math.min(2 ** 20, this.divisor(a) * this.divisor(b)),
    add: ({ inputs: [a, b] }) => smaller(this.divisor(a), this.divisor(b)),
    sub: ({ inputs: [a, b] }) => smaller(this.divisor(a), this.divisor(b)),
    select: ({ inputs: [, a, b] }) => smaller(this.divisor(a), this.divisor(b)),
  }

  /** A power of two that divides the extent of an axis of a tensor parameter. */
  extentDivisor(tensor: Node, axis: number): number {
    return this.factsOf(tensor)?.divisors[axis] ?? 1
  }

  /** The compile-time facts of a tensor parameter, or undefined if no facts are known. */
  factsOf(tensor: Node): TensorFacts | undefined {
    return this.#facts.tensors[attribute<string>(tensor, 'name')]
  }

  isMultipleOf(node: Node, of: number): boolean {
    const divisor = this.divisor(node)
    return (
      divisor === 0 ||
      divisor % of === 0 ||
      (node.op === 'const' && attribute<number>(node, 'value') % of === 0)
    )
  }
}

const powerOfTwo = (value: number): number => (value === 0 ? 0 : value & -value)
const smaller = (a: number, b: number): number => (a === 0 ? b : b === 0 ? a : Math.min(a, b))

/** The number of parameters of a control node's block that precede the carried state. */
export function leadingParams(control: Node, block: Block): number {
  return opOf(control).state === 'tested' ? 0 : block.params.length - block.results.length
}
