/**
 * The state of the stage `order` while it copies a kernel, and the synchronisation that the stage inserts. Every
 * inserted op is noted as a decision with its reason. `hazards.ts` decides which synchronisation two accesses need. A
 * role of one thread needs no thread barriers.
 */
import { baseOf, subjectOf, type Decision, type Subject } from '../../../ir/decisions.ts'
import type { Attributes, Block, Node } from '../../../ir/node.ts'
import { isAsync, opOf, releases } from '../../../ir/ops/index.ts'
import { Copier } from '../../../ir/rewrite.ts'
import type { Site } from '../../../ir/site.ts'
import type { Decisions } from './decide.ts'
import type { Group } from './groups.ts'
import { accessesOf, Hazards, type Need } from './hazards.ts'
import { exchanges, haveJustMet, type Exchange } from './meetings.ts'

export const threadBarrier = 'a thread barrier'
export const proxyFence = (space: 'shared' | 'all'): string => `a proxy fence of ${space} memory`
export const waitForReads = 'a wait until TMA has read the shared memory of earlier stores'

/** The reason why synchronisation is inserted: the node that needs it, and an explanation. */
export interface Reason {
  readonly node?: Node
  readonly why?: string
  readonly others?: readonly Subject[]
}

/** Copies a node with the synchronisation that it needs, or drops it. */
export type Step = (ordering: Ordering, node: Node) => Node | 'drop'

export class Ordering {
  /** The inserted and changed nodes, each with the reason. */
  readonly decisions: Decision[] = []
  readonly plans: Decisions
  readonly copier: Copier
  /** The barrier arrivals that are postponed until the next matrix product has started, each with its `held` node. */
  readonly held = new Map<Node, Node>()
  /** The nodes that declare staging memory: for the TMA stores of a group, and for the operands of a matrix product. */
  readonly staging = new Map<Group | Node, Node>()
  /** The accesses of the group since its last thread barrier. */
  hazards: Hazards
  /** The group whose nodes are being copied. */
  group: Group

  constructor(plans: Decisions, step: Step) {
    this.plans = plans
    this.group = plans.roles.whole
    this.hazards = new Hazards(plans.seenByEngines)
    this.copier = new Copier((node) => step(this, node))
  }

  copyBlock(source: Block, { atStart, atEnd }: { atStart?: () => void; atEnd?: () => void } = {}): Block {
    const copier = this.copier
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

  copy(node: Node, added: Attributes = {}, blocks?: readonly Block[]): Node {
    const inputs = node.inputs.map((input) => this.copier.get(input))
    const made = blocks ?? node.blocks.map((block) => this.copyBlock(block))
    return this.copier.emit(node.op, inputs, { ...node.attributes, ...added }, made, node.site)
  }

  say(what: string, { node, why, others }: Reason): void {
    const role = this.group === this.plans.roles.whole ? '' : `in the ${this.group.name}, `
    const of = node && subjectOf(node)
    this.decisions.push({ of, what: [`${role}${what}`, ...(why ? [why] : [])].join(', '), others })
  }

  meet(reason: Reason, site?: Site): void {
    this.hazards.meet()
    if (this.group.solo) return
    const joining = this.joining()
    this.say(
      joining.joins ? `${threadBarrier} (redundant: another one directly precedes it)` : threadBarrier,
      reason,
    )
    this.copier.emit('meet', [], joining, [], site)
  }

  /** Inserts a thread barrier at the end of the program. One thread then writes to the log that the program has ended. */
  meetForLog(): void {
    this.say(threadBarrier, { why: 'because the log states when all threads have ended' })
    this.copier.emit('meet', [], { log: true })
  }

  /**
   * Returns the attributes of a thread barrier. Only barriers of the whole program are marked as redundant (`joins`).
   */
  joining(): Attributes {
    const isWhole = this.group === this.plans.roles.whole
    return isWhole && haveJustMet(this.copier.nodes) ? { joins: true } : {}
  }

  fence(space: 'shared' | 'all', reason: Reason, site?: Site): void {
    this.say(proxyFence(space), reason)
    this.copier.emit('fence.async', [], { space }, [], site)
    this.hazards.fence(space)
  }

  drain(reason: Reason): void {
    if (this.hazards.hasStoresUnderWay) this.awaitCopies(false, reason)
  }

  /** Completes the copies of a role at its end. The shared memory of a program must exist until TMA has read it. */
  end(): void {
    if (this.hazards.hasStoresUnderWay || this.hazards.hasCopiesInFlight)
      this.awaitCopies(false, { why: 'at the end' })
    if (this.hazards.hasFetches) this.awaitFetches({ why: 'at the end' })
  }

  /**
   * Inserts the synchronisation that makes earlier accesses of the group visible to a node that accesses memory. If
   * `isFenced` is true, a fence of all memory follows anyway.
   */
  settle(node: Node, isFenced = false): Need {
    const accesses = accessesOf(node, this.plans)
    const need = this.hazards.need(accesses)
    const others = need.conflicting.map(baseOf)
    const reason = { node, why: 'because of earlier accesses of', others }
    if (need.drain) this.drain(reason)
    if (need.fenceShared && (need.meet || !isFenced)) this.fence('shared', reason, node.site)
    if (need.fenceGlobal) this.fence('all', reason, node.site)
    if (need.meet) this.meet(reason, node.site)
    this.hazards.add(accesses)
    return need
  }

  /** Completes all earlier accesses of the group, so that one of its threads may signal other agents. */
  release(node: Node): void {
    const reason = { node, why: 'because it releases for the whole role' }
    this.drain(reason)
    this.meet(reason, node.site)
  }

  /** Extends the acquire of one thread to all threads of the group, and to the TMA copies that they start. */
  acquire(node: Node): void {
    const reason = { node, why: 'because it acquires for the whole role' }
    if (this.isOfCopies(node)) this.fence('all', reason, node.site)
    this.meet(reason, node.site)
  }

  /**
   * True if TMA may access memory after the node, either for the role of the node or for a role that waits for this
   * role at a barrier.
   */
  isOfCopies(node: Node): boolean {
    const { usesCopyEngine, stores, inFlight, uses } = this.plans
    if (!usesCopyEngine && stores.size === 0 && inFlight.size === 0) return false
    for (const later of uses.after(node))
      if (isAsync(later) || isToRoles(later) || stores.has(later)) return true
    return false
  }

  /** True if TMA makes copies that the author wrote. */
  get startsCopies(): boolean {
    return this.plans.usesCopyEngine || this.plans.inFlight.size > 0
  }

  /**
   * Copies a node whose exchange of elements contains a thread barrier. The barrier orders all accesses of the group
   * before the node with those after the node.
   */
  exchanging(node: Node, exchange: Exchange, added: Attributes = {}): Node {
    const { what, steps } = exchanges[exchange]
    this.say(what, { node })
    const made = this.copy(node, { exchange: steps, ...added })
    this.hazards.meet()
    return made
  }

  /**
   * Inserts a wait for the matrix unit, then the barrier arrivals that were postponed while it read their ring slots.
   */
  awaitProducts(attributes: Attributes, arrivals: readonly Node[], site?: Site): void {
    this.copier.emit('dot.wait', [], attributes, [], site)
    for (const arrival of arrivals)
      this.copier.emit('arrive.held', [this.held.get(arrival)!], arrival.attributes, [], arrival.site)
  }

  /**
   * Inserts a wait for cp.async copies. A `quiet` that waits only for the reads of copies uses this wait, too, because
   * cp.async does not report the end of its reads.
   */
  awaitFetches(reason: Reason): Node {
    this.say('a wait of each thread for its copies', reason)
    this.hazards.fetched()
    return this.copier.emit('drain', [], { by: 'threads' }, [], reason.node?.site)
  }

  awaitCopies(onlyReads: boolean, reason: Reason): Node {
    this.say(onlyReads ? waitForReads : 'a wait for the stores of TMA', reason)
    if (!onlyReads) this.hazards.drained()
    return this.copier.emit('drain', [], onlyReads ? { of: 'reads' } : {})
  }
}

/**
 * True if the node releases other roles of the program. The waiting role does not order the TMA accesses that follow
 * its wait, so the releasing role must execute the proxy fence.
 */
const isToRoles = (node: Node): boolean => releases(node) && opOf(node).scope === 'program'
