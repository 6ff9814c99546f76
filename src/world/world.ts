/**
 * The host API: a world of ranks with a symmetric heap. One host program allocates, launches and reads back. Every
 * target implements the same interface. The interface does not assume that all ranks are in this process. Methods that
 * access the data of a rank take the rank as an argument, and throw if it is not among `localRanks`.
 *
 * An allocation exists on every rank, at the same offset in the rank's heap. On one rank, launches of a stream run in
 * order. A launch orders nothing between ranks: only flags and `barrier` do.
 */
import type { DType, StorageDType } from '../ir/dtype.ts'
import { Site } from '../ir/site.ts'
import type { FlagsParam, Kernel, Meta, Params, ScalarParam, TensorParam } from '../lang/kernel.ts'
import type { Timeline } from '../timeline/timeline.ts'
import type { Machine } from './machine.ts'
import { rankName } from './members.ts'
import { signalLines, type FlagSignals } from './signallers.ts'

/** The most ranks that a world can have. */
export const mostRanks = 64

export interface SymmetricTensor<D extends StorageDType = StorageDType> {
  readonly kind: 'tensor'
  readonly name: string
  readonly dtype: D
  readonly shape: readonly number[]
}

export interface SymmetricFlags {
  readonly kind: 'flags'
  readonly name: string
  readonly shape: readonly number[]
  readonly arrivals: number
  /** 'host' if the host signals the flags (`World.signal`), and no kernel may. */
  readonly signaller?: 'host'
  /** The members of the group that the flags were allocated on. Absent if it was the whole world. */
  readonly members?: readonly number[]
}

/**
 * The result of `World.pack`: the elements of a tensor in the layout that the target's products read fastest. A kernel
 * accepts it in place of a tensor. The layout is defined by the target. A target without such a layout returns `source`
 * itself.
 */
export interface PackedTensor<D extends StorageDType = StorageDType> {
  readonly kind: 'packed'
  readonly name: string
  readonly dtype: D
  readonly shape: readonly number[]
  /**
   * The tensor that holds the elements. For a target without a special layout it is the original tensor, which `free`
   * then frees.
   */
  readonly source: SymmetricTensor<D>
}

/** One value for all ranks, or a function that returns the value for a rank. */
export type PerRank<T> = T | ((rank: number) => T)

export type LaunchArguments<P extends Params> = {
  readonly [K in keyof P]: P[K] extends TensorParam<infer D, infer _R>
    ? PerRank<SymmetricTensor<D> | PackedTensor<D>>
    : P[K] extends FlagsParam<infer _R>
      ? SymmetricFlags
      : P[K] extends ScalarParam<DType>
        ? PerRank<number>
        : never
}

export interface LaunchOptions<M extends Meta = Meta> {
  /** The number of programs per rank, or 'resident' for as many as can be resident at once. */
  readonly grid: PerRank<number> | 'resident'
  /** Compile-time parameters that differ from the kernel's defaults. */
  readonly meta?: Partial<M>
  /** The stream of the launch. The default is `World.defaultStream`, stream 0. */
  readonly stream?: Stream | number
  /** The ranks that launch. The default is all ranks. */
  readonly ranks?: readonly number[]
  /**
   * A group of the world (`World.group`): the launch is on this group, as with `group.launch`. Ranks in the options,
   * the arguments and the kernel are ranks of the group.
   */
  readonly group?: World
}

export type PrepareOptions<P extends Params, M extends Meta> = Pick<LaunchOptions<M>, 'meta' | 'group'> & {
  readonly args?: LaunchArguments<P>
}

/**
 * One launch of a co-launch set, whose launches may wait for each other. See `World.launchTogether`. Created by
 * `launchOf`.
 */
export interface Launch {
  readonly kernel: Kernel
  readonly args: Readonly<Record<string, unknown>>
  readonly options: LaunchOptions
}

export function launchOf<P extends Params, M extends Meta>(
  kernel: Kernel<P, M>,
  args: LaunchArguments<P>,
  options: LaunchOptions<M>,
): Launch {
  return { kernel: kernel as unknown as Kernel, args, options: options as LaunchOptions }
}

/**
 * A queue of launches on every rank. Launches of one stream run in order. Launches of different streams may run at the
 * same time.
 */
export interface Stream {
  readonly kind: 'stream'
  readonly id: number
  /** Records an event. The event occurs on a rank when all earlier launches of this stream have ended on that rank. */
  record(): StreamEvent
  /** Makes later launches of this stream wait, on every rank, until the event has occurred on that rank. */
  wait(event: StreamEvent): void
  /** Waits until all launches of this stream so far have ended, on all local ranks. */
  synchronize(): Promise<void>
}

export interface StreamEvent {
  readonly kind: 'event'
  /** Waits until the event has occurred on all local ranks. */
  synchronize(): Promise<void>
  /**
   * Milliseconds from another event to this one. Both must have occurred. The time is measured between the last ranks
   * to reach each event, or on one rank if `rank` is given. The checker has no clock and returns 0.
   */
  elapsed(since: StreamEvent, rank?: number): number
}

export interface AllocationOptions {
  /** The name of the allocation in reports. */
  readonly name?: string
}

export interface FlagsOptions extends AllocationOptions {
  /** The signals per epoch; 1 by default. */
  readonly arrivals?: number
  /** 'host' for flags that only the host signals, with `World.signal`. */
  readonly signaller?: 'host'
}

export interface TensorOptions extends AllocationOptions {
  /** The alignment on the heap in bytes: a power of two from 256, the default, to 65536. */
  readonly alignment?: number
}

export interface RandomOptions extends TensorOptions {
  /**
   * The seed. The same seed yields the same elements on every target. By default every call on a world uses a new seed.
   */
  readonly seed?: number
}

/** Allocation on all ranks at once, or on one rank (`World.on`). */
export interface Allocator {
  /** Allocates a tensor whose contents are undefined until they are written. */
  empty<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    options?: TensorOptions,
  ): SymmetricTensor<D>
  full<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    value: number,
    options?: TensorOptions,
  ): SymmetricTensor<D>
  zeros<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    options?: TensorOptions,
  ): SymmetricTensor<D>
  /** Allocates a tensor that holds 0, 1, 2, … in row-major order, rounded to the dtype. */
  arange<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    options?: TensorOptions,
  ): SymmetricTensor<D>
  /** Allocates a tensor of uniform random numbers in [0, 1), different on every rank. */
  rand<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    options?: RandomOptions,
  ): SymmetricTensor<D>
  /** Allocates a tensor of normal random numbers with mean 0 and standard deviation 1, different on every rank. */
  randn<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    options?: RandomOptions,
  ): SymmetricTensor<D>
  /** Allocates a tensor with the given elements per rank, in row-major order, rounded to the dtype. */
  from<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    contents: PerRank<ArrayLike<number>>,
    options?: TensorOptions,
  ): SymmetricTensor<D>
  flags(shape?: readonly number[], options?: FlagsOptions): SymmetricFlags
}

export interface World extends Allocator {
  readonly target: string
  readonly ranks: number
  /** For a group, the ranks of the world that are its ranks 0, 1, and so on. For a world, all its ranks. */
  readonly members: readonly number[]
  /** The ranks in this process. Only their data can be read and written here. */
  readonly localRanks: readonly number[]
  /** A description of the hardware of the ranks. Operations and tuning branch on it. */
  readonly machine: Machine
  /** The resolution of events and recordings in nanoseconds, or 0 if there is no clock. */
  readonly clockTick: number
  /**
   * Some ranks as a world of their own, such as the ranks of one tensor-parallel or data-parallel group. Rank r of the
   * group is `members[r]`. Groups may overlap. Operations and collectives take a group in place of a world. A tensor
   * can be used on any group; a flag set only on the group on which it was allocated.
   */
  group(members: readonly number[]): World
  /**
   * Allocates as one rank. Every rank must make the same allocations in the same order. If not, the next launch throws.
   */
  on(rank: number): Allocator
  /** Frees an allocation on every rank. Freed memory is reused once the launches so far have ended. */
  free(allocation: SymmetricTensor | SymmetricFlags | PackedTensor): void
  launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void
  /**
   * Launches a co-launch set, whose launches may wait for each other. Either all are enqueued, on all ranks, or none.
   * Each needs its own stream or ranks.
   */
  launchTogether(launches: readonly Launch[]): void
  /**
   * Compiles a kernel in advance, so that the first launch does not have to. On a GPU the code also depends on the
   * shapes of `args`.
   */
  prepare<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    options?: PrepareOptions<P, M>,
  ): Promise<void>
  /**
   * Compiles the kernels that `launches` would launch, and launches nothing. The event loop keeps running meanwhile,
   * unlike during a launch that has to compile first. Absent on targets that compile quickly.
   */
  compile?(launches: () => void): Promise<void>
  /** The stream of launches that name none, with id 0. */
  readonly defaultStream: Stream
  /** Creates a new stream. */
  stream(): Stream
  /** Waits until all launches so far have ended, on all local ranks. */
  synchronize(): Promise<void>
  /** Waits for all launches so far and returns the elements of a rank's copy. */
  read(tensor: SymmetricTensor, rank: number): Promise<Float64Array>
  /**
   * Reads a rank's copy without waiting for launches. Up to four elements of four bytes are acquire loads, so that the
   * host may poll a word that a kernel stores with release order. Longer reads are weak: a launch that writes the
   * elements at the same time is a race.
   */
  peek(tensor: SymmetricTensor, rank: number): Promise<Float64Array>
  /**
   * Signals a flag of a rank whose set was allocated with `signaller: 'host'`. It releases what the host has written
   * so far, at system scope. The n-th signal of a flag with one arrival ends the wait of the n-th launch that waits.
   */
  signal(flags: SymmetricFlags, rank: number, at?: readonly number[]): void
  /** Overwrites a rank's copy. The write is not ordered with launches that may still be running. */
  write(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void
  /**
   * Waits for all launches so far, then copies a tensor, on every rank or from one rank to another. Dtype and number of
   * elements must match.
   */
  copy(
    from: SymmetricTensor,
    to: SymmetricTensor,
    ranks?: { readonly from: number; readonly to: number },
  ): Promise<void>
  /** Waits for all launches so far, then overwrites every rank's copy with the copy of the root. */
  broadcast(tensor: SymmetricTensor, root: number): Promise<void>
  /**
   * Waits for all launches so far, then converts the tensor on every rank into the layout that the target's products
   * read fastest.
   */
  pack<D extends StorageDType>(tensor: SymmetricTensor<D>): Promise<PackedTensor<D>>
  /** Waits until all ranks have finished all earlier launches. Later work is ordered after all earlier work. */
  barrier(): Promise<void>
  /**
   * Makes the world usable after a stop. No launch is pending, and flags and epochs are zero on all ranks. Tensors keep
   * their contents, except that flag-in-data words become zero.
   */
  reset(): Promise<void>
  /** The timeline recorded so far, if the world was opened with `record`. Does not wait for launches. */
  timeline(): Timeline
  /**
   * For a world that records: the differences, besides the log, between the launched kernels and the kernels launched
   * without recording.
   */
  readonly recordedUnlike: readonly string[]
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** An error in the use of a world. The message says what was wrong and what to do, after the author's line if it is given. */
export class WorldError extends Error {
  constructor(message: string, site?: Site) {
    super(site?.position ? `${site}: ${message}` : message)
    this.name = 'WorldError'
  }
}

/** An error in the call that the author is making now. */
export const misuse = (message: string): WorldError => new WorldError(message, Site.here())

/** Checks the number of ranks of a world. */
export function expectRanks(ranks: number): void {
  if (!Number.isInteger(ranks) || ranks < 1 || ranks > mostRanks)
    throw misuse(`a world of ${ranks} ranks: it must have 1 to ${mostRanks}`)
}

/** Checks the number of programs that can be resident on a rank of the checker. */
export function expectResidency(residency: number | undefined): void {
  if (residency !== undefined && !(Number.isInteger(residency) && residency >= 1))
    throw misuse(`a residency of ${residency} programs: it must be a whole number, 1 or more`)
}

/** The state of a worker when its world was stopped. */
export interface StoppedWorker {
  /** The rank in the world. */
  readonly rank: number
  /** The members of the group on which the kernel was launched. Absent if it was the whole world. */
  readonly members?: readonly number[]
  readonly stream: number
  readonly kernel: string
  readonly program: number
  /** The source line in the kernel, if known. */
  readonly site: string | undefined
  /** A description of what the worker was doing at that line. */
  readonly what: string
  /** The flag that the worker was waiting for, if any. */
  readonly flag?: {
    readonly name: string
    readonly rank: number
    readonly value: number
    readonly wanted: number
  }
}

/**
 * Thrown after the ranks were stopped by the watchdog, a fault, a dead worker or an interrupt. `World.reset` makes the
 * world usable again.
 */
export class WorldStopped extends WorldError {
  readonly reason: string
  readonly workers: readonly StoppedWorker[]
  /** Of each flag set that a worker waited for: who could have signalled it. */
  readonly signals: readonly FlagSignals[]
  constructor(reason: string, workers: readonly StoppedWorker[] = [], signals: readonly FlagSignals[] = []) {
    const lines = workers.map(
      ({ rank, members, stream, kernel, program, site, what }) =>
        `  ${site ?? '(unknown line)'}  ${rankName(rank, members)}${stream === 0 ? '' : `, stream ${stream}`}, program ${program} of ${kernel} ${what}`,
    )
    const signalled = signals.flatMap(signalLines).map((line) => `  ${line}`)
    super([`the world has stopped: ${reason}`, ...lines, ...signalled].join('\n'))
    this.name = 'WorldStopped'
    this.reason = reason
    this.workers = workers
    this.signals = signals
  }
}

/**
 * A host program that uses kernels. The checker explores scenarios, `arke check` runs them, and they document how a
 * kernel is meant to be used. A scenario should read results back and compare them with a reference.
 */
export interface Scenario {
  readonly kind: 'scenario'
  readonly name: string
  /** The world sizes at which the scenario runs. */
  readonly ranks: readonly number[]
  /** The number of programs that can be resident on a rank at once. Undefined means no limit. */
  readonly residency: number | undefined
  /** The source line at which the scenario was created. */
  readonly site?: Site
  readonly run: (world: World) => Promise<unknown>
}

export interface ScenarioOptions {
  /** One or more world sizes, 2 by default. */
  readonly ranks?: number | readonly number[]
  readonly residency?: number
}

export function scenario(
  name: string,
  options: ScenarioOptions,
  run: (world: World) => Promise<unknown>,
): Scenario {
  const { ranks: given = 2, residency } = options
  const ranks = typeof given === 'number' ? [given] : given
  if (ranks.length === 0) throw misuse(`the scenario ${name} has no number of ranks: give at least one`)
  ranks.forEach(expectRanks)
  expectResidency(residency)
  return {
    kind: 'scenario',
    name,
    ranks,
    residency,
    site: Site.here(),
    run,
  }
}

export interface Tolerance {
  /** The absolute part, in the unit of the elements; 0 by default. */
  readonly atol?: number
  /** The relative part, as a fraction of the expected element; 0 by default. */
  readonly rtol?: number
}

/**
 * Throws unless every element is within `atol` + `rtol` x |expected| of the expected one. Without tolerances the arrays must be equal.
 * Infinities must be equal, and NaN equals nothing.
 */
export function expectClose(
  actual: ArrayLike<number>,
  expected: ArrayLike<number>,
  { atol = 0, rtol = 0 }: Tolerance = {},
): void {
  if (actual.length !== expected.length)
    throw new Error(`${actual.length} elements where ${expected.length} are expected`)
  const isClose = (x: number, y: number): boolean =>
    x === y || (Number.isFinite(y) && Math.abs(x - y) <= atol + rtol * Math.abs(y))
  for (let i = 0; i < actual.length; i++)
    if (!isClose(actual[i], expected[i]))
      throw new Error(
        `element ${i} is ${actual[i]}, expected ${expected[i]}${atol || rtol ? ` (atol ${atol}, rtol ${rtol})` : ''}`,
      )
}
