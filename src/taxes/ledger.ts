/**
 * What the audit computes, in integer nanoseconds: where the time of each rank went, in parts that are disjoint and
 * add up to the wall time to the nanosecond. The parts are sets of time, so that a ledger of any window (a step, a
 * launch) is the same sets, clipped. docs/taxes.md has the definitions and a worked example.
 */
import type { Intervals } from '../timeline/intervals.ts'

/**
 * The parts of wall, each with what it is. An instant belongs to the first that claims it, in this order: compute
 * hides communication, communication hides copies, and only what is left is idle.
 */
export const parts = {
  compute: 'a kernel or a fill runs, and is not known to be blocked',
  transfer:
    'a collective moves data after its last rank has arrived, or a kernel does nothing but copy between ranks, and nothing is computed meanwhile',
  wait: 'inside collectives of which a rank has not arrived yet, or in a kernel whose programs all wait for flags, and nothing is computed meanwhile',
  communication:
    'communication that is exposed and cannot be split, because traces of other ranks are missing',
  copy: 'a copy runs, and nothing else',
  dispatch: 'idle; the host is inside operators or launches on its way to the next work',
  gap: 'idle; the next work is enqueued and waits for nothing but the device',
  hostBlocked: 'idle; the host waits for the device',
  hostAbsent: 'idle; the host runs neither operator nor launch',
  dependency: 'idle; the next work is enqueued and waits for an event of another stream',
  unattributed: 'idle; nothing is known of the host, as the next work has no recorded launch',
} as const

export type Part = keyof typeof parts
export const partNames = Object.keys(parts) as readonly Part[]

/** The idle ones among them, and the others. */
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
] as const satisfies readonly Part[]

/** Of one processor among several: it may also have nothing to do while another has. */
export type ProcessorPart = Part | 'vacant'

/** Where all of a rank's time went, from `from` to `to`: disjoint sets whose union is the window. */
export interface Partition {
  readonly from: number
  readonly to: number
  readonly parts: Readonly<Record<Part, Intervals>>
  /** Not disjoint: when any communication, any copy ran. */
  readonly communicating: Intervals
  readonly copying: Intervals
  /** All waiting in collectives, hidden by compute or not. */
  readonly waiting: Intervals
  /** All time in collectives after the last rank had arrived. */
  readonly transferring: Intervals
}
