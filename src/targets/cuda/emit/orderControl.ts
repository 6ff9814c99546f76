/**
 * The steps of the stage `order` for control flow, roles, flags and barriers: how each op is copied, with the
 * synchronisation that it needs, and which accesses are pending where control flow joins.
 */
import { isExchanged } from '../../../ir/exchange.ts'
import { walk, type Attributes, type Block, type Node } from '../../../ir/node.ts'
import { acquires, arrivesAt, awaitsFlag, isLoop, opOf, releases } from '../../../ir/ops/index.ts'
import { Copier } from '../../../ir/rewrite.ts'
import type { Group } from './groups.ts'
import type { Pendings } from './hazards.ts'
import { exchanges } from './meetings.ts'
import type { Ordering } from './ordering.ts'
import type { Overlap } from './overlap.ts'
import { dealtOut, remembered } from './repeated.ts'

/**
 * One thread executes a synchronisation op, but the op's release and acquire order must hold for all threads of the
 * group.
 */
export function synchronising(ordering: Ordering, node: Node): Node {
  if (releases(node)) ordering.release(node)
  const made = ordering.copy(node)
  if (acquires(node)) ordering.acquire(node)
  return made
}

export function reached(ordering: Ordering, node: Node): Node {
  const made = ordering.group.solo ? ordering.copy(node) : ordering.exchanging(node, 'leader')
  if (acquires(node) && ordering.isOfCopies(node)) ordering.acquire(node)
  return made
}

export function fenced(ordering: Ordering, node: Node): Node {
  ordering.release(node)
  const made = ordering.copy(node)
  const reason = { node, why: 'because it fences for the whole role' }
  if (ordering.startsCopies) ordering.fence('all', reason)
  ordering.meet(reason)
  return made
}

export function barrier(ordering: Ordering, node: Node): Node {
  ordering.drain({ node })
  // Other roles may start engine accesses (TMA, matrix unit) to memory that this role has written.
  if (ordering.group !== ordering.plans.roles.whole && ordering.hazards.hasUnfencedTiles)
    ordering.fence('shared', { node, why: 'because threads have written shared tiles' }, node.site)
  ordering.hazards.meet()
  return ordering.copy(node, ordering.joining())
}

export function slot(ordering: Ordering, node: Node): Node {
  ordering.hazards.handedBack()
  return ordering.copy(node)
}

export function arrive(ordering: Ordering, node: Node): Node {
  const held = ordering.held.get(node)
  if (held) {
    ordering.say('held until the next matrix product has started', { node })
    const [barrier] = node.inputs
    return ordering.copier.emit(
      'barrier.arrive',
      [ordering.copier.get(barrier), held],
      node.attributes,
      [],
      node.site,
    )
  }
  if (ordering.hazards.hasSharedWrites || ordering.hazards.hasUnfencedTiles)
    ordering.fence('shared', { node, why: 'because threads have written shared tiles' }, node.site)
  // A single arrival on behalf of the whole group needs a thread barrier before it. If each warp arrives separately,
  // no thread barrier is needed.
  if (!ordering.group.solo && ordering.plans.arrivers.get(arrivesAt(node)!) === 1)
    ordering.meet({ node, why: 'because it arrives for the whole role' }, node.site)
  return ordering.copy(node)
}

/**
 * Adds the synchronisation of a wait for a flag. In a loop, a repeated wait for the same flag is skipped, because
 * flags only advance and a launch waits for one epoch only. A wait for a number of signals is not skipped, because
 * the number may change. A skipped wait has no thread barrier, so accesses that were pending before the wait are
 * still pending after it.
 */
export function wait(ordering: Ordering, node: Node): Node {
  const isRepeated = [...ordering.plans.uses.around(node)].some(isLoop)
  if (!isRepeated || node.inputs.length > 1) {
    const made = ordering.copy(node)
    ordering.acquire(node)
    return made
  }
  const before = ordering.hazards.snapshot()
  const body = ordering.copier.block([], () => {
    ordering.copy(node)
    ordering.acquire(node)
    return []
  })
  const remembers = remembered(node)
  const which = remembers === 'set' ? 'the first 32 flags are' : 'the last flag is'
  ordering.say(`skipped if waited for before (${which} remembered)`, { node })
  const made = ordering.copier.emit('once', [], { remembers }, [body], node.site)
  ordering.hazards.restore(before, ordering.hazards.snapshot())
  return made
}

export function loop(ordering: Ordering, node: Node): Node {
  const only = ordering.group.solo ? undefined : dealtOut(node, ordering.plans.facts.record === true)
  if (only) return apart(ordering, node, only)
  const overlap = ordering.plans.overlaps.find(({ loop }) => loop === node)
  return overlap ? withProductsInFlight(ordering, node, overlap) : repeated(ordering, node)
}

/**
 * Rewrites a loop so that the next matrix product starts before the previous one is complete. The rewritten loop
 * releases each ring slot one iteration later than the original loop.
 */
function withProductsInFlight(ordering: Ordering, loop: Node, { arrivals }: Overlap): Node {
  for (const arrival of arrivals) {
    const barriers = ordering.copier.get(arrivesAt(arrival)!)
    ordering.held.set(arrival, ordering.copier.emit('held', [barriers], {}, [], arrival.site))
  }
  const made = repeated(ordering, loop, { inFlight: true })
  ordering.say('a wait until the last matrix product is complete', { node: loop })
  ordering.awaitProducts({}, arrivals, loop.site)
  return made
}

/**
 * The number of iterations between two reads of the abort word in a loop, or undefined if the loop does not read it.
 */
const pollsOf = ({ plans }: Ordering, loop: Node): number | undefined => plans.loops.polling.get(loop)

/**
 * Copies a loop that repeats loads of flag-in-data words. The loads need no order among themselves, within or across
 * iterations. If threads synchronise in the loop, all threads of the group repeat the loads together.
 */
export function until(ordering: Ordering, node: Node): Node {
  const blocks = node.blocks.map((block) => ordering.copyBlock(block))
  const isMeeting = (one: Node): boolean => opOf(one).meets !== 'never' || isExchanged(one)
  const meets = !ordering.group.solo && blocks.some((block) => [...walk(block)].some(isMeeting))
  const together = meets || ordering.plans.loops.together.has(node)
  return ordering.copy(node, { polls: pollsOf(ordering, node), ...(together && { together }) }, blocks)
}

function repeated(ordering: Ordering, node: Node, added: Attributes = {}): Node {
  const before = ordering.hazards.snapshot()
  ordering.hazards.enterLoop(node, ordering.plans)
  const made = ordering.copy(node, { polls: pollsOf(ordering, node), ...added })
  ordering.hazards.restore(before, ordering.hazards.snapshot())
  return made
}

function apart(ordering: Ordering, loop: Node, only: Node): Node {
  ordering.say('its iterations are divided among the threads', { node: loop })
  if (releases(only)) ordering.release(only)
  const plain = new Copier()
  for (const [from, to] of ordering.copier.map) plain.map.set(from, to)
  const made = ordering.copy(loop, { apart: true }, [plain.copyBlock(loop.blocks[0])])
  if (awaitsFlag(only)) ordering.acquire(only)
  return made
}

/**
 * Adds the synchronisation of a `while` loop. The loop exits after its condition, so the accesses of the condition
 * are pending after the loop.
 */
export function whileLoop(ordering: Ordering, node: Node): Node {
  const [condition, body] = node.blocks
  ordering.hazards.enterLoop(node, ordering.plans)
  const first = ordering.copyBlock(condition)
  const atExit = ordering.hazards.snapshot()
  const made = ordering.copy(node, { polls: pollsOf(ordering, node) }, [first, ordering.copyBlock(body)])
  ordering.hazards.restore(atExit)
  return made
}

export function ifElse(ordering: Ordering, node: Node): Node {
  const before = ordering.hazards.snapshot()
  const ends: Pendings[] = []
  const blocks = node.blocks.map((block) => {
    ordering.hazards.restore(before)
    const made = ordering.copyBlock(block)
    ends.push(ordering.hazards.snapshot())
    return made
  })
  ordering.hazards.restore(...ends)
  return ordering.copy(node, {}, blocks)
}

export function teams(ordering: Ordering, node: Node): Node {
  const blocks = node.blocks.map((block) => {
    const before = ordering.hazards.snapshot()
    const made = ordering.copyBlock(block)
    ordering.hazards.restore(before, ordering.hazards.snapshot())
    return made
  })
  return ordering.copy(node, {}, blocks)
}

export function roles(ordering: Ordering, node: Node): Node {
  const reason = { node, why: 'because roles start' }
  ordering.drain(reason)
  if (!ordering.hazards.isClear) ordering.meet(reason, node.site)
  const ends: Pendings[] = []
  const blocks = node.blocks.map((block) =>
    role(ordering, block, ordering.plans.roles.groups.get(block)!, ends),
  )
  const made = ordering.copy(node, {}, blocks)
  ordering.hazards.restore(...ends)
  ordering.hazards.meet()
  return made
}

function role(ordering: Ordering, block: Block, group: Group, ends: Pendings[]): Block {
  const [outer, hazards] = [ordering.group, ordering.hazards]
  ordering.group = group
  ordering.hazards = hazards.ofRole()
  const made = ordering.copyBlock(block, { atEnd: () => ordering.end() })
  ends.push(ordering.hazards.snapshot())
  ordering.group = outer
  ordering.hazards = hazards
  return made
}

/**
 * Adds the synchronisation of a `last` block. One thread per program increments a counter, and only the last program
 * runs the block, after the accesses of all other programs.
 */
export function last(ordering: Ordering, node: Node): Node {
  ordering.release(node)
  if (!ordering.group.solo) ordering.hazards.meet()
  const before = ordering.hazards.snapshot()
  const atStart = (): void => {
    if (ordering.startsCopies) ordering.acquire(node)
  }
  const made = ordering.copy(node, ordering.group.solo ? {} : { exchange: exchanges.leader.steps }, [
    ordering.copyBlock(node.blocks[0], { atStart }),
  ])
  ordering.hazards.restore(before, ordering.hazards.snapshot())
  return made
}
