/**
 * Lowers the carried state of loops. A scalar in the carried state is a local variable that each iteration sets. A
 * fragment in the carried state is a buffer that each iteration recomputes: in place if the plan allows it, and
 * otherwise in another buffer that is copied back.
 */
import type { Block, Node } from '../../../ir/node.ts'
import { opOf } from '../../../ir/ops/index.ts'
import { i32, use } from '../build.ts'
import type { Expression, Local } from '../code.ts'
import { valueOf, type Lowering } from './context.ts'
import { valueCodeType } from './convert.ts'
import { copyBuffer, evaluateInto, isZero, newBuffer } from './fragments.ts'
import type { Buffer } from './frame.ts'
import { isFragment } from './plan.ts'
import { clearFresh, takeOver } from './products.ts'
import { scalar } from './scalars.ts'

export type State = readonly (Buffer | Local)[]

/**
 * Finds the `dot` of a loop that carries a sum starting at zero and whose iterations only add to the sum. The first
 * iteration of a loop with a carried sum stores its matrix product instead of adding it, so the buffer need not be
 * zeroed.
 */
function beginsSum(l: Lowering, node: Node, index: number, init: Node, leading: number): Node | undefined {
  if (!isZero(init) || opOf(node).state === 'tested') return undefined
  const [block] = node.blocks
  const param = block.params[block.params.length - (node.inputs.length - leading) + index]
  const sum = block.results[index]
  const [user, ...others] = l.plan.users(param)
  if (others.length > 0 || user !== sum || sum.op !== 'dot' || sum.inputs[2] !== param) return undefined
  if (sum.inputs.indexOf(param) !== 2 || !block.nodes.includes(sum) || l.plan.users(sum).length > 0)
    return undefined
  return block.results.indexOf(sum) === block.results.lastIndexOf(sum) ? sum : undefined
}

const isBuffer = (part: Buffer | Local): part is Buffer => 'offset' in part

function resultOf(l: Lowering, node: Node, index: number): Node | undefined {
  return l.plan.users(node).find((user) => user.op === 'result' && user.attributes.index === index)
}

/** Stores the initial values of a loop's carried state. The first `leading` inputs of the loop node are not state. */
export function beginState(l: Lowering, node: Node, leading: number): State {
  const inits = node.inputs.slice(leading)
  return inits.map((init, k) => {
    if (!isFragment(init)) return l.writer.let('state', scalar(l, init))
    const result = resultOf(l, node, k)
    const buffer =
      (result && l.preferred.get(result)) ?? takeOver(l, init, node, leading + k) ?? newBuffer(l, init)
    const sum = beginsSum(l, node, k, init, leading)
    if (sum) l.fresh.set(sum, l.writer.let('fresh', i32(1)))
    else evaluateInto(l, init, buffer)
    return buffer
  })
}

/** Binds the loop's state to the parameters of a block. */
export function enterState(l: Lowering, state: State, params: readonly Node[]): void {
  state.forEach((part, k) => {
    if (isBuffer(part)) l.buffers.set(params[k], part)
    else l.scalars.set(params[k], use(part))
  })
}

/** Chooses the memory in which an iteration's results are computed: in place if the old values are no longer needed. */
export function preferInPlace(l: Lowering, state: State, params: readonly Node[], block: Block): void {
  state.forEach((part, k) => {
    const result = block.results[k]
    if (!isBuffer(part) || !l.plan.isKept(result) || l.preferred.has(result)) return
    if (block.results.indexOf(result) === k && l.plan.mayOverwrite(params[k], result))
      l.preferred.set(result, part)
  })
}

/** Makes an iteration's results the new state of the loop. */
export function nextState(l: Lowering, state: State, results: readonly Node[]): void {
  l.shared.frame.scope(() => moveBuffers(l, state, results))
  const scalars = results.flatMap((result, k): { from: Expression; to: Local }[] => {
    const part = state[k]
    return isBuffer(part) ? [] : [{ from: scalar(l, result), to: part }]
  })
  const isOwn = ({ from, to }: { from: Expression; to: Local }): boolean =>
    from.kind === 'local' && from.local === to
  const moved = scalars.filter((move) => !isOwn(move))
  const values =
    moved.length > 1
      ? moved.map(({ from }) => use(l.writer.let('next', from)))
      : moved.map(({ from }) => from)
  moved.forEach(({ to }, i) => l.writer.set(to, values[i]))
}

function moveBuffers(l: Lowering, state: State, results: readonly Node[]): void {
  const targets = new Set(state.flatMap((part) => (isBuffer(part) ? [part.offset] : [])))
  const moves = state.flatMap((part, k) => {
    if (!isBuffer(part)) return []
    const from = l.buffers.get(results[k])
    return from?.offset === part.offset ? [] : [{ to: part, from, result: results[k] }]
  })
  // Before results move into the state, each source that another move would overwrite is copied to temporary memory.
  const sources = moves.map(({ from }) => {
    if (!from || !targets.has(from.offset)) return from
    const aside: Buffer = { ...from, offset: l.shared.frame.take(from.rows * from.stride) }
    copyBuffer(l, from, aside)
    return aside
  })
  moves.forEach(({ to, result }, i) => {
    const from = sources[i]
    if (from) copyBuffer(l, from, to)
    else evaluateInto(l, result, to)
  })
}

/** Provides the final state of a control-flow node to its `result` nodes. */
export function leaveState(l: Lowering, node: Node, state: State): void {
  for (const result of node.blocks[0]?.results ?? []) {
    const fresh = l.fresh.get(result)
    const part = fresh && state[node.blocks[0].results.indexOf(result)]
    if (fresh && part && isBuffer(part)) clearFresh(l, fresh, part)
  }
  l.results.set(
    node,
    state.map((part) => (isBuffer(part) ? part : use(part))),
  )
}

/** Allocates the values that the branches of an `if` yield. */
export function branchState(l: Lowering, results: readonly Node[]): State {
  return results.map((result) =>
    isFragment(result)
      ? newBuffer(l, result)
      : ({ type: valueCodeType(valueOf(result).dtype, false), name: 'chosen' } satisfies Local),
  )
}

/** Makes a branch compute its results directly in the buffers that both branches share. */
export function preferBranch(l: Lowering, state: State, block: Block): void {
  state.forEach((part, k) => {
    const result = block.results[k]
    if (!isBuffer(part) || !l.plan.isKept(result) || l.preferred.has(result)) return
    if (block.results.indexOf(result) === k && block.nodes.includes(result)) l.preferred.set(result, part)
  })
}
