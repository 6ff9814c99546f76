/**
 * Describes a job: its ranks, its steps, and the phases that every rank runs through in a step. `layOut` places the job
 * on the timelines of the ranks, so the ledger of each rank is known by construction and not by analysis.
 *
 * All times are integer nanoseconds and multiples of the job's unit. The device of a rank runs one phase after the
 * other. Consecutive idle phases accumulate until the next work ends them.
 */

/** A number that is the same for all ranks, or a list with one number per rank. */
export type PerRank = number | readonly number[]

export const ofRank = (value: PerRank, rank: number): number =>
  typeof value === 'number' ? value : value[rank]

/** What the launching thread does while the device is idle. */
export type HostActivity =
  /** The thread is inside an operator, which counts as dispatch. */
  | 'operator'
  /**
   * The thread is outside any operator, in a runtime call that neither launches nor waits, which counts as dispatch.
   */
  | 'call'
  /** The thread waits for the device. */
  | 'synchronize'
  /**
   * The thread waits inside `aten::item`. The operator `aten::item` starts one unit before the wait and ends one unit
   * after it; both units count as dispatch.
   */
  | 'item'
  /** The profiler records no activity of the thread while the device is idle. */
  | 'absent'
  /** The thread waits for the data loader, and an annotation covers the wait. The wait counts as host absent. */
  | 'loading'
  /** The thread runs Python code, which a trace with stacks shows. The Python code counts as host absent. */
  | 'python'
  /** The thread allocates memory inside an operator, which counts as dispatch. */
  | 'allocate'

/** The device is idle, first because of the host and then for reasons of the device itself. */
export interface Idle {
  readonly phase: 'idle'
  /**
   * Host activities in order. The last host activity with a non-zero duration must be an operator, which launches the
   * next device work at its end. If there are no host activities, the next work was enqueued while the previous work
   * was running.
   */
  readonly host?: readonly (readonly [activity: HostActivity, duration: PerRank])[]
  /**
   * The idle time between the launch and the start of the work: a gap between enqueued kernels, or a wait for an event
   * of another stream.
   */
  readonly device?: readonly [why: 'gap' | 'dependency', duration: PerRank]
  /**
   * True if the trace contains the stream's wait itself, and not only the host call that requested it. If `recorded` is
   * false, the work before the wait and the work after it must be on different streams.
   */
  readonly recorded?: boolean
}

export const operatorOf = (operator: Operator | readonly Operator[], rank: number): Operator =>
  'name' in operator ? operator : operator[rank]

export interface Operator {
  readonly name: string
  readonly shapes?: readonly (readonly number[])[]
  readonly types?: readonly string[]
}

interface Enqueued {
  /** The operator that launches the work, or one such operator per rank. */
  readonly operator?: Operator | readonly Operator[]
  /** The stream number; 0 is the compute stream. */
  readonly stream?: number
  /** The host thread: 0 is the main thread, and 1 is the thread of the backward pass. */
  readonly thread?: number
  /**
   * The delay of the work after the beginning of its phase. Only the kernels and copies of a phase `together` can have
   * a delay.
   */
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
 * A collective. Each rank of the group starts the collective on arrival. A collective ends on all ranks at the same
 * time, which is `transfer` after the last rank has started it.
 */
export interface CollectiveWork extends Enqueued {
  readonly kind: 'collective'
  readonly collective: CollectiveKind
  /** The index of the collective's group in the list of the job's groups. */
  readonly group: number
  readonly transfer: number
  readonly elementsIn?: number
  readonly elementsOut?: number
}

export type AnyWork = Work | Graph | CollectiveWork

export type Phase =
  | Idle
  | { readonly phase: 'work'; readonly work: AnyWork; readonly ranks?: readonly number[] }
  /**
   * Several kernels or copies on different streams, in the order in which they are launched. The device must not be
   * idle between the kernels and copies of one phase.
   */
  | { readonly phase: 'together'; readonly works: readonly (Work | CollectiveWork)[] }

export interface Group {
  readonly name: string
  readonly description: string
  readonly ranks: readonly number[]
}

export interface Job {
  readonly ranks: number
  /** All times of the job are multiples of this unit, which is in nanoseconds and 1 by default. */
  readonly unit?: number
  readonly groups: readonly Group[]
  /**
   * The phases that each rank runs through in each step. A step begins when all work of the previous step is done. The
   * first phase of a step is idle time caused by the host.
   */
  readonly steps: readonly (readonly Phase[])[]
  /** The number of the first step. */
  readonly firstStep?: number
  /**
   * The time that the host needs to enqueue one operator, in nanoseconds. The host enqueues an operator in less time if
   * the device would otherwise have to wait.
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
