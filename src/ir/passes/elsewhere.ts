/**
 * Decides whether a memory reference is certain to refer to another rank's memory, on every rank. An owner of the form
 * (rank + n) mod world is always another rank if n is never a multiple of the world size. A loop over the peers with
 * `rank + 1 + step` has owners of the form (rank + n) mod world. A reference inside a branch that is taken only if the
 * owner is not this rank always refers to another rank, too.
 */
import { walk, type Block, type Node } from '../node.ts'
import { origin } from '../ops/index.ts'

/** An inclusive range of integers. A range is empty if `low` exceeds `high`. */
interface Range {
  readonly low: number
  readonly high: number
}

/** Returns a predicate that is true for references inside the block that always refer to another rank. */
export function elsewhere(block: Block, world: number): (place: Node) => boolean {
  const loops = loopsOf(block)
  const branches = branchesOf(block)
  return (place) => {
    const { owner } = origin(place)
    if (owner && branches.get(owner)?.has(place)) return true
    if (owner?.op !== 'mod' || owner.inputs[1].attributes.value !== world) return false
    const away = distance(owner.inputs[0], loops)
    return away !== undefined && away.low >= 1 && away.high < world
  }
}

function loopsOf(block: Block): ReadonlyMap<Node, Node> {
  const loops = new Map<Node, Node>()
  for (const node of walk(block)) if (node.op === 'for') loops.set(node.blocks[0].params[0], node)
  return loops
}

/** For each owner, the nodes in branches that are only taken if that owner is not the current rank. */
function branchesOf(block: Block): ReadonlyMap<Node, ReadonlySet<Node>> {
  const branches = new Map<Node, Set<Node>>()
  for (const node of walk(block)) {
    const [condition] = node.inputs
    if (node.op !== 'if' || (condition.op !== 'eq' && condition.op !== 'ne')) continue
    const taken = node.blocks.at(condition.op === 'eq' ? 1 : 0)
    const [owner, ...others] = condition.inputs.filter(({ op }) => op !== 'rank')
    if (!taken || !owner || others.length > 0) continue
    const inside = branches.get(owner) ?? new Set()
    for (const one of walk(taken)) inside.add(one)
    branches.set(owner, inside)
  }
  return branches
}

/**
 * The range of the values that `sum` minus the rank can have. The result is undefined unless exactly one term of `sum`
 * is the rank.
 */
function distance(sum: Node, loops: ReadonlyMap<Node, Node>): Range | undefined {
  const terms: Node[] = []
  const collect = (node: Node): void => {
    if (node.op === 'add') node.inputs.forEach(collect)
    else terms.push(node)
  }
  collect(sum)
  const others = terms.filter((term) => term.op !== 'rank')
  if (others.length !== terms.length - 1) return undefined
  let [low, high] = [0, 0]
  for (const term of others) {
    const range = rangeOf(term, loops)
    if (!range) return undefined
    low += range.low
    high += range.high
  }
  return { low, high }
}

function rangeOf(node: Node, loops: ReadonlyMap<Node, Node>): Range | undefined {
  const value = constant(node)
  if (value !== undefined) return { low: value, high: value }
  const loop = loops.get(node)
  const [low, end] = loop ? loop.inputs.map(constant) : []
  return low !== undefined && end !== undefined ? { low, high: end - 1 } : undefined
}

const constant = (node: Node): number | undefined =>
  node.op === 'const' && typeof node.attributes.value === 'number' ? node.attributes.value : undefined
