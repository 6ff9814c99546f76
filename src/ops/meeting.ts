/** Implements rank barriers inside a kernel, for bulk-synchronous kernels. */
import type { Program } from '../lang/program.ts'
import type { Flags } from '../lang/tensor.ts'

/**
 * Signals to every rank that this rank has reached the launch, which means that all its earlier launches on the stream
 * have ended.
 */
export function announce(t: Program, entered: Flags<1>): void {
  t.if(t.program.eq(0), () => t.signalAll(entered.at([t.rank])))
}

/** A rank barrier at the end of a kernel. The launch ends once all programs of all ranks have called this end barrier. */
export function leaveTogether(t: Program, left: Flags<1>): void {
  t.last(() => {
    t.signalAll(left.at([t.rank]))
    t.for(t.world, (rank) => t.wait(left.at([rank])))
  })
}
