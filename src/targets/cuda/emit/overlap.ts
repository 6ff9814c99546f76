/**
 * Products in flight: where a loop over a ring of tiles may start the next product before the last one is done.
 *
 * The pattern is what `pipeline` lowers to: a nest of loops that carries the accumulator; in the innermost, one `dot` on
 * slot `position mod stages`, then arrivals that hand the slot back. The arrivals of an iteration may be put off until the
 * next product has been started, because nobody waits for them before the ring comes round: every wait for such a barrier
 * is for the phase before `position div stages` of slot `position mod stages`, and there are at least two slots.
 */
import { attribute, walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { ops } from '../../../ir/ops/index.ts'

export interface Overlap {
  /** The outermost loop of the nest: products are complete after it. */
  readonly loop: Node
  readonly dot: Node
  /** Put off by one iteration. */
  readonly arrivals: readonly Node[]
}

export function planOverlap(ir: KernelIR): readonly Overlap[] {
  const safe = handBackBarriers(ir)
  const found: Overlap[] = []
  const visit = (block: Block): void => {
    for (const node of block.nodes) {
      const overlap = node.op === 'for' ? matchNest(node, safe) : undefined
      if (overlap) found.push(overlap)
      else node.blocks.forEach(visit)
    }
  }
  visit(ir.body)
  return found
}

/** Arrays of barriers that are only waited for when the ring has come round. */
function handBackBarriers(ir: KernelIR): ReadonlySet<Node> {
  const waits = [...walk(ir.body)].filter((node) => node.op === 'barrier.wait')
  const safe = new Set<Node>()
  for (const node of walk(ir.body)) {
    if (node.op !== 'barriers' || attribute<number>(node, 'count') < 2) continue
    const own = waits.filter((wait) => wait.inputs[0].inputs[0] === node)
    if (own.length > 0 && own.every((wait) => waitsForLastRound(wait, node))) safe.add(node)
  }
  return safe
}

function waitsForLastRound(wait: Node, barriers: Node): boolean {
  const [pick, phase] = wait.inputs
  const slot = pick.inputs[1]
  if (phase.op !== 'sub' || !isConstant(phase.inputs[1], 1) || slot.op !== 'mod') return false
  const round = phase.inputs[0]
  const count = attribute<number>(barriers, 'count')
  return (
    round.op === 'div' &&
    round.inputs[0] === slot.inputs[0] &&
    isConstant(round.inputs[1], count) &&
    isConstant(slot.inputs[1], count)
  )
}

const isConstant = (node: Node, value: number): boolean =>
  node.op === 'const' && attribute<number>(node, 'value') === value

function matchNest(loop: Node, safe: ReadonlySet<Node>): Overlap | undefined {
  const [body] = loop.blocks
  const inner = body.nodes.filter((node) => node.op === 'for')
  const dots = body.nodes.filter((node) => node.op === 'dot')
  if (inner.length === 1 && dots.length === 0) {
    const match = matchNest(inner[0], safe)
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
  const arrivals = after.filter((node) => node.op === 'barrier.arrive')
  const others = body.nodes.filter(
    (node) => node !== dot && !arrivals.includes(node) && node.op !== 'barrier.wait',
  )
  if (arrivals.length === 0 || others.some((node) => ops[node.op].effect !== 'pure')) return undefined
  if (after.some((node) => node.op === 'barrier.wait')) return undefined
  if (dot.inputs.slice(0, 2).some((operand) => operand.type.kind !== 'ref')) return undefined
  if (!arrivals.every((arrival) => safe.has(arrival.inputs[0].inputs[0]))) return undefined
  return isPassedOn(body, dot, dot.inputs[2]) ? { loop, dot, arrivals } : undefined
}

function onlyScalars(body: Block, inner: Node): boolean {
  return body.nodes.every((node) => node === inner || ops[node.op].effect === 'pure')
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

/** `from` is carried in, becomes `to`, and is carried on in the same place, with no other use of either. */
function isPassedOn(body: Block, to: Node, from: Node): boolean {
  const place = body.results.indexOf(to)
  const param = body.params[1 + place]
  if (place < 0 || param !== from) return false
  const uses = (node: Node): number =>
    [...walk(body)].reduce((sum, user) => sum + user.inputs.filter((input) => input === node).length, 0) +
    body.results.filter((result) => result === node).length
  return uses(to) === 1 && uses(from) === 1
}
