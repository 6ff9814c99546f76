/**
 * Computes the notes for a kernel's author about NVIDIA GPUs. The emitter's analyses need neither a GPU nor a
 * compiler.
 */
import type { KernelIR } from '../ir/node.ts'
import { KernelError } from '../ir/site.ts'
import type { Kernel, Meta } from '../lang/kernel.ts'
import { noteText } from '../targets/cuda/emit/notes.ts'
import { decide } from '../targets/cuda/emit/decide.ts'
import { atStage, LAST_STAGE, shapesOf, specialise, usualWorld, type Shapes } from '../targets/cuda/facts.ts'
import { launchFacts } from '../world/described.ts'
import type { Launch } from '../world/world.ts'

function notesOf(recorded: KernelIR, shapes?: Shapes): string[] {
  const facts = specialise(usualWorld, shapesOf(recorded, shapes))
  return decide(atStage(recorded, LAST_STAGE, facts), facts).notes.map(noteText)
}

/**
 * Notes on a kernel with its default meta-parameters, because scenarios use small tiles to have few schedules. A kernel
 * that the CUDA target rejects has no notes; `arke emit` reports the reason.
 */
export function notesOnKernel(kernel: Kernel, ranks: number): string[] {
  try {
    return notesOf(kernel.record({ world: ranks }))
  } catch (error) {
    if (error instanceof KernelError) return []
    throw error
  }
}

/** Notes on kernels with the arguments of their launches, without duplicates. */
export function notesOnLaunches(launches: readonly Launch[], ranks: number): string[] {
  const notes = launches.flatMap((launch) => {
    const recorded = launch.kernel.record({ world: ranks, meta: launch.options.meta as Meta | undefined })
    return notesOf(recorded, launchFacts(launch).shapes)
  })
  return [...new Set(notes)]
}
