/**
 * Replaces asynchronous copies by ordinary copies if the target has no engine that could execute them while the threads
 * continue. A role without asynchronous copies needs no `quiet`, the op that waits for such copies.
 */
import { analysis } from '../analysis.ts'
import type { Block, KernelIR, Node } from '../node.ts'
import { opOf } from '../ops/index.ts'
import { Copier } from '../rewrite.ts'

/** `staysInFlight` returns true for copies that the target executes asynchronously. */
export const completeAtOnce = analysis('completion of copies', completed, (ir) => completed(ir, () => false))

function completed(ir: KernelIR, staysInFlight: (copy: Node) => boolean): KernelIR {
  const roleOf = rolesOf(ir.body)
  const isCompleted = (node: Node): boolean => node.op === 'copy.nbi' && !staysInFlight(node)
  const inFlight = [...roleOf.keys()].filter(
    (node) => opOf(node).completes === 'at quiet' && !isCompleted(node),
  )
  const overlapping = new Set(inFlight.map((copy) => roleOf.get(copy)!))
  const copier: Copier = new Copier((node) => {
    if (node.op === 'quiet') return overlapping.has(roleOf.get(node)!) ? undefined : 'drop'
    if (!isCompleted(node)) return undefined
    return copier.emit(
      'copy',
      node.inputs.map((input) => copier.get(input)),
      {},
      [],
      node.site,
    )
  })
  return { ...ir, body: copier.copyBlock(ir.body) }
}

/** Maps each node to the block of the role that executes the node, or to the kernel's body if the node is in no role. */
function rolesOf(body: Block): ReadonlyMap<Node, Block> {
  const roles = new Map<Node, Block>()
  const visit = (block: Block, role: Block): void => {
    for (const node of block.nodes) {
      roles.set(node, role)
      for (const inner of node.blocks) visit(inner, opOf(node).flow === 'warps' ? inner : role)
    }
  }
  visit(body, body)
  return roles
}
