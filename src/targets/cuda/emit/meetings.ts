/**
 * Says how the threads of a group exchange a value, and which thread barriers are redundant because another barrier
 * directly precedes them.
 */
import type { Node } from '../../../ir/node.ts'
import { isOfStart, isPassive, opOf } from '../../../ir/ops/index.ts'

/** How the threads of a group exchange the value of a node. */
export type Exchange =
  /** All threads write to the scratch memory of the node, pass a thread barrier, and read from it. */
  | 'scratch'
  /**
   * All threads write to the scratch memory of the node and pass a thread barrier. The threads read from the scratch
   * memory when the value of the node is used.
   */
  | 'table'
  /** One thread computes the value and writes it to shared memory. All threads read it between two thread barriers. */
  | 'leader'
  /**
   * Every warp writes a partial result to shared memory. All threads read the partial results between two thread
   * barriers.
   */
  | 'warps'

/**
 * True if a thread barrier after these nodes is redundant: all threads of the program have synchronised, and the nodes
 * after that synchronisation only compute values.
 */
export function haveJustMet(nodes: readonly Node[]): boolean {
  // At the start of a program, an early role does not wait for the other threads.
  const last = nodes.findLast(
    (node) => !isOfStart(node) && (!isPassive(node) || node.attributes.exchange !== undefined),
  )
  return last !== undefined && endsWithMeeting(last)
}

/** True if all threads of the group synchronise at the end of the node. */
function endsWithMeeting(node: Node): boolean {
  const { exchange } = node.attributes
  // A `last` node exchanges a value before its block, not at its end.
  if (exchange !== undefined && node.blocks.length === 0) return exchange !== 'scratch'
  return opOf(node).meets === 'barrier'
}
