/**
 * Kernels compiled for a CPU: once in the process for each recording, machine, choice of recording time and of packed
 * tensors.
 */
import type { KernelIR } from '../../ir/node.ts'
import type { Engine, Lowered, LoweringOptions } from './executable.ts'

export type Lower = (ir: KernelIR, options: LoweringOptions) => Lowered

export interface Compiled {
  readonly lowered: Lowered
  readonly bytes: Uint8Array
}

/** One that a world has in its table. */
export interface Executable extends Compiled {
  readonly number: number
}

const compiled = new WeakMap<Engine, WeakMap<KernelIR, Map<string, Compiled>>>()

export function compile(
  ir: KernelIR,
  engine: Engine,
  lower: Lower,
  record: boolean,
  packed: readonly string[] = [],
): Compiled {
  let ofEngine = compiled.get(engine)
  if (!ofEngine) compiled.set(engine, (ofEngine = new WeakMap()))
  let ofKernel = ofEngine.get(ir)
  if (!ofKernel) ofEngine.set(ir, (ofKernel = new Map()))
  const key = [record ? 'record' : '', ...packed].join(' ')
  let made = ofKernel.get(key)
  if (!made) {
    const lowered = lower(ir, { machine: engine.machine, record, packed: new Set(packed) })
    ofKernel.set(key, (made = { lowered, bytes: engine.compile(lowered.module) }))
  }
  return made
}
