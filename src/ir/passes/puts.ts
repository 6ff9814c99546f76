/** Replaces each put with a signal by a copy and a signal, for targets on which other ranks' memory has addresses. */
import { analysis } from '../analysis.ts'
import type { KernelIR } from '../node.ts'
import { Copier } from '../rewrite.ts'

export const separatePuts = analysis('puts with a signal', separated)

function separated(ir: KernelIR): KernelIR {
  const copier: Copier = new Copier((node) => {
    if (node.op !== 'put.signal') return undefined
    const [flag, ...copied] = node.inputs.map((input) => copier.get(input))
    copier.emit('copy', copied, {}, [], node.site)
    return copier.emit('signal', [flag], node.attributes, [], node.site)
  })
  return { ...ir, body: copier.copyBlock(ir.body) }
}
