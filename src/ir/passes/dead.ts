/** Dead code: what nobody uses and what has no effect is left out. Weak loads count as without effect; strong ones do not. */
import type { Block, KernelIR, Node } from '../node.ts'
import { ops } from '../ops/index.ts'
import { Copier } from '../rewrite.ts'

export function removeDead(ir: KernelIR): KernelIR {
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
  const { effect } = ops[node.op]
  if (effect === 'pure' || effect === 'declare' || node.op === 'dot') return false
  if (node.op === 'load') return node.attributes.order !== undefined
  if (effect === 'control')
    return node.op === 'while' || node.blocks.some((block) => block.nodes.some(hasEffect))
  return true
}
