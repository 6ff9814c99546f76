/**
 * Implements the stage `order`, which adds the synchronisation that makes the threads of a group behave as one
 * sequential agent. The stage `order` inserts these ops:
 *
 *   meet         a thread barrier of the group, where an access by one thread must precede an access by another thread
 *   fence.async  a proxy fence, where ordinary accesses must precede accesses by TMA or the matrix unit
 *   drain        a wait for the completion of pending TMA stores, or of copies that threads have in flight
 *   once         skips a wait in a loop if the same flag has already been waited for
 *   boxes, operands, …  how fragments pass through shared memory to TMA or the matrix unit (ir/ops/staging.ts)
 *   dot.wait, held, …   waits for the matrix unit, and releases of slots that wait for it (ir/ops/products.ts)
 *
 * The stage `order` also adds attributes: `by` (which unit accesses memory), `early` (a load of a role that may start
 * early, and its order), `exchange` (how the threads exchange a value), `joins` (a thread barrier that is redundant
 * because another one directly precedes it) and `apart` (the iterations of a loop are divided among the threads).
 * `hazards.ts` decides which synchronisation two accesses need. A role of one thread needs no thread barriers.
 */
import { analysis } from '../../../ir/analysis.ts'
import { baseOf, subjectOf, withDecisions, type Decision, type Subject } from '../../../ir/decisions.ts'
import type { Attributes, Block, KernelIR, Node } from '../../../ir/node.ts'
import {
  acquires,
  arrivesAt,
  awaitsFlag,
  copyOf,
  entryOf,
  isAsync,
  isLoop,
  isStrong,
  opOf,
  opsWith,
  releases,
  STAGING_PLACES,
  type OpName,
} from '../../../ir/ops/index.ts'
import { Copier } from '../../../ir/rewrite.ts'
import type { Site } from '../../../ir/site.ts'
import { isFragment } from './assign.ts'
import type { TensorPlan } from './copies.ts'
import type { Decisions } from './decide.ts'
import { EARLY_ORDER } from './early.ts'
import type { Group } from './groups.ts'
import { accessesOf, fillOf, Hazards, type Need, type Pendings } from './hazards.ts'
import { haveJustMet, type Exchange } from './meetings.ts'
import type { Overlap } from './overlap.ts'
import { isByWarpgroups } from './products.ts'
import { dealtOut, remembered } from './repeated.ts'
import { outlivesNode, stagedOf } from './scratch.ts'
import { emitBoxes } from './stagedStore.ts'
import { tileRoot } from './tiles.ts'

const exchanged: Readonly<Record<Exchange, string>> = {
  scratch: 'threads exchange its elements through shared memory',
  table: 'threads write it to shared memory, and read it when it is used',
  leader: 'one thread obtains it for all',
  warps: 'warps exchange partial results',
}

const threadBarrier = 'a thread barrier'
const proxyFence = (space: 'shared' | 'all'): string => `a proxy fence of ${space} memory`
const waitForReads = 'a wait until TMA has read the shared memory of earlier stores'

/** The reason why synchronisation is inserted: the node that needs it, and an explanation. */
interface Reason {
  readonly node?: Node
  readonly why?: string
  readonly others?: readonly Subject[]
}
const ofTile = 'because threads may still be reading the shared tile'

export const orderThreads = analysis('order of threads', withOrder)

function withOrder(ir: KernelIR, decisions: Decisions): KernelIR {
  const ordering = new Ordering(decisions)
  const body = ordering.whole(ir.body)
  return withDecisions({ ...ir, body }, 'order', ordering.decisions)
}

class Ordering {
  /** The inserted and changed nodes, each with the reason. */
  readonly decisions: Decision[] = []
  readonly #plans: Decisions
  readonly #copier: Copier
  /** The arrivals that are held until the next product has started, each with the `held` node that holds it. */
  readonly #held = new Map<Node, Node>()
  /** The nodes that declare staging memory: for the TMA stores of a group, and for the operands of a matrix product. */
  readonly #staging = new Map<Group | Node, Node>()
  #hazards: Hazards
  #group: Group

  constructor(plans: Decisions) {
    this.#plans = plans
    this.#group = plans.roles.whole
    this.#hazards = new Hazards(plans.seenByEngines)
    this.#copier = new Copier((node) => this.#node(node))
  }

  /** Adds the synchronisation to the whole kernel. */
  whole(body: Block): Block {
    const atStart = (): void => {
      const declare = (user: Group | Node, places: number): void =>
        void this.#staging.set(user, this.#copier.emit('staging', [], { places }))
      for (const group of this.#plans.shared.staging.keys()) declare(group, STAGING_PLACES)
      for (const node of this.#plans.scratch.keys()) if (node.op === 'dot') declare(node, 1)
    }
    return this.#copyBlock(body, { atStart, atEnd: () => this.#end() })
  }

  #copyBlock(source: Block, { atStart, atEnd }: { atStart?: () => void; atEnd?: () => void } = {}): Block {
    const copier = this.#copier
    const params = source.params.map(({ type, attributes, site }) => ({
      type,
      name: String(attributes.name),
      site,
    }))
    return copier.block(params, (fresh) => {
      source.params.forEach((param, i) => copier.map.set(param, fresh[i]))
      atStart?.()
      copier.copyNodes(source)
      atEnd?.()
      return source.results.map((result) => copier.get(result))
    })
  }

  #copy(node: Node, added: Attributes = {}, blocks?: readonly Block[]): Node {
    const inputs = node.inputs.map((input) => this.#copier.get(input))
    const made = blocks ?? node.blocks.map((block) => this.#copyBlock(block))
    return this.#copier.emit(node.op, inputs, { ...node.attributes, ...added }, made, node.site)
  }

  // Inserted synchronisation

  #say(what: string, { node, why, others }: Reason): void {
    const role = this.#group === this.#plans.roles.whole ? '' : `in the ${this.#group.name}, `
    const of = node && subjectOf(node)
    this.decisions.push({ of, what: [`${role}${what}`, ...(why ? [why] : [])].join(', '), others })
  }

  #meet(reason: Reason, site?: Site): void {
    this.#hazards.meet()
    if (this.#group.solo) return
    const joining = this.#joining()
    this.#say(
      joining.joins ? `${threadBarrier} (redundant: another one directly precedes it)` : threadBarrier,
      reason,
    )
    this.#copier.emit('meet', [], joining, [], site)
  }

  /**
   * Returns the attributes of a thread barrier. Only barriers of the whole program are marked as redundant (`joins`).
   */
  #joining(): Attributes {
    const isWhole = this.#group === this.#plans.roles.whole
    return isWhole && haveJustMet(this.#copier.nodes) ? { joins: true } : {}
  }

  #fence(space: 'shared' | 'all', reason: Reason, site?: Site): void {
    this.#say(proxyFence(space), reason)
    this.#copier.emit('fence.async', [], { space }, [], site)
    this.#hazards.fence(space)
  }

  #drain(reason: Reason): void {
    if (this.#hazards.hasStoresUnderWay) this.#awaitCopies(false, reason)
  }

  /** Completes the copies of a role at its end. The shared memory of a program must exist until TMA has read it. */
  #end(): void {
    if (this.#hazards.hasStoresUnderWay || this.#hazards.hasCopiesInFlight)
      this.#awaitCopies(false, { why: 'at the end' })
    if (this.#hazards.hasFetches) this.#awaitFetches({ why: 'at the end' })
  }

  /**
   * Inserts the synchronisation that makes earlier accesses of the group visible to a node that accesses memory. If
   * `isFenced` is true, a fence of all memory follows anyway.
   */
  #settle(node: Node, isFenced = false): Need {
    const accesses = accessesOf(node, this.#plans)
    const need = this.#hazards.need(accesses)
    const others = need.conflicting.map(baseOf)
    const reason = { node, why: 'because of earlier accesses of', others }
    if (need.drain) this.#drain(reason)
    if (need.fenceShared && (need.meet || !isFenced)) this.#fence('shared', reason, node.site)
    if (need.fenceGlobal) this.#fence('all', reason, node.site)
    if (need.meet) this.#meet(reason, node.site)
    this.#hazards.add(accesses)
    return need
  }

  /** Completes all earlier accesses of the group, so that one of its threads may signal other agents. */
  #release(node: Node): void {
    const reason = { node, why: 'because it releases for the whole role' }
    this.#drain(reason)
    this.#meet(reason, node.site)
  }

  /** Extends the acquire of one thread to all threads of the group, and to the TMA copies that they start. */
  #acquire(node: Node): void {
    const reason = { node, why: 'because it acquires for the whole role' }
    if (this.#isOfCopies(node)) this.#fence('all', reason, node.site)
    this.#meet(reason, node.site)
  }

  /**
   * True if TMA may access memory after the node, either for the role of the node or for a role that waits for this
   * role at a barrier.
   */
  #isOfCopies(node: Node): boolean {
    const { usesCopyEngine, stores, inFlight, uses } = this.#plans
    if (!usesCopyEngine && stores.size === 0 && inFlight.size === 0) return false
    for (const later of uses.after(node))
      if (isAsync(later) || isToRoles(later) || stores.has(later)) return true
    return false
  }

  /** True if TMA makes copies that the author wrote. */
  get #startsCopies(): boolean {
    return this.#plans.usesCopyEngine || this.#plans.inFlight.size > 0
  }

  /**
   * Copies a node whose exchange of elements contains a thread barrier. After this node, all earlier accesses are
   * ordered.
   */
  #exchanging(node: Node, exchange: Exchange, added: Attributes = {}): Node {
    this.#say(exchanged[exchange], { node })
    const made = this.#copy(node, { exchange, ...added })
    this.#hazards.meet()
    return made
  }

  // Nodes

  /** One entry per op. The type checker reports an op without an entry. */
  readonly #steps: Readonly<Record<OpName, (node: Node) => Node | 'drop'>> = {
    ...opsWith({ effect: 'pure' }, (node: Node) => this.#value(node)),
    ...opsWith({ effect: 'declare' }, (node: Node) => this.#copy(node)),
    ...opsWith({ effect: 'report' }, (node: Node) => this.#copy(node)),
    ...opsWith({ effect: 'sync' }, (node: Node) => this.#synchronising(node)),
    ...opsWith({ effect: 'write', elements: 'other' }, (node: Node) => this.#atomic(node)),
    load: (node) => this.#load(node),
    store: (node) => this.#store(node),
    copy: (node) => this.#settled(node),
    'put.signal': refuse,
    ...opsWith({ completes: 'at quiet' }, (node: Node) => this.#copyInFlight(node)),
    ...opsWith({ completes: 'at barrier' }, (node: Node) => this.#copyAsync(node)),
    dot: (node) => this.#dot(node),
    // The epochs in flag-in-data words order these accesses.
    'words.post': (node) => this.#copy(node),
    'words.take': (node) => this.#copy(node),
    wait: (node) => this.#wait(node),
    reached: (node) => this.#reached(node),
    fence: (node) => this.#fenced(node),
    barrier: (node) => this.#barrier(node),
    'barrier.arrive': (node) => this.#arrive(node),
    'barrier.wait': (node) => this.#slot(node),
    for: (node) => this.#loop(node),
    persistent: (node) => this.#loop(node),
    while: (node) => this.#while(node),
    // The loads inside `until` need no order among themselves, within or across iterations.
    until: (node) => this.#copy(node),
    if: (node) => this.#if(node),
    teams: (node) => this.#teams(node),
    roles: (node) => this.#roles(node),
    last: (node) => this.#last(node),
    pipeline: refuse,
    ...opsWith({ inserted: 'order' }, refuse),
    quiet: (node) => this.#quiet(node),
  }

  #node(node: Node): Node | 'drop' {
    return entryOf(this.#steps, node)(node)
  }

  /** Copies an op that only computes a value or a view of memory. */
  #value(node: Node): Node {
    if (this.#plans.scratch.has(node)) return this.#handOver(node)
    const isToScalar = opOf(node).elements === 'reduced' && !isFragment(node)
    return isToScalar ? this.#exchanging(node, 'warps') : this.#copy(node)
  }

  /** One thread executes the op, but its declared release and acquire order must hold for all threads of the group. */
  #synchronising(node: Node): Node {
    if (releases(node)) this.#release(node)
    const made = this.#copy(node)
    if (acquires(node)) this.#acquire(node)
    return made
  }

  #settled(node: Node, added: Attributes = {}): Node {
    this.#settle(node)
    return this.#copy(node, added)
  }

  #dot(node: Node): Node {
    const isByEngine = isByWarpgroups(this.#plans.products.get(node))
    const by = isByEngine ? { by: 'engine' } : {}
    const made = this.#plans.scratch.has(node) ? this.#stageOperands(node, by) : this.#settled(node, by)
    if (!isByEngine) return made
    const overlap = this.#plans.overlaps.find((one) => one.dot === node)
    if (overlap) {
      this.#say('a wait until the previous matrix product is complete', { node })
      this.#awaitProducts({ pending: 1 }, overlap.arrivals, node.site)
    } else {
      this.#say('a wait until the matrix product is complete', { node })
      this.#awaitProducts({}, [], node.site)
    }
    return made
  }

  /** Waits for the matrix unit, then makes the arrivals that were held for its products. */
  #awaitProducts(attributes: Attributes, arrivals: readonly Node[], site?: Site): void {
    this.#copier.emit('dot.wait', [], attributes, [], site)
    for (const arrival of arrivals)
      this.#copier.emit('arrive.held', [this.#held.get(arrival)!], arrival.attributes, [], arrival.site)
  }

  /**
   * Rewrites a loop so that the next matrix product starts before the previous one is complete. The loop then releases
   * each ring slot one iteration later.
   */
  #withProductsInFlight(loop: Node, { arrivals }: Overlap): Node {
    for (const arrival of arrivals) {
      const barriers = this.#copier.get(arrivesAt(arrival)!)
      this.#held.set(arrival, this.#copier.emit('held', [barriers], {}, [], arrival.site))
    }
    const made = this.#repeated(loop, { inFlight: true })
    this.#say('a wait until the last matrix product is complete', { node: loop })
    this.#awaitProducts({}, arrivals, loop.site)
    return made
  }

  /**
   * Inserts the writes of a matrix product's register operands to shared memory, from which the matrix instruction
   * reads them.
   */
  #stageOperands(node: Node, by: Attributes): Node {
    const { inputs, attributes, site } = node
    const { left, right } = stagedOf(node, this.#group, this.#plans.layouts)
    this.#settle(node)
    const copier = this.#copier
    const staging = this.#staging.get(node)!
    const staged = inputs.filter((_, i) => [left, right][i]).map((input) => copier.get(input))
    copier.emit('operands', [staging, ...staged], {}, [], site)
    const reason = { node, why: 'because the matrix product reads operands that threads have written' }
    if (this.#plans.products.get(node) === 'wgmma') this.#fence('shared', reason, site)
    this.#meet(reason, site)
    this.#hazards.add(accessesOf(node, this.#plans))
    const used = [...inputs.map((input) => copier.get(input)), staging]
    return copier.emit('dot', used, { ...attributes, ...by }, [], site)
  }

  #reached(node: Node): Node {
    const made = this.#group.solo ? this.#copy(node) : this.#exchanging(node, 'leader')
    if (acquires(node) && this.#isOfCopies(node)) this.#acquire(node)
    return made
  }

  #fenced(node: Node): Node {
    this.#release(node)
    const made = this.#copy(node)
    const reason = { node, why: 'because it fences for the whole role' }
    if (this.#startsCopies) this.#fence('all', reason)
    this.#meet(reason)
    return made
  }

  #barrier(node: Node): Node {
    this.#drain({ node })
    // Other roles may start engine accesses (TMA, matrix unit) to memory that this role has written.
    if (this.#group !== this.#plans.roles.whole && this.#hazards.hasUnfencedTiles)
      this.#fence('shared', { node, why: 'because threads have written shared tiles' }, node.site)
    this.#hazards.meet()
    return this.#copy(node, this.#joining())
  }

  #slot(node: Node): Node {
    this.#hazards.handedBack()
    return this.#copy(node)
  }

  /**
   * Copies a node that exchanges elements through its scratch memory, after all earlier reads of that memory have
   * ended.
   */
  #handOver(node: Node): Node {
    this.#settle(node)
    const made = this.#exchanging(node, outlivesNode(node) ? 'table' : 'scratch')
    this.#hazards.add(accessesOf(node, this.#plans))
    return made
  }

  #load(node: Node): Node {
    this.#settle(node)
    const isByLeader = isStrong(node) && !isFragment(node) && !this.#group.solo
    const isEarly = this.#plans.early?.group === this.#group && !isStrong(node) && !isFragment(node)
    const made = isByLeader ? this.#exchanging(node, 'leader') : this.#copy(node, isEarly ? EARLY_ORDER : {})
    if (acquires(node)) this.#acquire(node)
    return made
  }

  #store(node: Node): Node {
    const plan = this.#plans.stores.get(node)
    if (plan) return this.#storeBoxes(node, plan)
    this.#settle(node)
    if (releases(node)) this.#release(node)
    return this.#copy(node)
  }

  /**
   * Inserts a TMA store of a fragment, box by box. Boxes use two staging buffers alternately, so TMA must have read the
   * box before the last one. After a store of an odd number of boxes, the next store begins with the buffer of the last
   * box.
   */
  #storeBoxes(node: Node, plan: TensorPlan): Node {
    const { site } = node
    const copier = this.#copier
    const [target, value] = node.inputs.map((input) => copier.get(input))
    const { isStagingInUse } = this.#hazards
    this.#hazards.boxesRead()
    const { drain } = this.#settle(node)
    const ofBox = { node, why: 'because a staging buffer is used again' }
    if (isStagingInUse && !drain) {
      this.#say(waitForReads, ofBox)
      copier.emit('drain', [], { of: 'reads' })
    }
    this.#say(waitForReads, ofBox)
    this.#say(threadBarrier, ofBox)
    const written = { node, why: 'because threads have written a box that TMA reads' }
    this.#say(proxyFence('shared'), written)
    this.#say(threadBarrier, written)
    return emitBoxes(copier, this.#staging.get(this.#group)!, { target, value, plan, site })
  }

  /**
   * Adds the synchronisation of an asynchronous copy with earlier accesses. The mbarrier on which the copy completes
   * orders later accesses.
   */
  #copyAsync(node: Node): Node {
    const { site } = node
    this.#settle(node)
    if (this.#hazards.need([fillOf(node, this.#plans)]).meet) this.#meet({ node, why: ofTile }, site)
    if (this.#plans.copies.ofCopy(node).how !== 'tensor') {
      const made = this.#copy(node, { by: 'threads' })
      this.#fence('shared', { node, why: 'because threads make the copy' }, site)
      return made
    }
    // The reads of a tile by threads must complete before TMA fills the tile again.
    const { source, target } = copyOf(node)!
    if (this.#hazards.isUnfenced && this.#plans.touchedByThreads.has(tileRoot(target))) {
      this.#fence('shared', { node, why: ofTile }, site)
      this.#hazards.fenced()
    }
    if (this.#plans.mayHaveWritten(source))
      this.#fence('all', { node, why: 'because threads may have written memory that TMA reads' }, site)
    return this.#copy(node, { by: 'engine' })
  }

  /**
   * Adds the synchronisation of a copy in flight. TMA copies from a shared tile to a tensor; other roles, or this role
   * before its last thread barrier, may have accessed both with ordinary accesses. Threads (cp.async) copy from a
   * tensor to a shared tile.
   */
  #copyInFlight(node: Node): Node {
    // Copies by cp.async are ordinary accesses, which need no proxy fence.
    if (this.#plans.copies.ofCopy(node).how === 'chunks') return this.#settled(node, { by: 'threads' })
    const { source, target } = copyOf(node)!
    const mayHaveWritten = this.#plans.mayHaveWritten(target)
    const { fenceShared, fenceGlobal } = this.#settle(node, mayHaveWritten)
    const reason = { node, why: 'because threads may have written memory that TMA accesses' }
    if (mayHaveWritten && !fenceGlobal) this.#fence('all', reason, node.site)
    else if (this.#plans.touchedByThreads.has(tileRoot(source)) && !fenceShared && !fenceGlobal)
      this.#fence('shared', reason, node.site)
    return this.#copy(node, { by: 'engine' })
  }

  /**
   * Lowers `quiet`: the threads that started copies wait until the copies are complete, and a thread barrier makes the
   * other threads of the group wait, too.
   */
  #quiet(node: Node): Node | 'drop' {
    const { hasCopiesInFlight, hasFetches } = this.#hazards
    if (!hasCopiesInFlight && !hasFetches) return 'drop'
    const made = [
      ...(hasCopiesInFlight ? [this.#awaitCopies(node.attributes.of === 'reads', { node })] : []),
      ...(hasFetches ? [this.#awaitFetches({ node })] : []),
    ]
    this.#meet({ node, why: 'because it waits for the whole role' }, node.site)
    return made[0]
  }

  /**
   * Inserts a wait for cp.async copies. The same wait serves `quiet` with `reads`, because cp.async has no earlier
   * completion for its reads.
   */
  #awaitFetches(reason: Reason): Node {
    this.#say('a wait of each thread for its copies', reason)
    this.#hazards.fetched()
    return this.#copier.emit('drain', [], { by: 'threads' }, [], reason.node?.site)
  }

  #awaitCopies(onlyReads: boolean, reason: Reason): Node {
    this.#say(onlyReads ? waitForReads : 'a wait for the stores of TMA', reason)
    if (!onlyReads) this.#hazards.drained()
    return this.#copier.emit('drain', [], onlyReads ? { of: 'reads' } : {})
  }

  #atomic(node: Node): Node {
    this.#settle(node)
    if (releases(node)) this.#release(node)
    const isByLeader = !isFragment(node) && this.#plans.uses.count(node) > 0 && !this.#group.solo
    const made = isByLeader ? this.#exchanging(node, 'leader') : this.#copy(node)
    if (acquires(node)) this.#acquire(node)
    return made
  }

  #arrive(node: Node): Node {
    const held = this.#held.get(node)
    if (held) {
      this.#say('held until the next matrix product has started', { node })
      const [barrier] = node.inputs
      return this.#copier.emit(
        'barrier.arrive',
        [this.#copier.get(barrier), held],
        node.attributes,
        [],
        node.site,
      )
    }
    if (this.#hazards.hasSharedWrites || this.#hazards.hasUnfencedTiles)
      this.#fence('shared', { node, why: 'because threads have written shared tiles' }, node.site)
    // A single arrival on behalf of the whole group needs a thread barrier before it. If each warp arrives separately,
    // no thread barrier is needed.
    if (!this.#group.solo && this.#plans.arrivers.get(arrivesAt(node)!) === 1)
      this.#meet({ node, why: 'because it arrives for the whole role' }, node.site)
    return this.#copy(node)
  }

  /**
   * Adds the synchronisation of a wait for a flag. In a loop, a repeated wait for the same flag is skipped, because
   * flags only advance and a launch waits for one epoch only. A wait for a number of signals is not skipped, because
   * the number may change. A skipped wait has no thread barrier, so accesses that were pending before the wait are
   * still pending after it.
   */
  #wait(node: Node): Node {
    const isRepeated = [...this.#plans.uses.around(node)].some(isLoop)
    if (!isRepeated || node.inputs.length > 1) {
      const made = this.#copy(node)
      this.#acquire(node)
      return made
    }
    const before = this.#hazards.snapshot()
    const body = this.#copier.block([], () => {
      this.#copy(node)
      this.#acquire(node)
      return []
    })
    const remembers = remembered(node)
    const which = remembers === 'set' ? 'the first 32 flags are' : 'the last flag is'
    this.#say(`skipped if waited for before (${which} remembered)`, { node })
    const made = this.#copier.emit('once', [], { remembers }, [body], node.site)
    this.#hazards.restore(before, this.#hazards.snapshot())
    return made
  }

  #loop(node: Node): Node {
    const only = this.#group.solo ? undefined : dealtOut(node, this.#plans.facts.record === true)
    if (only) return this.#apart(node, only)
    const overlap = this.#plans.overlaps.find(({ loop }) => loop === node)
    return overlap ? this.#withProductsInFlight(node, overlap) : this.#repeated(node)
  }

  #repeated(node: Node, added: Attributes = {}): Node {
    const before = this.#hazards.snapshot()
    this.#hazards.enterLoop(node, this.#plans)
    const made = this.#copy(node, added)
    this.#hazards.restore(before, this.#hazards.snapshot())
    return made
  }

  #apart(loop: Node, only: Node): Node {
    this.#say('its iterations are divided among the threads', { node: loop })
    if (releases(only)) this.#release(only)
    const plain = new Copier()
    for (const [from, to] of this.#copier.map) plain.map.set(from, to)
    const made = this.#copy(loop, { apart: true }, [plain.copyBlock(loop.blocks[0])])
    if (awaitsFlag(only)) this.#acquire(only)
    return made
  }

  /**
   * Adds the synchronisation of a `while` loop. The loop exits after its condition, so the accesses of the condition
   * are pending after the loop.
   */
  #while(node: Node): Node {
    const [condition, body] = node.blocks
    this.#hazards.enterLoop(node, this.#plans)
    const first = this.#copyBlock(condition)
    const atExit = this.#hazards.snapshot()
    const made = this.#copy(node, {}, [first, this.#copyBlock(body)])
    this.#hazards.restore(atExit)
    return made
  }

  #if(node: Node): Node {
    const before = this.#hazards.snapshot()
    const ends: Pendings[] = []
    const blocks = node.blocks.map((block) => {
      this.#hazards.restore(before)
      const made = this.#copyBlock(block)
      ends.push(this.#hazards.snapshot())
      return made
    })
    this.#hazards.restore(...ends)
    return this.#copy(node, {}, blocks)
  }

  #teams(node: Node): Node {
    const blocks = node.blocks.map((block) => {
      const before = this.#hazards.snapshot()
      const made = this.#copyBlock(block)
      this.#hazards.restore(before, this.#hazards.snapshot())
      return made
    })
    return this.#copy(node, {}, blocks)
  }

  #roles(node: Node): Node {
    const reason = { node, why: 'because roles start' }
    this.#drain(reason)
    if (!this.#hazards.isClear) this.#meet(reason, node.site)
    const ends: Pendings[] = []
    const blocks = node.blocks.map((block) => this.#role(block, this.#plans.roles.groups.get(block)!, ends))
    const made = this.#copy(node, {}, blocks)
    this.#hazards.restore(...ends)
    this.#hazards.meet()
    return made
  }

  #role(block: Block, group: Group, ends: Pendings[]): Block {
    const [outer, hazards] = [this.#group, this.#hazards]
    this.#group = group
    this.#hazards = hazards.ofRole()
    const made = this.#copyBlock(block, { atEnd: () => this.#end() })
    ends.push(this.#hazards.snapshot())
    this.#group = outer
    this.#hazards = hazards
    return made
  }

  /**
   * Adds the synchronisation of a `last` block. One thread per program increments a counter, and only the last program
   * runs the block, after the accesses of all other programs.
   */
  #last(node: Node): Node {
    this.#release(node)
    if (!this.#group.solo) this.#hazards.meet()
    const before = this.#hazards.snapshot()
    const atStart = (): void => {
      if (this.#startsCopies) this.#acquire(node)
    }
    const made = this.#copy(node, this.#group.solo ? {} : { exchange: 'leader' }, [
      this.#copyBlock(node.blocks[0], { atStart }),
    ])
    this.#hazards.restore(before, this.#hazards.snapshot())
    return made
  }
}

/**
 * True if the node releases other roles of the program. The waiting role does not order the TMA accesses that follow
 * its wait, so the releasing role must execute the proxy fence.
 */
const isToRoles = (node: Node): boolean => releases(node) && opOf(node).scope === 'program'

function refuse({ op }: Node): never {
  throw new Error(`${op} is not an op of the stage before \`order\``)
}
