/**
 * The steps of the stage `order` for values and accesses to memory: how each op is copied, with the synchronisation that
 * it needs. Fragments that an engine (TMA or the matrix unit) reads pass through staging memory.
 */
import type { Attributes, Node } from '../../../ir/node.ts'
import { acquires, copyOf, isStrong, opOf, releases } from '../../../ir/ops/index.ts'
import { isFragment } from './assign.ts'
import type { TensorPlan } from './copies.ts'
import { EARLY_ORDER } from './early.ts'
import { accessesOf, fillOf } from './hazards.ts'
import { exchangeInScratch } from './meetings.ts'
import { proxyFence, threadBarrier, waitForReads, type Ordering } from './ordering.ts'
import { isByWarpgroups } from './products.ts'
import { stagedOf } from './scratch.ts'
import { emitBoxes } from './stagedStore.ts'
import { tileRoot } from './tiles.ts'

const ofTile = 'because threads may still be reading the shared tile'

/** Copies an op that only computes a value or a view of memory. */
export function value(ordering: Ordering, node: Node): Node {
  if (ordering.plans.scratch.has(node)) return handOver(ordering, node)
  const isToScalar = opOf(node).elements === 'reduced' && !isFragment(node)
  return isToScalar ? ordering.exchanging(node, 'warps') : ordering.copy(node)
}

export function settled(ordering: Ordering, node: Node, added: Attributes = {}): Node {
  ordering.settle(node)
  return ordering.copy(node, added)
}

/**
 * Copies a node that exchanges elements through its scratch memory, after all earlier reads of that memory have
 * ended.
 */
function handOver(ordering: Ordering, node: Node): Node {
  ordering.settle(node)
  const made = ordering.exchanging(node, exchangeInScratch(node))
  ordering.hazards.add(accessesOf(node, ordering.plans))
  return made
}

export function dot(ordering: Ordering, node: Node): Node {
  const isByEngine = isByWarpgroups(ordering.plans.products.get(node))
  const by = isByEngine ? { by: 'engine' } : {}
  const made = ordering.plans.scratch.has(node)
    ? stageOperands(ordering, node, by)
    : settled(ordering, node, by)
  if (!isByEngine) return made
  const overlap = ordering.plans.overlaps.find((one) => one.dot === node)
  if (overlap) {
    ordering.say('a wait until the previous matrix product is complete', { node })
    ordering.awaitProducts({ pending: 1 }, overlap.arrivals, node.site)
  } else {
    ordering.say('a wait until the matrix product is complete', { node })
    ordering.awaitProducts({}, [], node.site)
  }
  return made
}

/**
 * Inserts the writes of a matrix product's register operands to shared memory, from which the matrix instruction
 * reads them.
 */
function stageOperands(ordering: Ordering, node: Node, by: Attributes): Node {
  const { inputs, attributes, site } = node
  const { left, right } = stagedOf(node, ordering.group, ordering.plans.layouts)
  ordering.settle(node)
  const copier = ordering.copier
  const staging = ordering.staging.get(node)!
  const staged = inputs.filter((_, i) => [left, right][i]).map((input) => copier.get(input))
  copier.emit('operands', [staging, ...staged], {}, [], site)
  const reason = { node, why: 'because the matrix product reads operands that threads have written' }
  if (ordering.plans.products.get(node) === 'wgmma') ordering.fence('shared', reason, site)
  ordering.meet(reason, site)
  ordering.hazards.add(accessesOf(node, ordering.plans))
  const used = [...inputs.map((input) => copier.get(input)), staging]
  return copier.emit('dot', used, { ...attributes, ...by }, [], site)
}

export function load(ordering: Ordering, node: Node): Node {
  ordering.settle(node)
  const isByLeader = isStrong(node) && !isFragment(node) && !ordering.group.solo
  const isEarly = ordering.plans.early?.group === ordering.group && !isStrong(node) && !isFragment(node)
  const made = isByLeader
    ? ordering.exchanging(node, 'leader')
    : ordering.copy(node, isEarly ? EARLY_ORDER : {})
  if (acquires(node)) ordering.acquire(node)
  return made
}

export function store(ordering: Ordering, node: Node): Node {
  const plan = ordering.plans.stores.get(node)
  if (plan) return storeBoxes(ordering, node, plan)
  ordering.settle(node)
  if (releases(node)) ordering.release(node)
  return ordering.copy(node)
}

/**
 * Inserts a TMA store of a fragment, box by box. Boxes use two staging buffers alternately. Before threads write a box
 * to a buffer, TMA must have read the box that the buffer held. After a store of an odd number of boxes, the next store
 * begins with the buffer that held the last box.
 */
function storeBoxes(ordering: Ordering, node: Node, plan: TensorPlan): Node {
  const { site } = node
  const copier = ordering.copier
  const [target, value] = node.inputs.map((input) => copier.get(input))
  const { isStagingInUse } = ordering.hazards
  ordering.hazards.boxesRead()
  const { drain } = ordering.settle(node)
  const ofBox = { node, why: 'because a staging buffer is used again' }
  if (isStagingInUse && !drain) {
    ordering.say(waitForReads, ofBox)
    copier.emit('drain', [], { of: 'reads' })
  }
  ordering.say(waitForReads, ofBox)
  ordering.say(threadBarrier, ofBox)
  const written = { node, why: 'because threads have written a box that TMA reads' }
  ordering.say(proxyFence('shared'), written)
  ordering.say(threadBarrier, written)
  return emitBoxes(copier, ordering.staging.get(ordering.group)!, { target, value, plan, site })
}

/**
 * Adds the synchronisation of an asynchronous copy with earlier accesses. The mbarrier on which the copy completes
 * orders later accesses.
 */
export function copyAsync(ordering: Ordering, node: Node): Node {
  const { site } = node
  ordering.settle(node)
  if (ordering.hazards.need([fillOf(node, ordering.plans)]).meet) ordering.meet({ node, why: ofTile }, site)
  if (ordering.plans.copies.ofCopy(node).how !== 'tensor') {
    const made = ordering.copy(node, { by: 'threads' })
    ordering.fence('shared', { node, why: 'because threads make the copy' }, site)
    return made
  }
  // The reads of a tile by threads must complete before TMA fills the tile again.
  const { source, target } = copyOf(node)!
  if (ordering.hazards.isUnfenced && ordering.plans.touchedByThreads.has(tileRoot(target))) {
    ordering.fence('shared', { node, why: ofTile }, site)
    ordering.hazards.fenced()
  }
  if (ordering.plans.mayHaveWritten(source))
    ordering.fence('all', { node, why: 'because threads may have written memory that TMA reads' }, site)
  return ordering.copy(node, { by: 'engine' })
}

/**
 * Adds the synchronisation that a copy in flight needs. TMA copies from a shared tile to a tensor; other roles, or this
 * role before its last thread barrier, may have accessed the tile and the tensor by ordinary loads and stores. Threads
 * (cp.async) copy from a tensor to a shared tile.
 */
export function copyInFlight(ordering: Ordering, node: Node): Node {
  // Copies by cp.async are ordinary accesses, which need no proxy fence.
  if (ordering.plans.copies.ofCopy(node).how === 'chunks') return settled(ordering, node, { by: 'threads' })
  const { source, target } = copyOf(node)!
  const mayHaveWritten = ordering.plans.mayHaveWritten(target)
  const { fenceShared, fenceGlobal } = ordering.settle(node, mayHaveWritten)
  const reason = { node, why: 'because threads may have written memory that TMA accesses' }
  if (mayHaveWritten && !fenceGlobal) ordering.fence('all', reason, node.site)
  else if (ordering.plans.touchedByThreads.has(tileRoot(source)) && !fenceShared && !fenceGlobal)
    ordering.fence('shared', reason, node.site)
  return ordering.copy(node, { by: 'engine' })
}

/**
 * Lowers `quiet`: the threads that started copies wait until the copies are complete, and a thread barrier makes the
 * other threads of the group wait, too.
 */
export function quiet(ordering: Ordering, node: Node): Node | 'drop' {
  const { hasCopiesInFlight, hasFetches } = ordering.hazards
  if (!hasCopiesInFlight && !hasFetches) return 'drop'
  const made = [
    ...(hasCopiesInFlight ? [ordering.awaitCopies(node.attributes.of === 'reads', { node })] : []),
    ...(hasFetches ? [ordering.awaitFetches({ node })] : []),
  ]
  ordering.meet({ node, why: 'because it waits for the whole role' }, node.site)
  return made[0]
}

export function atomic(ordering: Ordering, node: Node): Node {
  ordering.settle(node)
  if (releases(node)) ordering.release(node)
  const isByLeader = !isFragment(node) && ordering.plans.uses.count(node) > 0 && !ordering.group.solo
  const made = isByLeader ? ordering.exchanging(node, 'leader') : ordering.copy(node)
  if (acquires(node)) ordering.acquire(node)
  return made
}
