/**
 * Values needed in two layouts: the IR with a conversion, a cast of the value to its own dtype, where the second one is
 * wanted. Its threads exchange their elements through shared memory.
 */
import type { Block, KernelIR, Node } from '../../../ir/node.ts'
import { attribute } from '../../../ir/node.ts'
import { Copier } from '../../../ir/rewrite.ts'
import type { ValueType } from '../../../ir/type.ts'
import { LayoutConflict } from './assign.ts'

/** Far more than any kernel needs. */
const MOST = 64

/** What `attempt` makes of the kernel, with conversions where it found that a value has two layouts. */
export function withConversions<T>(given: KernelIR, attempt: (ir: KernelIR) => T): T {
  let ir = given
  for (let count = 0; ; count++)
    try {
      return attempt(ir)
    } catch (error) {
      if (!(error instanceof LayoutConflict) || count === MOST) throw error
      ir = converted(ir, error)
    }
}

function converted(ir: KernelIR, { value, user }: LayoutConflict): KernelIR {
  const convert = (copier: Copier): Node => {
    const { dtype } = value.type as ValueType
    return copier.emit('cast', [copier.get(value)], { dtype }, [], value.site)
  }
  /** Copies what wants the other layout, with the conversion in the value's place. */
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
