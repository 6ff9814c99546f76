/**
 * Queries about a node, answered from the record of its op. A query about a node whose op has no record throws an
 * error.
 */
import { attribute, type Block, type Node } from '../node.ts'
import type { Order } from './memory.ts'
import type { Atomic, Ordering } from './op.ts'
import type { Space } from '../type.ts'
import { opOf, type OpName } from './table.ts'

/** True if element i of the result depends only on element i of each input. */
export const isElementwise = (node: Node): boolean => opOf(node).elements === 'same'

/** True if the node only computes or declares storage, and has no effect that another agent could observe. */
export const isPassive = (node: Node): boolean => ['pure', 'declare'].includes(opOf(node).effect)

/**
 * The blocks of a control-flow node that yield its carried state (the values that pass from one iteration to the next).
 * The condition of a `while` loop yields no state.
 */
export const stateBlocks = (node: Node): readonly Block[] =>
  opOf(node).state === 'tested' ? node.blocks.slice(1) : node.blocks

/**
 * The number of values that a loop carries from one iteration to the next. For a branch node, the result is the number
 * of values that the branch yields.
 */
export const stateCount = (node: Node): number => node.blocks[node.blocks.length - 1].results.length

/** The number of inputs of a control-flow node that precede the initial values of its carried state. */
export const leadingInputs = (node: Node): number =>
  opOf(node).state === 'yielded' ? node.inputs.length : node.inputs.length - stateCount(node)

/** True if the blocks of the node may be executed any number of times. */
export const isLoop = (node: Node): boolean => opOf(node).flow === 'repeats'

/**
 * True for a loop that ends only when a condition computed by the loop is false. A loop without a static bound may poll
 * memory for any length of time.
 */
export const isOpenEnded = (node: Node): boolean => opOf(node).state === 'tested'

/**
 * True if a program may wait at this node for another program. A program that waits and the program that it waits for
 * must be resident at the same time.
 */
export const mayWait = (node: Node): boolean => opOf(node).waitsFor === 'programs'

/** True if the node blocks until another program has signalled a flag. */
export const awaitsFlag = (node: Node): boolean => opOf(node).effect === 'sync' && mayWait(node)

/** True if all roles of the program synchronise at the node. */
export function meetsRoles(node: Node): boolean {
  const { effect, scope, meets } = opOf(node)
  return effect === 'sync' && scope === 'program' && meets === 'barrier'
}

/** The declaration of the barrier at which a node arrives for its role; undefined if the node arrives at no barrier. */
export const arrivesAt = (node: Node): Node | undefined =>
  opOf(node).waitsFor === 'nobody' && releases(node) ? barrierOf(node) : undefined

/** The declaration of the barrier for whose phase a node waits; undefined if the node waits for no barrier. */
export const awaitsBarrier = (node: Node): Node | undefined =>
  opOf(node).waitsFor === 'roles' ? barrierOf(node) : undefined

/** The declaration of the barrier that signals the completion of a node's accesses; undefined if no barrier does. */
export const completesAt = (node: Node): Node | undefined =>
  opOf(node).completes === 'at barrier' ? barrierOf(node) : undefined

function barrierOf({ inputs }: Node): Node | undefined {
  const barrier = inputs.find(({ type }) => type.kind === 'barriers')
  return barrier && origin(barrier).base
}

/** True if the memory accesses of the node may continue after the node. */
export const isAsync = (node: Node): boolean =>
  ['at barrier', 'at quiet', 'at drain'].includes(opOf(node).completes)

/**
 * True if the node declares tiles in shared memory. Shared memory that a compiler stage declares for its own copies
 * (staging) does not count as tiles.
 */
export const declaresTile = (node: Node): boolean => {
  const { effect, inserted } = opOf(node)
  return effect === 'declare' && node.type.kind === 'ref' && inserted === 'recorded'
}

/** True if the node declares barriers. */
export const declaresBarriers = (node: Node): boolean =>
  opOf(node).effect === 'declare' && !opOf(node).isView && node.type.kind === 'barriers'

/**
 * True if the node only orders accesses among the threads of one role and the bulk copy engine. Orderings inside one
 * role do not matter to other agents, because a role is one agent.
 */
export const isOfThreads = (node: Node): boolean => opOf(node).waitsFor === 'threads'

/** True if the node belongs to the start of a program, which precedes the kernel's own ops (ops/start.ts). */
export const isOfStart = (node: Node): boolean => opOf(node).place === 'start'

/** True if an agent that observes the effect of the node also observes all accesses that precede the node. */
export const releases = (node: Node): boolean => hasOrder(node, 'releases', ['release', 'acqRel', 'seqCst'])

/** True if other programs can observe when the node is executed. */
export function isPublished(node: Node): boolean {
  const { varies, flow, advances, accesses, scope } = opOf(node)
  const isReleased = releases(node) && scope !== 'threads' && scope !== 'program'
  const isAtomic = accesses.some(({ reads, writes }) => reads && writes)
  return varies === 'by program' || flow === 'programs' || advances === 'signal' || isAtomic || isReleased
}

/** True if the node makes the accesses that another agent released visible to this agent. */
export const acquires = (node: Node): boolean => hasOrder(node, 'acquires', ['acquire', 'acqRel', 'seqCst'])

function hasOrder(node: Node, half: Ordering, orders: readonly Order[]): boolean {
  const { order } = opOf(node)
  if (order === 'attribute') return orders.includes(node.attributes.order as Order)
  return order === half || order === 'both'
}

/**
 * Names an epoch that a node reads: the flag set that has the epoch, and whether it counts signals or waits (`side`).
 */
export interface EpochUse {
  /** The kernel parameter that holds the flag set whose epoch the node reads. */
  readonly flags: Node
  readonly side: 'signal' | 'wait'
  /** True if each launch of a kernel with this node advances the epoch of the flag set. */
  readonly advances: boolean
}

/** Returns the epoch that a node itself reads, or undefined if the node reads no epoch. */
export function epochOf(node: Node): EpochUse | undefined {
  const { advances, looks } = opOf(node)
  const looked = looks === 'attribute' ? attribute<EpochUse['side']>(node, 'side') : looks
  const side = advances === 'none' ? looked : advances
  if (side === 'none') return undefined
  const view = node.inputs.find(({ type }) => type.kind === 'flags')
  if (!view)
    throw new Error(
      `${node.op} at ${node.site} uses the epoch of a flag set, but no input of the node is a flag set`,
    )
  return { flags: origin(view).base, side, advances: advances !== 'none' }
}

/** A memory access that a node makes itself, as opposed to accesses of nodes in its blocks. */
export interface Access {
  readonly ref: Node
  readonly level: Space
  readonly reads: boolean
  readonly writes: boolean
  readonly mask: Node | undefined
}

/** Returns the memory accesses of a node itself. Accesses of nodes in the blocks of a control node are not included. */
export function accessesOf(node: Node): readonly Access[] {
  const { accesses } = opOf(node)
  // Most nodes access no memory. Because the access query is called for all nodes, nodes without accesses are handled
  // first.
  if (accesses.length === 0) return nothing
  return accesses.flatMap(({ at, reads, writes, mask }) => {
    const ref = node.inputs.at(at)
    // Some ops accept either a memory reference or a value as an operand, or no operand. An operand that is a value is
    // not a memory access.
    if (ref?.type.kind !== 'ref') return []
    return {
      ref,
      level: ref.type.space,
      reads,
      writes,
      mask: mask === undefined ? undefined : node.inputs[mask],
    }
  })
}
const nothing: readonly Access[] = []

/** A copy: the memory locations that it reads, those that it writes, and its mask. */
export interface Copied {
  readonly source: Node
  readonly target: Node
  readonly mask: Node | undefined
}

/** The source, the target and the mask of a copy node. For a node that is not a copy, the result is undefined. */
export function copyOf(node: Node): Copied | undefined {
  const accesses = accessesOf(node)
  const from = accesses.find(({ writes }) => !writes)
  const to = accesses.find(({ reads }) => !reads)
  return from && to && { source: from.ref, target: to.ref, mask: to.mask }
}

/**
 * Returns the function that an atomic op applies to an element. For an op that is not atomic, the function throws an
 * error.
 */
export function atomicOf({ op }: { readonly op: OpName }): Atomic {
  const { atomic } = opOf({ op })
  if (!atomic) throw new Error(`${op} is not an atomic`)
  return atomic
}

/** The memory references that a node itself writes. */
export const writtenRefs = (node: Node): readonly Node[] =>
  accessesOf(node).flatMap(({ ref, writes }) => (writes ? [ref] : []))

/** The memory references that a node itself reads. */
export const readRefs = (node: Node): readonly Node[] =>
  accessesOf(node).flatMap(({ ref, reads }) => (reads ? [ref] : []))

/** The values that a node itself stores, or combines with the previous contents of memory. */
export const storedValues = (node: Node): readonly Node[] =>
  opOf(node).accesses.flatMap(({ values = [] }) => values.map((at) => node.inputs[at]))

/**
 * True for a memory access with a memory order. An ordered access must not be removed, because other agents may observe
 * it.
 */
export const isStrong = (node: Node): boolean =>
  opOf(node).accesses.length > 0 && node.attributes.order !== undefined

/**
 * Returns the parameter or declaration that a view refers to, and the rank that owns it (undefined means this
 * rank).
 */
export function origin(view: Node): { readonly base: Node; readonly owner: Node | undefined } {
  let base = view
  let owner: Node | undefined
  while (opOf(base).isView) {
    const { owner: at } = opOf(base)
    if (at !== 'none') owner ??= base.inputs[at]
    base = base.inputs[0]
  }
  return { base, owner }
}

/** True if a view may refer to another rank's memory. The view `x.on(t.rank)` refers to local memory. */
export function isRemote(view: Node): boolean {
  const { owner } = origin(view)
  return owner !== undefined && owner.op !== 'rank'
}

export const paramName = (node: Node): string =>
  node.op === 'param' ? attribute<string>(node, 'name') : node.op
