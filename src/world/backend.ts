/**
 * The interface between a world (heapWorld.ts) and the backend of a target. The backend provides memory, launch queues
 * and compiled code. Every backend guarantees the following properties of memory, queues and code:
 *
 *   memory   There is one heap per rank, and allocations have the same offset on each.
 *            Reads and writes of a heap are complete when the call returns.
 *            Reads and writes by the host are not ordered with launches.
 *   queues   Launches of a stream run in order on each rank.
 *            Only functions that return a promise wait for launches, but `enqueue` waits while a queue is full.
 *            After a stop, every call of the backend throws until `reset`.
 *   code     `load` compiles a kernel unless it is already compiled.
 *            The compiled code that `load` returns serves all launches with the same handles.
 *
 * The world validates handles, ranks, streams and arguments before it calls the backend.
 */
import type { StorageDType } from '../ir/dtype.ts'
import type { KernelIR } from '../ir/node.ts'
import type { Kernel } from '../lang/kernel.ts'
import type { Timeline } from '../timeline/timeline.ts'
import type { Handle } from './arguments.ts'
import type { Given } from './launchTraffic.ts'
import type { Machine } from './machine.ts'
import type { Members } from './members.ts'
import type { Waiting } from './residency.ts'
import type { SymmetricFlags } from './world.ts'

/** A tensor allocated at the same offset on every rank's heap. */
export interface HeapTensor {
  readonly kind: 'tensor'
  readonly dtype: StorageDType
  readonly shape: readonly number[]
  readonly offset: number
  readonly bytes: number
}
/**
 * A flag set on every rank's heap: the words of its flags, followed by two epoch words. The epoch words count the
 * launches that have signalled and the launches that have waited.
 */
export interface HeapFlags {
  readonly kind: 'flags'
  readonly shape: readonly number[]
  readonly offset: number
  readonly epochsOffset: number
  readonly bytes: number
}
export type Stored = HeapTensor | HeapFlags

export interface HeapMemory {
  /** The size of one rank's heap in bytes. */
  readonly bytes: number
  write(rank: number, offset: number, dtype: StorageDType, contents: ArrayLike<number>): void
  /**
   * Writes elements like `write`, but for words that kernels may poll (`isWords`). Each polled word is written
   * atomically, after all writes that the host made before. If the function `writeWords` is absent, `write` itself
   * writes words atomically and in order.
   */
  writeWords?(rank: number, offset: number, dtype: StorageDType, contents: ArrayLike<number>): void
  /**
   * Reads words that kernels may store. Each word is read atomically and with acquire order. If the function
   * `readWords` is absent, `read` itself reads words atomically and with acquire order.
   */
  readWords?(rank: number, offset: number, dtype: StorageDType, count: number): Float64Array
  fill(rank: number, offset: number, dtype: StorageDType, count: number, value: number): void
  read(rank: number, offset: number, dtype: StorageDType, count: number): Float64Array
  copy(rank: number, offset: number, fromRank: number, fromOffset: number, bytes: number): void
}

/** A kernel with its arguments on one rank and one stream. */
export interface Wanted {
  readonly kernel: Kernel
  readonly ir: KernelIR
  /** The rank in the world, and the group on which the kernel is launched. */
  readonly rank: number
  readonly members: Members
  readonly stream: number
  /** The arguments of the launch as the caller passed them. */
  readonly given: Readonly<Record<string, Handle | number>>
  /** The arguments of the launch, with each handle replaced by its storage. */
  readonly values: Readonly<Record<string, Stored | number>>
  /** The arguments of the launch that are flag sets. */
  readonly flags: Readonly<Record<string, SymmetricFlags>>
}

/** The compiled code of one kernel with its arguments on one rank. */
export interface Loaded<P extends Part> {
  /** The number of programs of this kernel that can be resident on the rank at the same time. */
  readonly resident: number
  /** A source line at which programs of the kernel wait for each other, or undefined if they never do. */
  readonly waiting: Waiting | undefined
  /** Prepares a launch of `grid` programs. */
  part(grid: number): P
}

/**
 * A per-rank launch whose arguments are prepared for the device. A prepared launch can be enqueued any number of times.
 */
export interface Part {
  readonly kernel: Kernel
  readonly rank: number
  readonly grid: number
  /**
   * The arguments with which this prepared launch was enqueued last. A backend stores the arguments of launches only if
   * the world records events.
   */
  given?: Given
  /** Sets a scalar argument for all later launches of this prepared launch. */
  setNumber(name: string, value: number): void
  /** Releases a prepared launch, which will not be enqueued again. */
  close(): void
}

/**
 * The backend of a target that runs kernels. The type `P` is a prepared launch on one rank. The type `M` is a position
 * in a launch queue; an event has one position per rank.
 */
export interface Backend<P extends Part, M> {
  readonly target: string
  readonly ranks: number
  readonly machine: Machine
  readonly memory: HeapMemory
  readonly isIdle: boolean
  /**
   * A callback that the world sets on the backend. The backend calls this callback when no launch is running or
   * pending, and after a reset.
   */
  onIdle: () => void
  /** The resolution of the backend's clock in nanoseconds. */
  readonly clockTick: number
  /**
   * The differences between the kernels of a world that records events and those of a world that does not, apart from
   * the code that writes the log.
   */
  readonly unlike: ReadonlySet<string>
  expectRunning(): void

  load(wanted: Wanted): Loaded<P>
  /** Compiles a kernel in advance. If `wanted` is empty, the code is not specialised for arguments. */
  prepare(ir: KernelIR, wanted: readonly Wanted[]): Promise<void>
  /**
   * Throws an error if the programs of these launches, which may wait for each other, might not all be resident at the
   * same time.
   */
  expectTogether?(parts: readonly P[]): void
  /**
   * Enqueues launches that are independent of each other. The backend may assume that no launch in the list waits for
   * the end of another.
   */
  enqueue(parts: readonly P[]): void
  /** The world calls `beforeWrite` before the host writes a tensor that pending launches may use. */
  beforeWrite?(stored: Stored, name: string, rank: number): void

  /**
   * Wakes the programs that wait for the flag at this offset, which the host has signalled. The function `wake` is
   * absent on targets whose programs poll instead of sleeping.
   */
  wake?(rank: number, offset: number): void

  /** The current position of a stream's queue on each rank. */
  mark(stream: number): readonly M[]
  /**
   * Makes later launches on a stream start, on each rank, after that rank's queue has reached the position in `marks`.
   */
  follow(stream: number, marks: readonly M[]): void
  /**
   * The time in milliseconds from the latest position in `from` to the latest position in `to`; each list has one queue
   * position per rank. The time between two positions is undefined if some position has not been reached.
   */
  elapsed(from: readonly M[], to: readonly M[]): number | undefined

  /** Waits until all launches so far have ended, on one stream or on all streams. */
  reach(stream?: number): Promise<void>
  reachMarks(marks: readonly M[]): Promise<void>
  /** The recorded timeline, or undefined if the world does not record. */
  timeline(ranks: readonly number[]): Timeline | undefined
  /** True if a reset must clear a tensor because its flag-in-data words hold epochs. */
  isCounting?(stored: Stored): boolean
  /**
   * After a stop, restores the state before the first launch and calls `clear`, which sets memory to its initial
   * contents. If the world has not been stopped, `reset` waits for all launches.
   */
  reset(clear: () => void): Promise<void>
  /**
   * Waits for all launches, calls `release` and then frees all resources. The argument `heapReached` is the highest
   * heap offset that was ever allocated.
   */
  close(release: () => void, heapReached: number): Promise<void>
}
