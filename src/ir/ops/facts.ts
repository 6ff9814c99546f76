/** What analyses ask about a node, answered by the record of its op. A node whose op has no record is refused. */
import { attribute, type Block, type Node } from '../node.ts'
import { bytesOf, type Order } from './memory.ts'
import type { Atomic, Ordering } from './op.ts'
import type { RefType } from '../type.ts'
import { opOf, type OpName } from './table.ts'

/** Element i of what it yields follows from element i of each input. */
export const isElementwise = (node: Node): boolean => opOf(node).elements === 'same'

/** It computes, or names storage, and does nothing that others could tell. */
export const isPassive = (node: Node): boolean => ['pure', 'declare'].includes(opOf(node).effect)

/** Its blocks that yield its state; the one that says whether to go on does not. */
export const stateBlocks = (node: Node): readonly Block[] =>
  opOf(node).state === 'tested' ? node.blocks.slice(1) : node.blocks

/** How many values a control node carries, or, if it is a branch, yields. */
export const stateCount = (node: Node): number => node.blocks[node.blocks.length - 1].results.length

/** How many of a control node's inputs come before its carried state. */
export const leadingInputs = (node: Node): number =>
  opOf(node).state === 'yielded' ? node.inputs.length : node.inputs.length - stateCount(node)

/** Its blocks may be executed any number of times. */
export const isLoop = (node: Node): boolean => opOf(node).flow === 'repeats'

/** Whether a program may stand still here until another program moves: then both have to run at once. */
export const mayWait = (node: Node): boolean => opOf(node).waitsFor === 'programs'

/** It orders what the threads of one role do, and engines for them: to others, the role is one agent in any case. */
export const isOfThreads = (node: Node): boolean => opOf(node).waitsFor === 'threads'

/** True if the accesses before the node are visible to an agent that observes the node. */
export const releases = (node: Node): boolean => hasOrder(node, 'releases', ['release', 'acqRel', 'seqCst'])

/** True if the node makes visible what another agent released. */
export const acquires = (node: Node): boolean => hasOrder(node, 'acquires', ['acquire', 'acqRel', 'seqCst'])

function hasOrder(node: Node, half: Ordering, orders: readonly Order[]): boolean {
  const { order } = opOf(node)
  if (order === 'attribute') return orders.includes(node.attributes.order as Order)
  return order === half || order === 'both'
}

/** An access of memory by a node itself. */
export interface Access {
  readonly ref: Node
  readonly reads: boolean
  readonly writes: boolean
  readonly mask: Node | undefined
  /** It goes on after the node; a barrier tells when it is complete. */
  readonly isAsync: boolean
}

/** What a node itself reads and writes in memory, not what its blocks do. */
export function accessesOf(node: Node): readonly Access[] {
  const { accesses } = opOf(node)
  // Most nodes have none, and this is asked of all.
  if (accesses.length === 0) return nothing
  return accesses.flatMap(({ at, reads, writes, mask, isAsync = false }) => {
    const ref = node.inputs[at]
    // An operand may be a value instead.
    if (ref.type.kind !== 'ref') return []
    return { ref, reads, writes, mask: mask === undefined ? undefined : node.inputs[mask], isAsync }
  })
}
const nothing: readonly Access[] = []

/** The bytes that a node itself reads and writes, if no element is masked or outside its tensor. */
export function bytesAccessed(node: Node): { readonly read: number; readonly written: number } {
  const sum = (refs: readonly Node[]): number =>
    refs.reduce((bytes, { type }) => bytes + bytesOf(type as RefType), 0)
  return { read: sum(readRefs(node)), written: sum(writtenRefs(node)) }
}

/** What an atomic does to a place. */
export function atomicOf({ op }: { readonly op: OpName }): Atomic {
  const { atomic } = opOf({ op })
  if (!atomic) throw new Error(`${op} is not an atomic`)
  return atomic
}

/** Places that a node itself writes. */
export const writtenRefs = (node: Node): readonly Node[] =>
  accessesOf(node).flatMap(({ ref, writes }) => (writes ? [ref] : []))

/** Places that a node itself reads. */
export const readRefs = (node: Node): readonly Node[] =>
  accessesOf(node).flatMap(({ ref, reads }) => (reads ? [ref] : []))

/** Values that a node itself stores, or combines with what is there. */
export const storedValues = (node: Node): readonly Node[] =>
  opOf(node).accesses.flatMap(({ values = [] }) => values.map((at) => node.inputs[at]))

/** An access with an order: others may see it at any time, and it may not be left out. */
export const isStrong = (node: Node): boolean =>
  opOf(node).accesses.length > 0 && node.attributes.order !== undefined

/** The parameter or declaration a view was made from, and the rank it lies on (undefined: this one). */
export function origin(view: Node): { readonly base: Node; readonly owner: Node | undefined } {
  let base = view
  let owner: Node | undefined
  while (opOf(base).isView) {
    if (base.op === 'on') owner ??= base.inputs[1]
    base = base.inputs[0]
  }
  return { base, owner }
}

/** Whether a view may lie on another rank. `x.on(t.rank)` is local. */
export function isRemote(view: Node): boolean {
  const { owner } = origin(view)
  return owner !== undefined && owner.op !== 'rank'
}

export const paramName = (node: Node): string =>
  node.op === 'param' ? attribute<string>(node, 'name') : node.op
