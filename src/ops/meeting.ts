/** Meetings of all ranks inside a kernel, as parts of kernels that synchronise in bulk. */
import type { Program } from '../lang/program.ts'
import type { Flags } from '../lang/tensor.ts'

/** Tell every rank that this one has reached the launch: all that it launched before is done. */
export function announce(t: Program, entered: Flags<1>): void {
  t.if(t.program.eq(0), () => t.signalAll(entered.at([t.rank])))
}

/** The launch ends when all programs of all ranks have come here. */
export function leaveTogether(t: Program, left: Flags<1>): void {
  t.last(() => {
    t.signalAll(left.at([t.rank]))
    t.for(t.world, (rank) => t.wait(left.at([rank])))
  })
}
