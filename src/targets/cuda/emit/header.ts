/**
 * Writes the comment above an emitted kernel. The comment lists the meta-parameters, the assumptions about the
 * arguments of a launch, and notes for the kernel's author.
 */
import type { KernelIR } from '../../../ir/node.ts'
import { paramName } from '../../../ir/ops/index.ts'
import { noteText } from './notes.ts'
import { ARCHITECTURE, mayCarryEpochs, type EmitFacts, type EmitNote, type TensorFacts } from './recipe.ts'

export function headerOf(ir: KernelIR, facts: EmitFacts, notes: readonly EmitNote[]): string[] {
  const meta = Object.entries(ir.meta).map(([name, value]) => `${name} = ${String(value)}`)
  const world = `${ir.name}, for ${ir.world} ${ir.world === 1 ? 'rank' : 'ranks'}`
  const tensors = ir.body.params.filter(({ type }) => type.kind === 'tensor').map(paramName)
  return [
    meta.length > 0 ? `${world}; ${meta.join(', ')}` : world,
    `Assumes, for ${ARCHITECTURE}:`,
    ...tensors.map((name) => `  ${name}: ${ofTensor(facts.tensors[name])}`),
    `  ${ofWorld(facts)}`,
    ...notes.map((note) => `note: ${noteText(note)}`),
  ].map((line) => `// ${line}`)
}

function ofTensor(facts: TensorFacts | undefined): string {
  if (!facts) return 'any address; any extents'
  const { aligned, divisors, small, filled } = facts
  const isAny = divisors.every((divisor) => divisor === 1)
  return [
    aligned ? 'starts at a multiple of 16 bytes' : 'any address',
    isAny ? 'any extents' : `extents are multiples of [${divisors.join(', ')}]`,
    ...(small ? [filled ? '1 to 2^31 - 1 elements' : 'fewer than 2^31 elements'] : []),
    ...(filled && !small ? ['at least 1 element'] : []),
  ].join('; ')
}

function ofWorld(facts: EmitFacts): string {
  const { oneDevice, hostSignals, record } = facts
  return [
    `ranks: ${oneDevice ? 'all on one device' : 'may be on several devices'}`,
    `recording: ${record ? 'on' : 'off'}`,
    ...(hostSignals ? ['the host signals flags'] : []),
    ...(mayCarryEpochs(facts) ? ['words may carry the epochs of flags'] : []),
  ].join('; ')
}
