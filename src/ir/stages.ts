/** The stages of a kernel, in order; each is verified, and each can be printed (`arke emit --stage`). */
import type { KernelIR } from './node.ts'
import { removeDead } from './passes/dead.ts'
import { fold } from './passes/fold.ts'
import { lowerPipelines } from './passes/pipeline.ts'
import { verify } from './verify.ts'

export const passes = [
  ['fold', fold],
  ['dead', removeDead],
  ['pipeline', lowerPipelines],
  ['fold', fold],
  ['dead', removeDead],
] as const satisfies readonly (readonly [string, (ir: KernelIR) => KernelIR])[]

const lowered = new WeakMap<KernelIR, KernelIR>()

/** The lowered form of a recorded kernel: explicit roles, asynchronous copies and barriers, nothing superfluous. */
export function lower(ir: KernelIR): KernelIR {
  const known = lowered.get(ir)
  if (known) return known
  let current = ir
  for (const [name, pass] of passes) {
    current = pass(current)
    try {
      verify(current)
    } catch (error) {
      throw new Error(
        `the pass ${name} broke ${ir.name}: ${error instanceof Error ? error.message : String(error)}`,
        { cause: error },
      )
    }
  }
  lowered.set(ir, current)
  return current
}
