/**
 * Writes the comment above an emitted kernel. The comment lists the meta-parameters, the assumptions about the
 * arguments of a launch, and notes for the kernel's author.
 */
import type { KernelIR } from '../../../ir/node.ts'
import { paramName } from '../../../ir/ops/index.ts'
import type { DeviceLimits, ProcessorLimits } from '../../../world/machine.ts'
import { noteText } from './notes.ts'
import {
  ARCHITECTURE,
  deviceOf,
  mayCarryEpochs,
  type EmitFacts,
  type EmitNote,
  type TensorFacts,
} from './recipe.ts'

export function headerOf(ir: KernelIR, facts: EmitFacts, notes: readonly EmitNote[]): string[] {
  const meta = Object.entries(ir.meta).map(([name, value]) => `${name} = ${String(value)}`)
  const world = `${ir.name}, for ${ir.world} ${ir.world === 1 ? 'rank' : 'ranks'}`
  const tensors = ir.body.params.filter(({ type }) => type.kind === 'tensor').map(paramName)
  return [
    meta.length > 0 ? `${world}; ${meta.join(', ')}` : world,
    `Assumes, for ${[ARCHITECTURE, ...limitsText(deviceOf(facts))].join(' with ')}:`,
    ...tensors.map((name) => `  ${name}: ${ofTensor(facts.tensors[name])}`),
    `  ${ofWorld(facts)}`,
    ...notes.map((note) => `note: ${noteText(note)}`),
  ].map((line) => `// ${line}`)
}

const ofProcessor: Readonly<Record<keyof ProcessorLimits, string>> = {
  programs: 'programs',
  threads: 'threads',
  registers: 'registers',
  partitions: 'partitions',
  registerUnit: 'registers in a unit of allocation',
  sharedBytes: 'bytes of shared memory',
  reservedBytes: 'reserved bytes per program',
  sharedUnit: 'bytes in a unit of allocation',
}

/** Returns the limits of a device that differ from the limits of an H200, as a list with one text, or an empty list. */
export function limitsText({ warp, sharedBytes, perProcessor }: DeviceLimits): readonly string[] {
  const usual = deviceOf({})
  const names = Object.keys(ofProcessor) as (keyof ProcessorLimits)[]
  const texts = [
    ...(warp === usual.warp ? [] : [`${warp} threads per warp`]),
    ...(sharedBytes === usual.sharedBytes ? [] : [`${sharedBytes} bytes of shared memory per program`]),
    ...names
      .filter((name) => perProcessor[name] !== usual.perProcessor[name])
      .map((name) => `${perProcessor[name]} ${ofProcessor[name]} per multiprocessor`),
  ]
  return texts.length === 0 ? [] : [texts.join(', ')]
}

function ofTensor(facts: TensorFacts | undefined): string {
  if (!facts) return 'any address; any extents'
  const { divisors, small, filled } = facts
  const isAny = divisors.every((divisor) => divisor === 1)
  return [
    'starts at a multiple of 16 bytes',
    isAny ? 'any extents' : `extents are multiples of [${divisors.join(', ')}]`,
    ...(small ? [filled ? '1 to 2^31 - 1 elements' : 'fewer than 2^31 elements'] : []),
    ...(filled && !small ? ['at least 1 element'] : []),
  ].join('; ')
}

function ofWorld(facts: EmitFacts): string {
  const { oneDevice, hostSignals, record, scattered } = facts
  return [
    `ranks: ${oneDevice ? 'all on one device' : 'may be on several devices'}`,
    `recording: ${record ? 'on' : 'off'}`,
    ...(scattered ? ['a table has the heaps of the group'] : []),
    ...(hostSignals ? ['the host signals flags'] : []),
    ...(mayCarryEpochs(facts) ? ['flag-in-data words may replace flags'] : []),
  ].join('; ')
}
