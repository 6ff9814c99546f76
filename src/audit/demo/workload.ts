/**
 * Describes a job: its ranks, its steps, and the phases that every rank runs through in a step. `layOut` places the job
 * on the timelines of the ranks, so the parts of their time are known by construction and not by analysis.
 *
 * All times are integer nanoseconds and multiples of the job's unit. The device of a rank runs one phase after the
 * other. Consecutive idle phases accumulate until the next work ends them.
 */

/** One value for all ranks, or one value per rank. */
export type PerRank = number | readonly number[]

export const ofRank = (value: PerRank, rank: number): number =>
  typeof value === 'number' ? value : value[rank]

/** The activity of the launching thread while the device is idle. */
export type HostActivity =
  /** The thread is inside an operator. This time counts as dispatch. */
  | 'operator'
  /**
   * The thread is in a runtime call, outside operators, that neither launches nor waits. This time counts as dispatch.
   */
  | 'call'
  /** The thread waits for the device. */
  | 'synchronize'
  /**
   * The thread waits inside `aten::item`. The operator starts one unit earlier and ends one unit later; both units are
   * dispatch.
   */
  | 'item'
  /** The thread runs nothing that is recorded. */
  | 'absent'

/** The device is idle, first because of the host, then because of the device itself. */
export interface Idle {
  readonly phase: 'idle'
  /**
   * Host activities in order. The last activity with a non-zero duration must be an operator, which makes the launch at
   * its end. Without host activities, the next work was enqueued while the previous work was running.
   */
  readonly host?: readonly (readonly [activity: HostActivity, duration: PerRank])[]
  /**
   * Idle time from the launch to the start of the work: a gap between enqueued kernels, or a wait for another stream's
   * event.
   */
  readonly device?: readonly [why: 'gap' | 'dependency', duration: PerRank]
  /**
   * True if the trace contains the wait of the stream, not only the host's call. If false, the two streams must differ.
   */
  readonly recorded?: boolean
}

export interface Operator {
  readonly name: string
  readonly shapes?: readonly (readonly number[])[]
  readonly types?: readonly string[]
}

interface Enqueued {
  readonly operator?: Operator
  /** The stream number; 0 is the compute stream. */
  readonly stream?: number
  /** The host thread; 0 is the main thread and 1 the thread of the backward pass. */
  readonly thread?: number
  /** The delay after the beginning of the phase. Only allowed in phase `together`. */
  readonly offset?: PerRank
}

export interface Work extends Enqueued {
  readonly kind: 'kernel' | 'fill' | 'copy'
  readonly name: string
  readonly duration: PerRank
  readonly bytes?: number
}

/**
 * The kernels of one graph launch, which run one after the other. `gap` is the idle time before each kernel except the
 * first.
 */
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

/**
 * A collective. Each rank of the group starts the collective on arrival. It ends on all ranks at the same time, which
 * is `transfer` after the last start.
 */
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
  /** Several works on different streams, in order of their launch. The device must not be idle between them. */
  | { readonly phase: 'together'; readonly works: readonly (Work | CollectiveWork)[] }

export interface Group {
  readonly name: string
  readonly description: string
  readonly ranks: readonly number[]
}

export interface Job {
  readonly ranks: number
  /** All times are multiples of this unit, in nanoseconds; 1 by default. */
  readonly unit?: number
  readonly groups: readonly Group[]
  /**
   * The phases of each step. A step begins when all work of the previous step is done, with an idle phase of the host.
   */
  readonly steps: readonly (readonly Phase[])[]
  /** The number of the first step. */
  readonly firstStep?: number
  /**
   * The host time per enqueued operator, in nanoseconds. The time is shorter if the device would otherwise have to
   * wait.
   */
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

/** An idle phase in which the host spends `duration` inside operators. */
export const dispatch = (duration: PerRank): Idle => ({ phase: 'idle', host: [['operator', duration]] })

export const gap = (duration: PerRank): Idle => ({ phase: 'idle', device: ['gap', duration] })

export const dependency = (duration: PerRank, recorded = true): Idle => ({
  phase: 'idle',
  device: ['dependency', duration],
  recorded,
})
