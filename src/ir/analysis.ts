/**
 * A registry of all analyses of kernels, by name. Every function that derives facts from the nodes of a kernel is
 * registered here. Each analysis rejects a kernel with an op that has no record (test/ir/analyses.test.ts).
 */
import { walk, type KernelIR } from './node.ts'

const all = new Map<string, (ir: KernelIR) => unknown>()

/** Kernels in which every op is already known to have a record, that is, a declared signature and declared facts. */
const known = new WeakSet<KernelIR>()

function expectKnownOps(ir: KernelIR): void {
  if (known.has(ir)) return
  for (const _ of walk(ir.body));
  known.add(ir)
}

/**
 * Registers an analysis. If the analysis takes other arguments besides the kernel, the caller passes a function
 * `probe`, which calls the analysis with minimal arguments.
 */
export function analysis<Rest extends readonly unknown[], T>(
  name: string,
  analyse: (ir: KernelIR, ...rest: Rest) => T,
  probe?: (ir: KernelIR) => unknown,
): (ir: KernelIR, ...rest: Rest) => T {
  if (all.has(name)) throw new Error(`there are two analyses called ${name}`)
  const checked = (ir: KernelIR, ...rest: Rest): T => {
    expectKnownOps(ir)
    return analyse(ir, ...rest)
  }
  all.set(name, (ir) => {
    expectKnownOps(ir)
    return (probe ?? (checked as unknown as (ir: KernelIR) => unknown))(ir)
  })
  return checked
}

/** The analyses that the loaded modules have registered. */
export const analyses: ReadonlyMap<string, (ir: KernelIR) => unknown> = all
