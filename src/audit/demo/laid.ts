/** A job on the timelines of its ranks: what `layOut` makes, and what the truth and the traces are read off. */
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
    | 'step'
  readonly name: string
  readonly start: number
  readonly duration: number
  /** The stream of device events, the thread of host events. */
  readonly track: number
  readonly correlation?: number
  readonly externalId?: number
  readonly operator?: Operator
  readonly bytes?: number
  /** Index into the laid-out collectives. */
  readonly collective?: number
}

/** A stretch of device work that belongs together, or of idle time with its reason. */
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
  /** Its number in the group. */
  readonly sequence: number
  /** By the group's ranks, in order. */
  readonly starts: readonly number[]
  readonly end: number
}

export interface LaidRank {
  readonly rank: number
  readonly events: readonly LaidEvent[]
  /** Without a hole, from the first device work to the last. */
  readonly spans: readonly Span[]
  /** When the host begins each step, all work of the one before being done, and when its first work starts. */
  readonly steps: readonly { readonly host: number; readonly device: number }[]
  readonly end: number
}

export interface Laid {
  readonly job: Job
  readonly ranks: readonly LaidRank[]
  readonly collectives: readonly LaidCollective[]
}
