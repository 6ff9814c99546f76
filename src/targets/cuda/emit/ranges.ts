/**
 * Facts about scalars that follow from where they come from: integers that are never negative, and powers of two that divide
 * them. Both say "unknown" rather than guess. (Sums and products of indices are taken not to overflow: they address memory.)
 */
import { attribute, type Block, type Node } from '../../../ir/node.ts'
import type { EmitFacts, TensorFacts } from './recipe.ts'

export class Ranges {
  readonly #facts: EmitFacts
  /** The control node and block each param belongs to. */
  readonly #owners = new Map<Node, { control: Node; block: Block }>()
  /** Known to be possibly negative; the rest is assumed not to be until shown otherwise. */
  readonly #maybeNegative = new Set<Node>()
  #trial = new Map<Node, boolean>()

  constructor(body: Block, facts: EmitFacts) {
    this.#facts = facts
    const visit = (block: Block): void => {
      for (const node of block.nodes)
        for (const inner of node.blocks) {
          for (const param of inner.params) this.#owners.set(param, { control: node, block: inner })
          visit(inner)
        }
    }
    visit(body)
  }

  /** The control node a param belongs to, and its place among its carried state; undefined for indices. */
  carried(param: Node): { control: Node; index: number } | undefined {
    const owner = this.#owners.get(param)
    if (!owner) return undefined
    const index = owner.block.params.indexOf(param) - leadingParams(owner.control, owner.block)
    return index < 0 ? undefined : { control: owner.control, index }
  }

  /** What a loop carries is assumed not to be negative while it is looked at; a refuted assumption starts the search anew. */
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

  #find(node: Node): boolean {
    const all = (): boolean => node.inputs.every((input) => this.#visit(input))
    switch (node.op) {
      case 'const':
        return attribute<number>(node, 'value') >= 0
      case 'rank':
      case 'program':
      case 'programs':
      case 'dim':
      case 'iota':
        return true
      case 'add':
      case 'mul':
      case 'div':
      case 'min':
      case 'shr':
        return all()
      case 'mod':
        return this.#visit(node.inputs[0])
      case 'max':
        return node.inputs.some((input) => this.#visit(input))
      case 'select':
        return node.inputs.slice(1).every((input) => this.#visit(input))
      case 'param': {
        const owner = this.#owners.get(node)
        if (!owner) return false
        const { control, block } = owner
        const carried = this.carried(node)
        if (!carried) return control.op === 'for' ? this.#visit(control.inputs[0]) : control.op !== 'while'
        const init = control.inputs[control.inputs.length - block.results.length + carried.index]
        return control.op !== 'while' && this.#visit(init) && this.#visit(block.results[carried.index])
      }
      case 'result': {
        const [control] = node.inputs
        const index = attribute<number>(node, 'index')
        if (control.op === 'if' || control.op === 'until')
          return control.blocks.every((block) => this.#visit(block.results[index]))
        const [block] = control.blocks
        return control.op !== 'while' && this.#visit(block.params[leadingParams(control, block) + index])
      }
      default:
        return false
    }
  }

  /** A power of two that divides the integer; 1 says nothing, 0 is divided by everything. */
  divisor(node: Node): number {
    const [a, b] = node.inputs
    switch (node.op) {
      case 'const':
        return powerOfTwo(attribute<number>(node, 'value'))
      case 'dim': {
        return a.op === 'param' ? this.extentDivisor(a, attribute<number>(node, 'axis')) : 1
      }
      case 'mul':
        return Math.min(2 ** 20, this.divisor(a) * this.divisor(b))
      case 'add':
      case 'sub':
        return smaller(this.divisor(a), this.divisor(b))
      case 'select':
        return smaller(this.divisor(node.inputs[1]), this.divisor(node.inputs[2]))
      default:
        return 1
    }
  }

  /** Of an axis of a tensor, which is a parameter. */
  extentDivisor(tensor: Node, axis: number): number {
    return this.factsOf(tensor)?.divisors[axis] ?? 1
  }

  /** What is known of a tensor, if anything is. */
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

/** How many params of a control node's block come before its carried state. */
export function leadingParams(control: Node, block: Block): number {
  return block.params.length - (control.op === 'while' ? block.params.length : block.results.length)
}
