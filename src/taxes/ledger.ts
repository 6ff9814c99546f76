/**
 * Defines the categories into which the audit divides time, in nanoseconds. The time of each processor of a rank is
 * divided into disjoint categories whose sum is exactly the wall time. A category is a set of time intervals, so the
 * ledger of a shorter window (a step, a launch) consists of the same sets, clipped to that window. docs/taxes.md has
 * the definitions and a worked example.
 */
import type { Intervals } from '../timeline/intervals.ts'

/**
 * The categories of the wall time, each with its definition. The categories are in order of precedence: an instant
 * belongs to the first category that claims it. Compute hides communication, and communication hides copies. Time in
 * which no compute, communication or copy runs is idle time.
 */
export const parts = {
  compute: 'a kernel or a fill runs and is not known to be blocked',
  transfer:
    'a collective moves data after its last rank has arrived, or a kernel only copies between ranks, and no compute runs at the same time',
  wait: 'the rank is in a collective at which another rank has not arrived yet, or in a kernel whose programs all wait for flags, and no compute runs at the same time',
  communication:
    'exposed communication that cannot be split into wait and transfer, because traces of other ranks are missing',
  copy: 'only a copy runs',
  vacant: 'the processor has nothing to do, while another processor of the rank is busy',
  dispatch: 'idle; the host is inside operators or launch calls before the next work is enqueued',
  gap: 'idle; the next work is enqueued and waits only for the device',
  hostBlocked: 'idle; the host waits for the device',
  hostAbsent: 'idle; the host runs neither operator nor launch',
  dependency: 'idle; the next work is enqueued and waits for an event of another stream',
  unattributed: 'idle; the cause is unknown, because the launch of the next work was not recorded',
} as const

export type Part = keyof typeof parts
export const partNames = Object.keys(parts) as readonly Part[]

/** The categories of the ledger that are idle time, and the categories that are busy time. */
export const idleParts = [
  'dispatch',
  'gap',
  'hostBlocked',
  'hostAbsent',
  'dependency',
  'unattributed',
] as const satisfies readonly Part[]
export type IdlePart = (typeof idleParts)[number]
export const busyParts = [
  'compute',
  'transfer',
  'wait',
  'communication',
  'copy',
  'vacant',
] as const satisfies readonly Exclude<Part, IdlePart>[]
export type BusyPart = (typeof busyParts)[number]

/** The time of one processor in a window. */
export interface ProcessorTime {
  /**
   * Disjoint sets of time, one per category, whose union is the window. All processors of a rank have the same idle
   * time.
   */
  readonly parts: Readonly<Record<Part, Intervals>>
  /** The time in which the processor waits for other ranks, whether compute or a transfer hides it or not. */
  readonly waiting: Intervals
  /** The time in which the processor moves data between ranks, whether compute hides it or not. */
  readonly transferring: Intervals
}

/** The division of a rank's time from `from` to `to`. */
export interface Partition {
  readonly from: number
  readonly to: number
  /**
   * The processors of the rank (at least one). A ledger of the rank is the mean over its processors.
   */
  readonly processors: readonly ProcessorTime[]
  /**
   * The time during which any communication ran, and the time during which any copy ran. The sets of communication time
   * and copy time may overlap.
   */
  readonly communicating: Intervals
  readonly copying: Intervals
}

/** The idle time of a rank by cause. All processors of a rank have the same idle time. */
export const idleTime = ({ processors: [one] }: Partition): Readonly<Record<IdlePart, Intervals>> => one.parts
