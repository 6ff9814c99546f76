/**
 * The description of a job: ranks, steps, and what every rank does in a step, phase by phase. `layOut` puts it on the
 * timelines of the ranks, so that where their time goes is known by construction and not by analysis.
 *
 * All times are integer nanoseconds and multiples of the job's unit. A rank's device does one phase after the other:
 * idle phases pile up until the next work, which ends them.
 */

/** The same on all ranks, or each rank's own. */
export type PerRank = number | readonly number[]

export const ofRank = (value: PerRank, rank: number): number =>
  typeof value === 'number' ? value : value[rank]

/** What the launching thread does while the device is idle. */
export type HostActivity =
  /** Inside an operator: dispatch. */
  | 'operator'
  /** In a call of the runtime that neither launches nor waits, outside of operators: dispatch. */
  | 'call'
  /** Waits for the device. */
  | 'synchronize'
  /** The same inside `aten::item`, which begins one unit before and ends one unit after: these two are dispatch. */
  | 'item'
  /** Runs nothing. */
  | 'absent'

/** The device has nothing to do, first because of the host, then because of itself. */
export interface Idle {
  readonly phase: 'idle'
  /**
   * In order; the last one that is not 0 long must be an operator: it makes the launch, as its last act. Without any
   * the next work was enqueued while the work before was running.
   */
  readonly host?: readonly (readonly [activity: HostActivity, duration: PerRank])[]
  /** From the launch to the start: a hole between enqueued work, or the wait for an event of another stream. */
  readonly device?: readonly [why: 'gap' | 'dependency', duration: PerRank]
  /** Whether the trace has the stream's wait beside the host's call for it; where not, the streams must differ. */
  readonly recorded?: boolean
}

export interface Operator {
  readonly name: string
  readonly shapes?: readonly (readonly number[])[]
  readonly types?: readonly string[]
}

interface Enqueued {
  readonly operator?: Operator
  /** 0 is that of the compute. */
  readonly stream?: number
  /** 0 is the main thread, 1 that of the backward pass. */
  readonly thread?: number
  /** After the beginning of the phase; of `together` only. */
  readonly offset?: PerRank
}

export interface Work extends Enqueued {
  readonly kind: 'kernel' | 'fill' | 'copy'
  readonly name: string
  readonly duration: PerRank
  readonly bytes?: number
}

/** The kernels of one graph launch, one after the other, each with the hole before it but the first. */
export interface Graph extends Enqueued {
  readonly kind: 'graph'
  readonly kernels: readonly {
    readonly name: string
    readonly duration: PerRank
    readonly gap?: PerRank
  }[]
}

export const collectiveKinds = ['allReduce', 'allGather', 'reduceScatter', 'allToAll', 'broadcast'] as const
export type CollectiveKind = (typeof collectiveKinds)[number]

/** Every rank of the group starts it when it gets there; all end together, `transfer` after the last one started. */
export interface CollectiveWork extends Enqueued {
  readonly kind: 'collective'
  readonly collective: CollectiveKind
  /** Index into the job's groups. */
  readonly group: number
  readonly transfer: number
  readonly elementsIn?: number
  readonly elementsOut?: number
}

export type AnyWork = Work | Graph | CollectiveWork

export type Phase =
  | Idle
  | { readonly phase: 'work'; readonly work: AnyWork; readonly ranks?: readonly number[] }
  /** Several on different streams, in order of their launch; without a hole among them. */
  | { readonly phase: 'together'; readonly works: readonly (Work | CollectiveWork)[] }

export interface Group {
  readonly name: string
  readonly description: string
  readonly ranks: readonly number[]
}

export interface Job {
  readonly ranks: number
  /** Times are multiples of it; 1 unless told. */
  readonly unit?: number
  readonly groups: readonly Group[]
  /** The phases of each. A step begins where all work of the one before is done, with an idle phase of the host. */
  readonly steps: readonly (readonly Phase[])[]
  /** The number of the first step. */
  readonly firstStep?: number
  /** What an enqueued operator costs the host where it has time; less where the device would have to wait for it. */
  readonly hostCost?: number
}

export const kernel = (name: string, duration: PerRank, more: Partial<Work> = {}): Phase => ({
  phase: 'work',
  work: { kind: 'kernel', name, duration, ...more },
})

export const copy = (name: string, duration: PerRank, more: Partial<Work> = {}): Phase => ({
  phase: 'work',
  work: { kind: 'copy', name, duration, ...more },
})

export const collective = (
  kind: CollectiveKind,
  group: number,
  transfer: number,
  more: Partial<CollectiveWork> = {},
): Phase => ({ phase: 'work', work: { kind: 'collective', collective: kind, group, transfer, ...more } })

/** The host is late by `duration`, inside operators. */
export const dispatch = (duration: PerRank): Idle => ({ phase: 'idle', host: [['operator', duration]] })

export const gap = (duration: PerRank): Idle => ({ phase: 'idle', device: ['gap', duration] })

export const dependency = (duration: PerRank, recorded = true): Idle => ({
  phase: 'idle',
  device: ['dependency', duration],
  recorded,
})
