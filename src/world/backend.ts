/**
 * What a target that runs kernels is to its world (heapWorld.ts): its memory, its queues and its code. Contract:
 *
 *   memory   a heap on every rank; an offset means the same place on each. Calls have done their work when they return, and are in no
 *            order with launches.
 *   queues   launches of a stream on a rank follow each other. Nothing here waits for them but what returns a promise, and `enqueue`
 *            where a queue is full. After a stop everything throws until `reset`.
 *   code     `load` compiles what is not compiled yet; what it gives is good for all launches with these handles.
 *
 * The world has checked handles, ranks, streams and arguments before it calls.
 */
import type { StorageDType } from '../ir/dtype.ts'
import type { KernelIR } from '../ir/node.ts'
import type { Kernel } from '../lang/kernel.ts'
import type { Timeline } from '../timeline/timeline.ts'
import type { Handle } from './arguments.ts'
import type { Given } from './launchTraffic.ts'
import type { Waiting } from './residency.ts'
import type { SymmetricFlags } from './world.ts'

/** An allocation, on every rank's heap. */
export interface HeapTensor {
  readonly kind: 'tensor'
  readonly dtype: StorageDType
  readonly shape: readonly number[]
  readonly offset: number
  readonly bytes: number
}
/** The words of its flags, then its epochs: two words, how many launches have signalled and how many have waited. */
export interface HeapFlags {
  readonly kind: 'flags'
  readonly shape: readonly number[]
  readonly offset: number
  readonly epochsOffset: number
  readonly bytes: number
}
export type Stored = HeapTensor | HeapFlags

export interface HeapMemory {
  /** Of a rank's heap. */
  readonly bytes: number
  write(rank: number, offset: number, dtype: StorageDType, contents: ArrayLike<number>): void
  /** As `write`, of words that kernels may poll (`isWords`): each at once, after all that was written before. Without it `write` does so. */
  writeWords?(rank: number, offset: number, dtype: StorageDType, contents: ArrayLike<number>): void
  fill(rank: number, offset: number, dtype: StorageDType, count: number, value: number): void
  read(rank: number, offset: number, dtype: StorageDType, count: number): Float64Array
  copy(rank: number, offset: number, fromRank: number, fromOffset: number, bytes: number): void
}

/** A kernel and its arguments on one rank and stream. */
export interface Wanted {
  readonly kernel: Kernel
  readonly ir: KernelIR
  readonly rank: number
  readonly stream: number
  /** What was passed. */
  readonly given: Readonly<Record<string, Handle | number>>
  /** The same; handles by what they are stored in. */
  readonly values: Readonly<Record<string, Stored | number>>
  /** Those that are flags. */
  readonly flags: Readonly<Record<string, SymmetricFlags>>
}

/** Code for what was wanted. */
export interface Loaded<P extends Part> {
  /** Programs of it that run at once on the rank. */
  readonly resident: number
  /** Undefined: its programs never wait for each other. */
  readonly waiting: Waiting | undefined
  /** A launch of so many. */
  part(grid: number): P
}

/** A launch on one rank, laid out: it can be enqueued as often as one likes. */
export interface Part {
  readonly kernel: Kernel
  readonly rank: number
  readonly grid: number
  /** Where the world records: what it was launched with last. */
  given?: Given
  /** Launches from now on are passed this number. */
  setNumber(name: string, value: number): void
  /** It will not be enqueued again. */
  close(): void
}

/** `P` is a launch on a rank, `M` a place in a queue: an event is one on every rank. */
export interface Backend<P extends Part, M> {
  readonly target: string
  readonly ranks: number
  readonly memory: HeapMemory
  readonly isIdle: boolean
  /** Set by the world: called once nothing runs, and when it was reset. */
  onIdle: () => void
  /** The shortest time that its clock tells from none, in nanoseconds. */
  readonly clockTick: number
  /** Where it records: how kernels that were loaded differ from those of a world that does not, besides their log. */
  readonly unlike: ReadonlySet<string>
  expectRunning(): void

  load(wanted: Wanted): Loaded<P>
  /** Compiles ahead; for no arguments in particular if nothing is wanted. */
  prepare(ir: KernelIR, wanted: readonly Wanted[]): Promise<void>
  /** These may wait for each other: throws if that could go wrong. */
  expectTogether?(parts: readonly P[]): void
  /** All start without waiting for any of them. */
  enqueue(parts: readonly P[]): void
  /** Before the host writes what launches under way may use. */
  beforeWrite?(stored: Stored, name: string, rank: number): void

  /** Where the queues of a stream are now, by rank. */
  mark(stream: number): readonly M[]
  /** What is enqueued on a stream from now on starts after these, each on its rank. */
  follow(stream: number, marks: readonly M[]): void
  /** Milliseconds from the last of some marks to the last of others on the same ranks; undefined: they are not all reached. */
  elapsed(from: readonly M[], to: readonly M[]): number | undefined

  /** Until all launches of a stream so far, or of all streams, have ended. */
  reach(stream?: number): Promise<void>
  reachMarks(marks: readonly M[]): Promise<void>
  /** What was recorded; undefined if nothing is. */
  timeline(ranks: readonly number[]): Timeline | undefined
  /** Whether a reset makes the words of a tensor zero, since they count epochs. */
  isCounting?(stored: Stored): boolean
  /** After a stop, as if nothing had been launched yet; `clear` writes memory meanwhile. Otherwise waits for what was launched. */
  reset(clear: () => void): Promise<void>
  /** Waits, then gives everything back: `release` first. `heapReached`: how far allocations have reached. */
  close(release: () => void, heapReached: number): Promise<void>
}
