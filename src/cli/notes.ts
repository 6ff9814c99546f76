/**
 * Collects the notes of a target for the author of a kernel. The analyses that produce notes need neither the device
 * nor a compiler.
 */
import { KernelError } from '../ir/site.ts'
import type { Kernel, Meta } from '../lang/kernel.ts'
import { forms } from '../targets/forms.ts'
import { usualTarget, type StagedTarget } from '../targets/stages.ts'
import { launchFacts } from '../world/described.ts'
import type { Launch } from '../world/world.ts'

/**
 * Notes on a kernel with its default meta-parameters, because scenarios use small tiles to have few schedules. A kernel
 * that the target rejects has no notes; `arke emit` reports the reason.
 */
export function notesOnKernel(kernel: Kernel, ranks: number): readonly string[] {
  try {
    return forms[usualTarget].notes(kernel.record({ world: ranks }), {})
  } catch (error) {
    if (error instanceof KernelError) return []
    throw error
  }
}

/** Notes on kernels with the arguments of their launches, without duplicates. */
export function notesOnLaunches(target: StagedTarget, launches: readonly Launch[], ranks: number): string[] {
  const notes = launches.flatMap((launch) => {
    const recorded = launch.kernel.record({ world: ranks, meta: launch.options.meta as Meta | undefined })
    return forms[target].notes(recorded, launchFacts(launch))
  })
  return [...new Set(notes)]
}
