/**
 * The facts that specialise a kernel for a CPU, in one record. A world and `arke emit` lower a kernel by this record, and the C++ text
 * states it.
 */
import type { KernelIR } from '../../ir/node.ts'
import { spacingOf, type Members } from '../../world/members.ts'
import type { Machine } from './code.ts'

export interface CpuFacts {
  /** The vectors and caches of the processor. */
  readonly machine: Machine
  /** The kernel records programs, waits and copies from other ranks. */
  readonly record?: boolean
  /** Parameters whose tensors are packed (lower/panels.ts): products read the panels in place. */
  readonly packed?: ReadonlySet<string>
  /** The kernel is launched on a group whose members are not at a constant distance: it finds heaps in a table. */
  readonly scattered?: boolean
}

/** Whether kernels that are launched on this group must find the heaps of other ranks in a table. */
export const isScattered = (group: Members): boolean => spacingOf(group) === undefined

/** The facts as lines for a comment. */
export function cpuHeader(ir: KernelIR, facts: CpuFacts): string[] {
  const { machine, record = false, packed = new Set(), scattered = false } = facts
  const meta = Object.entries(ir.meta).map(([name, value]) => `${name} = ${String(value)}`)
  const world = `${ir.name}, for ${ir.world} ${ir.world === 1 ? 'rank' : 'ranks'}`
  const { name, lanes, rows, columns, l1, l2 } = machine
  return [
    meta.length > 0 ? `${world}; ${meta.join(', ')}` : world,
    `Assumes, for ${name}:`,
    `  vectors of ${lanes} f32 lanes; products in blocks of ${rows} rows x ${columns} vectors`,
    `  caches: L1 ${l1 / 1024} KiB, L2 ${l2 / 1024} KiB`,
    `  packed tensors: ${[...packed].join(', ') || 'none'}`,
    `  recording: ${record ? 'on' : 'off'}`,
    `  heaps: ${scattered ? 'found in a table, for a group of unevenly spaced ranks' : 'at a constant distance'}`,
  ].map(inComment)
}

/** An author's text on one line of a comment: only ASCII, and no backslash at its end, which would continue the line. */
export const inComment = (text: string): string => text.replace(/[^\x20-\x7e]+|\\$/g, ' ')
