/**
 * Defines the facts for which a kernel is specialised on a CPU, in one record. A world and `arke emit` lower a kernel
 * according to its facts, and a comment in the generated C++ states these facts.
 */
import type { KernelIR } from '../../ir/node.ts'
import { spacingOf, type Members } from '../../world/members.ts'
import type { Machine } from './code.ts'

export interface CpuFacts {
  /** The vector width and the caches of the processor. */
  readonly machine: Machine
  /** True if the kernel writes events to a recording: programs, waits, and copies from other ranks. */
  readonly record?: boolean
  /** The parameters whose tensors are packed (lower/panels.ts): matrix products read the panels in place. */
  readonly packed?: ReadonlySet<string>
  /**
   * True if the kernel is launched on a group whose ranks are not evenly spaced in the world, so that the kernel finds
   * the heaps of other ranks in a table.
   */
  readonly scattered?: boolean
}

/** True if kernels that are launched on this group must find the heaps of other ranks in a table. */
export const isScattered = (group: Members): boolean => spacingOf(group) === undefined

/** The facts for which a kernel is specialised, as lines of a comment in the generated code. */
export function cpuHeader(ir: KernelIR, facts: CpuFacts): string[] {
  const { machine, record = false, packed = new Set(), scattered = false } = facts
  const meta = Object.entries(ir.meta).map(([name, value]) => `${name} = ${String(value)}`)
  const world = `${ir.name}, for ${ir.world} ${ir.world === 1 ? 'rank' : 'ranks'}`
  const { name, lanes, rows, columns, l1, l2 } = machine
  return [
    meta.length > 0 ? `${world}; ${meta.join(', ')}` : world,
    `Assumes, for ${name}:`,
    `  vectors of ${lanes} f32 lanes; matrix products in blocks of ${rows} rows x ${columns} vectors`,
    `  caches: L1 ${l1 / 1024} KiB, L2 ${l2 / 1024} KiB`,
    `  packed tensors: ${[...packed].join(', ') || 'none'}`,
    `  recording: ${record ? 'on' : 'off'}`,
    `  heaps: ${scattered ? 'found in a table, for a group of unevenly spaced ranks' : 'at a constant distance'}`,
  ].map(inComment)
}

/**
 * Formats a text of the author for one line of a comment: only ASCII, and without a backslash at its end, which would
 * continue the line.
 */
export const inComment = (text: string): string => text.replace(/[^\x20-\x7e]+|\\$/g, ' ')
