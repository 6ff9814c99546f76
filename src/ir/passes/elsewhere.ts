/**
 * Whether a place lies in another rank's memory, whatever the rank. Its owner is (rank + n) mod world, where n is never a multiple of
 * the world: a loop over the peers, `rank + 1 + step`, is of that form. Or it stands in a branch that is only taken where its owner
 * is not this rank.
 */
import { walk, type Block, type Node } from '../node.ts'
import { origin } from '../ops/index.ts'

/** Bounds, both included; an empty range where the low one is higher. */
interface Range {
  readonly low: number
  readonly high: number
}

/** Asks about places inside the block. */
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

/** By owner, what stands in branches that are taken where that is not this rank. */
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

/** How far a sum lies from the rank, which must be one of its terms, once. */
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
