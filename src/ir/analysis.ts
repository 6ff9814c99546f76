/**
 * The analyses of kernels, by name. Whoever derives something from the nodes of a kernel is registered here, so that what holds
 * for all is done and tested for all: none passes over an op that has no record (test/ir/analyses.test.ts).
 */
import { walk, type KernelIR } from './node.ts'

const all = new Map<string, (ir: KernelIR) => unknown>()

/** Kernels all of whose ops have records. */
const known = new WeakSet<KernelIR>()

function expectKnownOps(ir: KernelIR): void {
  if (known.has(ir)) return
  for (const _ of walk(ir.body));
  known.add(ir)
}

/** Registers an analysis. `probe` calls it with the least it needs, where it takes more than the kernel. */
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

/** Those of the modules that are loaded. */
export const analyses: ReadonlyMap<string, (ir: KernelIR) => unknown> = all
