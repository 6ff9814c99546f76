/**
 * Caches compiled CPU kernels per process. The cache key is the kernel IR, the engine, whether the world records
 * events, and the facts of the launch that specialise its code.
 */
import type { KernelIR } from '../../ir/node.ts'
import type { Engine, Lowered } from './executable.ts'
import type { CpuFacts } from './facts.ts'

export type Lower = (ir: KernelIR, options: CpuFacts) => Lowered

export interface Compiled {
  readonly lowered: Lowered
  readonly bytes: Uint8Array
}

/** A compiled kernel with its number in a world's executable table. */
export interface Executable extends Compiled {
  readonly number: number
}

const compiled = new WeakMap<Engine, WeakMap<KernelIR, Map<string, Compiled>>>()

/** The facts of a launch for which its code is specialised. */
export interface Specialisation {
  /** The names of the parameters whose tensors are packed. */
  readonly packed: readonly string[]
  /** The field `scattered` is described at `CpuFacts.scattered`. */
  readonly scattered?: boolean
}

export const specialisationKey = ({ packed, scattered }: Specialisation): string =>
  [...(scattered ? ['scattered,'] : []), ...packed].join(' ')

/** The inputs of one compilation. */
export interface Wanted extends Specialisation {
  readonly ir: KernelIR
  readonly engine: Engine
  readonly lower: Lower
  readonly record: boolean
}

function placeOf(wanted: Wanted): { made: Map<string, Compiled>; key: string } {
  const { ir, engine, record } = wanted
  let ofEngine = compiled.get(engine)
  if (!ofEngine) compiled.set(engine, (ofEngine = new WeakMap()))
  let ofKernel = ofEngine.get(ir)
  if (!ofKernel) ofEngine.set(ir, (ofKernel = new Map()))
  return { made: ofKernel, key: `${record ? 'record' : ''} ${specialisationKey(wanted)}` }
}

const lowered = ({ ir, engine, lower, record, packed, scattered }: Wanted): Lowered =>
  lower(ir, { machine: engine.machine, record, packed: new Set(packed), scattered })

export function compile(wanted: Wanted): Compiled {
  const { made, key } = placeOf(wanted)
  let known = made.get(key)
  if (!known) {
    const low = lowered(wanted)
    made.set(key, (known = { lowered: low, bytes: wanted.engine.compile(low.module) }))
  }
  return known
}

/** Compiles a kernel in the background, so that a later `compile` call does not block on the compiler. */
export async function prepare(wanted: Wanted): Promise<void> {
  const { made, key } = placeOf(wanted)
  if (made.has(key) || !wanted.engine.prepare) return
  const low = lowered(wanted)
  await wanted.engine.prepare(low.module)
  made.set(key, { lowered: low, bytes: wanted.engine.compile(low.module) })
}
