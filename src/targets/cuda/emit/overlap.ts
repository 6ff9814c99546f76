/**
 * Finds matrix products that may overlap: loops over a ring of tiles that may start the next matrix product before the
 * previous matrix product has completed.
 *
 * The matched pattern is the lowered form of `pipeline`: a loop nest that carries the accumulator. The innermost loop
 * contains one `dot` on a slot of a ring, followed by arrivals that release the slot. The barrier arrivals of an
 * iteration may be postponed until the next product has started, because the ring has at least two slots and the
 * producer waits for an arrival only when it reuses the slot.
 */
import { analysis } from '../../../ir/analysis.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { arrivesAt, awaitsBarrier, isOfThreads, opOf } from '../../../ir/ops/index.ts'

export interface Overlap {
  /** The outermost loop of the nest. All matrix products of the nest are complete when the outermost loop has ended. */
  readonly loop: Node
  readonly dot: Node
  /** The mbarrier arrivals that are postponed by one iteration. */
  readonly arrivals: readonly Node[]
}

export const planOverlap = analysis('overlap of products', findOverlap)

function findOverlap(ir: KernelIR): readonly Overlap[] {
  const found: Overlap[] = []
  const visit = (block: Block): void => {
    for (const node of block.nodes) {
      const overlap = node.op === 'for' ? matchNest(node) : undefined
      if (overlap) found.push(overlap)
      else node.blocks.forEach(visit)
    }
  }
  visit(ir.body)
  return found
}

/**
 * True for the `empty` barriers of a ring of at least two slots. The producer waits for `empty` barriers only when it
 * reuses a slot.
 */
function isHandBack(barriers: Node): boolean {
  return barriers.attributes.ring === 'empty' && attribute<number>(barriers, 'count') >= 2
}

function matchNest(loop: Node): Overlap | undefined {
  const [body] = loop.blocks
  const inner = body.nodes.filter((node) => node.op === 'for')
  const dots = body.nodes.filter((node) => node.op === 'dot')
  if (inner.length === 1 && dots.length === 0) {
    const match = matchNest(inner[0])
    if (!match || !onlyScalars(body, inner[0])) return undefined
    const at = carriedAt(match.dot, inner[0])
    const result = body.nodes.find(
      (node) =>
        node.op === 'result' && node.inputs[0] === inner[0] && attribute<number>(node, 'index') === at,
    )
    const init = inner[0].inputs[3 + at]
    if (!result || !isPassedOn(body, result, init)) return undefined
    return { ...match, loop }
  }
  if (inner.length > 0 || dots.length !== 1) return undefined
  const [dot] = dots
  const after = body.nodes.slice(body.nodes.indexOf(dot) + 1)
  const arrivals = after.filter(arrivesAt)
  const others = body.nodes.filter(
    (node) => node !== dot && !arrivals.includes(node) && !awaitsBarrier(node) && !isOfThreads(node),
  )
  if (arrivals.length === 0 || others.some((node) => opOf(node).effect !== 'pure')) return undefined
  if (after.some(awaitsBarrier)) return undefined
  if (dot.inputs.slice(0, 2).some((operand) => operand.type.kind !== 'ref')) return undefined
  if (!arrivals.every((arrival) => isHandBack(arrivesAt(arrival)!))) return undefined
  return isPassedOn(body, dot, dot.inputs[2]) ? { loop, dot, arrivals } : undefined
}

function onlyScalars(body: Block, inner: Node): boolean {
  return body.nodes.every((node) => node === inner || isOfThreads(node) || opOf(node).effect === 'pure')
}

function carriedAt(dot: Node, loop: Node): number {
  let index = -1
  const visit = (node: Node): void => {
    const [body] = node.blocks
    const at = body.results.findIndex((result) => result === dot)
    if (at >= 0) index = at
    const inner = body.nodes.find((one) => one.op === 'for')
    if (at < 0 && inner) {
      visit(inner)
      index = body.results.findIndex(
        (result) =>
          result.op === 'result' &&
          result.inputs[0] === inner &&
          attribute<number>(result, 'index') === index,
      )
    }
  }
  visit(loop)
  return index
}

/**
 * True if, at one index of the carried state of a loop, `from` is the value at the start and `to` is the value at the
 * end of an iteration, and neither value has another use.
 */
function isPassedOn(body: Block, to: Node, from: Node): boolean {
  const place = body.results.indexOf(to)
  const param = body.params[1 + place]
  if (place < 0 || param !== from) return false
  const uses = (node: Node): number =>
    [...walk(body)].reduce((sum, user) => sum + user.inputs.filter((input) => input === node).length, 0) +
    body.results.filter((result) => result === node).length
  return uses(to) === 1 && uses(from) === 1
}
