/**
 * The layout of a generated job: the time of every event on the timeline of its rank, as `layOut` computes it. The
 * expected audit results and the generated traces are both derived from the layout.
 */
import type { CollectiveWork, Group, Job, Operator } from './workload.ts'

export interface LaidEvent {
  readonly role:
    | 'kernel'
    | 'copy'
    | 'fill'
    | 'wait'
    | 'launch'
    | 'copyCall'
    | 'fillCall'
    | 'graphLaunch'
    | 'call'
    | 'operator'
    | 'annotation'
    | 'frame'
    | 'step'
  readonly name: string
  readonly start: number
  readonly duration: number
  /** For a device event, the number of its stream; for a host event, the number of its thread. */
  readonly track: number
  readonly correlation?: number
  readonly externalId?: number
  readonly operator?: Operator
  readonly bytes?: number
  /** The index of the event's collective among the collectives of the layout. */
  readonly collective?: number
}

/** An interval in which the device works, or in which it is idle for one known reason. */
export type Span =
  | {
      readonly part: 'dispatch' | 'gap' | 'hostBlocked' | 'hostAbsent' | 'dependency'
      from: number
      to: number
    }
  | { readonly part: 'busy'; from: number; to: number; readonly works: readonly SpanWork[] }

export interface SpanWork {
  readonly kind: 'compute' | 'copy' | 'collective'
  readonly from: number
  readonly to: number
  readonly collective?: number
}

export interface LaidCollective {
  readonly work: CollectiveWork
  readonly group: Group
  /** The sequence number of the collective within its group. */
  readonly sequence: number
  /** The start time of the collective on each rank, in the order of the group's ranks. */
  readonly starts: readonly number[]
  readonly end: number
}

export interface LaidRank {
  readonly rank: number
  readonly events: readonly LaidEvent[]
  /** The spans cover, without gaps, the time from the first device work to the last device work. */
  readonly spans: readonly Span[]
  /**
   * For each step: the time at which the host begins the step, and the start of its first device work. When the host
   * begins a step, the device has finished the work of all earlier steps.
   */
  readonly steps: readonly { readonly host: number; readonly device: number }[]
  readonly end: number
}

export interface Laid {
  readonly job: Job
  readonly ranks: readonly LaidRank[]
  readonly collectives: readonly LaidCollective[]
}
