/**
 * Implements the stage `clusters`: the programs (thread blocks) of a cluster load a common tile only once. A multicast
 * copy of n programs is divided into n horizontal strips (attribute `parts`). Each program copies one strip into the
 * shared tiles of all n programs, and in each program the barrier that marks a slot as full completes when all strips
 * have arrived. A slot of the ring may be filled again only after all n programs have released it, so a release arrives
 * at the empty barriers of all n programs (attribute `multicast` of the arrival).
 *
 * All programs of a cluster make the same copies only if, along each axis, the number of tiles is a multiple of the
 * number of programs per cluster. The stage derives such multiples from the known divisors of the extents. If a number
 * of tiles is not known to be such a multiple, every program copies its own tiles.
 */
import { analysis } from '../../../ir/analysis.ts'
import { clusterOf, extentsOf } from '../../../ir/clusters.ts'
import { subjectOf, withDecisions, type Decision } from '../../../ir/decisions.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { arrivesAt, awaitsBarrier, opOf } from '../../../ir/ops/index.ts'
import { Copier } from '../../../ir/rewrite.ts'
import { copiesIn } from './decide.ts'
import { Ranges } from './ranges.ts'
import type { EmitFacts } from './recipe.ts'

export const withMulticast = analysis('clusters', multicast, (ir) => multicast(ir, { tensors: {} }))

/**
 * Maps the barriers of each ring whose slots are filled by multicast copies to the cluster axes along which the copies
 * are multicast.
 */
type Rings = ReadonlyMap<Node, readonly number[]>

function multicast(ir: KernelIR, facts: EmitFacts): KernelIR {
  const cluster = clusterOf(ir)
  const decide = (made: KernelIR, ...decisions: readonly Decision[]): KernelIR =>
    withDecisions(made, 'clusters', decisions)
  if (!cluster) return decide(ir, { what: 'no clusters: no loop has the option `cluster`' })
  const size = cluster.join(' x ')
  if (!fillsClusters(ir, facts))
    return decide(ir, {
      what: `no clusters: the tiles of a loop are not known to fill whole clusters of ${size} programs`,
    })
  const copies = sharedCopies(ir, cluster, facts)
  const rings = new Map<Node, readonly number[]>()
  for (const [copy, empty] of copies) {
    const axis = attribute<number>(copy, 'multicast')
    const known = rings.get(empty) ?? []
    if (!known.includes(axis)) rings.set(empty, [...known, axis].sort())
  }
  const asked = [...walk(ir.body)].filter(({ attributes }) => attributes.multicast !== undefined)
  const what = (copy: Node): string => {
    const parts = cluster[attribute<number>(copy, 'multicast')]
    if (copies.has(copy))
      return `multicast in a cluster of ${size}: each program copies 1 of ${parts} strips of the tile to all programs`
    return parts > 1
      ? `no multicast: TMA cannot make the copy, or its rows cannot be divided evenly among ${parts} programs`
      : `no multicast: a cluster of ${size} has only one program along the multicast axis`
  }
  const decisions = asked.map((copy) => ({ of: subjectOf(copy), what: what(copy) }))
  if (copies.size === 0) return decide(ir, ...decisions)
  return decide({ ...ir, body: rewrite(ir.body, cluster, copies, rings) }, ...decisions)
}

/**
 * True if, in every loop with clusters, the number of tiles along each axis is known to be a multiple of the cluster
 * size.
 */
function fillsClusters({ body }: KernelIR, facts: EmitFacts): boolean {
  const ranges = new Ranges(body, facts)
  for (const loop of walk(body)) {
    if (loop.op !== 'persistent' || !loop.attributes.cluster) continue
    const cluster = extentsOf(loop)
    const blocks = loop.inputs.slice(2, 2 + cluster.length)
    if (!blocks.every((count, axis) => cluster[axis] === 1 || isWhole(count, cluster[axis], ranges)))
      return false
  }
  return true
}

/** True if the rounded-up quotient `ceilDiv(items, by)` is known to be exact. */
function isWhole(count: Node, by: number, ranges: Ranges): boolean {
  const items = dividedUp(count, by)
  if (!items) return false
  if (ranges.isMultipleOf(items, by)) return true
  // The number of items is the number of tiles along an axis: ceilDiv(extent, rows of a tile).
  if (items.op !== 'div' || items.inputs[1].op !== 'const') return false
  const rows = attribute<number>(items.inputs[1], 'value')
  const extent = dividedUp(items, rows)
  return extent !== undefined && ranges.isMultipleOf(extent, rows * by)
}

/** Returns x if the node computes ceilDiv(x, by) = (x + by - 1) / by. */
function dividedUp(node: Node, by: number): Node | undefined {
  const isConstant = (one: Node, value: number): boolean =>
    one.op === 'const' && attribute<number>(one, 'value') === value
  if (node.op !== 'div' || !isConstant(node.inputs[1], by)) return undefined
  const [sum] = node.inputs
  return sum.op === 'add' && isConstant(sum.inputs[1], by - 1) ? sum.inputs[0] : undefined
}

/** Maps each copy that the programs of a cluster can share to the barriers that mark the slots of its ring as empty. */
function sharedCopies(ir: KernelIR, cluster: readonly number[], facts: EmitFacts): ReadonlyMap<Node, Node> {
  const plans = copiesIn(ir, facts)
  const found = new Map<Node, Node>()
  /**
   * Visits the copies of a block. If the producer waits before the block until a slot of the ring is empty, `around` is
   * the node that declares the barriers for this wait.
   */
  const visit = (block: Block, around: Node | undefined): void => {
    let empty = around
    for (const node of block.nodes) {
      const awaited = awaitsBarrier(node)
      if (awaited?.attributes.ring === 'empty') empty = awaited
      const { multicast: axis } = node.attributes
      if (opOf(node).completes === 'at barrier' && axis !== undefined && empty) {
        const parts = cluster[axis as number]
        if (parts > 1 && plans.canBeParted(node, parts)) found.set(node, empty)
      }
      node.blocks.forEach((inner) => visit(inner, empty))
    }
  }
  visit(ir.body, undefined)
  return found
}

function rewrite(
  body: Block,
  cluster: readonly number[],
  copies: ReadonlyMap<Node, Node>,
  rings: Rings,
): Block {
  const copier: Copier = new Copier((node) => {
    const inputs = (): Node[] => node.inputs.map((input) => copier.get(input))
    const again = (added: Node['attributes']): Node =>
      copier.emit(node.op, inputs(), { ...node.attributes, ...added }, [], node.site)
    const axes = rings.get(node)
    if (axes) {
      const others = axes.reduce((sum, axis) => sum + cluster[axis] - 1, 0)
      return again({ arrivals: attribute<number>(node, 'arrivals') * (1 + others), cluster })
    }
    if (copies.has(node)) return again({ parts: cluster[attribute<number>(node, 'multicast')] })
    const arrived = arrivesAt(node)
    const released = arrived && rings.get(arrived)
    return released && again({ multicast: released, cluster })
  })
  const params = body.params.map(({ type, attributes, site }) => ({
    type,
    name: String(attributes.name),
    site,
  }))
  return copier.block(params, (fresh) => {
    body.params.forEach((param, i) => copier.map.set(param, fresh[i]))
    const declarations = body.nodes.filter((node) => opOf(node).effect === 'declare')
    declarations.forEach((node) => copier.copyNode(node))
    // No program may arrive at a barrier that its owner has not initialised, or copy into the shared memory of a
    // program that has ended.
    copier.emit('cluster.meet', [], { cluster })
    for (const node of body.nodes) if (!declarations.includes(node)) copier.copyNode(node)
    copier.emit('cluster.meet', [], { cluster })
    return []
  })
}
