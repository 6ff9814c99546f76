/**
 * Where the threads of a group meet: how they exchange a value, and which thread barriers join the previous one.
 */
import type { Node } from '../../../ir/node.ts'
import { isPassive, opOf } from '../../../ir/ops/index.ts'

/** How the threads of a group exchange the value of a node. */
export type Exchange =
  /** All threads write to the scratch memory of the node, pass a thread barrier, and read from it. */
  | 'scratch'
  /** As `scratch`, but the threads read when the node is used. */
  | 'table'
  /** One thread computes the value and writes it to shared memory. All threads read it between two thread barriers. */
  | 'leader'
  /** As `leader`, but every warp writes a partial result. */
  | 'warps'

/**
 * True if a thread barrier after these nodes joins the previous one: all threads of the program have just met, and only
 * values were computed since.
 */
export function haveJustMet(nodes: readonly Node[]): boolean {
  const last = nodes.findLast((node) => !isPassive(node) || node.attributes.exchange !== undefined)
  return last !== undefined && endsWithMeeting(last)
}

/** True if all threads of the group meet at the end of the node. */
function endsWithMeeting(node: Node): boolean {
  const { exchange } = node.attributes
  // `last` exchanges a value before its block.
  if (exchange !== undefined && node.blocks.length === 0) return exchange !== 'scratch'
  return opOf(node).meets === 'barrier'
}
