/**
 * Implements the stage `layouts`: inserts a `convert` where a value is needed in two layouts. In a `convert`, threads
 * exchange the elements of the value through shared memory. Each inserted `convert` removes one use from a value with
 * conflicting uses, so the stage terminates. A kernel that would need more conversions than it has nodes is rejected
 * with an error.
 */
import { analysis } from '../../../ir/analysis.ts'
import { subjectOf, withDecisions, type Decision } from '../../../ir/decisions.ts'
import { attribute, Node, walk, type Block, type KernelIR } from '../../../ir/node.ts'
import { opOf } from '../../../ir/ops/index.ts'
import { Copier } from '../../../ir/rewrite.ts'
import type { Conflict } from './assign.ts'

export const insertConversions = analysis('conversions of layouts', withConversions)

function withConversions(given: KernelIR, conflictIn: (ir: KernelIR) => Conflict | undefined): KernelIR {
  let ir = given
  const decisions: Decision[] = []
  for (let left = [...walk(given.body)].length; left >= 0; left--) {
    const conflict = conflictIn(ir)
    if (!conflict) return withDecisions(ir, 'layouts', decisions)
    decisions.push(decisionOf(conflict))
    ir = converted(ir, conflict)
  }
  throw new Error(
    `${given.name}: no assignment of layouts satisfies all uses of its fragments, even with conversions between layouts`,
  )
}

function decisionOf({ value, user }: Conflict): Decision {
  const of = subjectOf(value)
  if (user instanceof Node)
    return {
      of,
      what: 'the value is converted to the layout that the following op needs:',
      others: [subjectOf(user)],
    }
  return {
    of,
    what: `the value is converted to the layout that ${user ? 'the results of its block' : 'all its users'} need`,
  }
}

function converted(ir: KernelIR, { value, user }: Conflict): KernelIR {
  const convert = (copier: Copier): Node => copier.emit('convert', [copier.get(value)], {}, [], value.site)
  /**
   * Calls `copy` to copy the node or block that needs `value` in a second layout. In the copied node or block, the
   * converted value replaces the original value.
   */
  const instead = <T>(copier: Copier, copy: () => T): T => {
    const before = copier.get(value)
    copier.map.set(value, convert(copier))
    const copied = copy()
    copier.map.set(value, before)
    return copied
  }
  const copier: Copier = new Copier((node) => {
    if (node === user) return instead(copier, () => copier.copyAsIs(node))
    if (user === undefined && node === value) {
      copier.map.set(node, copier.copyAsIs(node))
      return convert(copier)
    }
    if (node.blocks.length === 0 || !node.blocks.includes(user as Block)) return undefined
    const blocks = node.blocks.map((block) => (block === user ? yielding(block) : copier.copyBlock(block)))
    return copier.emit(
      node.op,
      node.inputs.map((input) => copier.get(input)),
      node.attributes,
      blocks,
      node.site,
    )
  })
  const yielding = (block: Block): Block => {
    const params = block.params.map((param) => ({
      type: param.type,
      name: attribute<string>(param, 'name'),
      site: param.site,
    }))
    return copier.block(params, (fresh) => {
      block.params.forEach((param, i) => copier.map.set(param, fresh[i]))
      copier.copyNodes(block)
      return instead(copier, () => block.results.map((result) => copier.get(result)))
    })
  }
  return { ...ir, body: copier.copyBlock(ir.body) }
}

/** Inserts a `combine` after each reduction whose rows or columns are distributed over several warps. */
export const insertCombines = analysis('combined reductions', withCombines)

function withCombines(ir: KernelIR, isShared: (reduction: Node) => boolean): KernelIR {
  const decisions: Decision[] = []
  const copier: Copier = new Copier((node) => {
    if (opOf(node).elements !== 'reduced' || !isShared(node)) return undefined
    decisions.push({ of: subjectOf(node), what: 'the partial results of several warps are combined' })
    return copier.emit('combine', [copier.copyAsIs(node)], {}, [], node.site)
  })
  return withDecisions({ ...ir, body: copier.copyBlock(ir.body) }, 'layouts', decisions)
}
