/**
 * Removes dead code: nodes that have no effect and whose results are unused. Weak loads count as having no effect;
 * strong loads do not.
 */
import { analysis } from '../analysis.ts'
import type { Block, KernelIR, Node } from '../node.ts'
import { isStrong, mayWait, opOf } from '../ops/index.ts'
import { Copier } from '../rewrite.ts'

export const removeDead = analysis('dead code', withoutDead)

function withoutDead(ir: KernelIR): KernelIR {
  const live = new Set<Node>()
  const mark = (node: Node): void => {
    if (live.has(node)) return
    live.add(node)
    node.inputs.forEach(mark)
    node.blocks.forEach(markBlock)
  }
  const markBlock = (block: Block): void => {
    block.results.forEach(mark)
    for (const node of block.nodes) if (hasEffect(node)) mark(node)
  }
  markBlock(ir.body)
  return { ...ir, body: new Copier((node) => (live.has(node) ? undefined : 'drop')).copyBlock(ir.body) }
}

export function hasEffect(node: Node): boolean {
  const { effect } = opOf(node)
  if (effect === 'pure' || effect === 'declare') return false
  if (effect === 'read') return isStrong(node)
  if (effect === 'control') return mayWait(node) || node.blocks.some((block) => block.nodes.some(hasEffect))
  return true
}
