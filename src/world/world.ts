/**
 * The host API of Arke: a world of ranks with a symmetric heap. A host program allocates tensors, launches kernels and
 * reads results back. Every target implements the same `World` interface. The `World` interface does not assume that
 * all ranks are in this process. Methods that access the data of a rank take the rank as an argument, and throw if it
 * is not among `localRanks`.
 *
 * An allocation on a world exists on every rank, at the same offset in the rank's heap. On one rank, launches of a
 * stream run in order. A launch orders nothing between ranks: only flags and `barrier` do.
 */
import type { DType, StorageDType } from '../ir/dtype.ts'
import { Site } from '../ir/site.ts'
import type { FlagsParam, Kernel, Meta, Params, ScalarParam, TensorParam } from '../lang/kernel.ts'
import type { Timeline } from '../timeline/timeline.ts'
import type { Machine } from './machine.ts'
import { rankName } from './members.ts'
import { signalLines, type FlagSignals } from './signallers.ts'

/** The maximum number of ranks of a world. */
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
  /** 'host' if the host signals the flags (`World.signal`); no kernel may then signal them. */
  readonly signaller?: 'host'
  /**
   * The members of the group on which the flags were allocated. The list is absent if the flags were allocated on the
   * whole world.
   */
  readonly members?: readonly number[]
}

/**
 * The result of `World.pack`: the elements of a tensor in the layout that the target's matrix products read fastest. A
 * kernel accepts a packed tensor in place of a tensor. The target defines the layout of packed tensors. On a target
 * without a special layout for matrix products, `World.pack` returns `source` itself.
 */
export interface PackedTensor<D extends StorageDType = StorageDType> {
  readonly kind: 'packed'
  readonly name: string
  readonly dtype: D
  readonly shape: readonly number[]
  /**
   * The tensor that holds the packed elements. On a target without a special layout for matrix products, `World.pack`
   * returns the original tensor, which `free` then frees.
   */
  readonly source: SymmetricTensor<D>
}

/** A launch argument: one value for all ranks, or a function that returns the value for a rank. */
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
  /** The number of programs per rank, or 'resident' for the maximum number that can be resident at the same time. */
  readonly grid: PerRank<number> | 'resident'
  /** Meta-parameters (compile-time parameters) that differ from the kernel's defaults. */
  readonly meta?: Partial<M>
  /** The stream of the launch. The default stream is `World.defaultStream`, stream 0. */
  readonly stream?: Stream | number
  /** The ranks that launch the kernel. By default, all ranks launch the kernel. */
  readonly ranks?: readonly number[]
  /**
   * A group of the world (`World.group`) on which the kernel is launched, as with `group.launch`. In a launch on a
   * group, ranks in the options, the arguments and the kernel are ranks of the group.
   */
  readonly group?: World
}

export type PrepareOptions<P extends Params, M extends Meta> = Pick<LaunchOptions<M>, 'meta' | 'group'> & {
  readonly args?: LaunchArguments<P>
}

/**
 * One launch of a co-launch set, whose launches may wait for each other. The method `World.launchTogether` enqueues the
 * launches of a co-launch set. The function `launchOf` creates a launch of a co-launch set.
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
 * A queue of launches on every rank. Launches of one stream run in order. Launches of different streams may run
 * concurrently.
 */
export interface Stream {
  readonly kind: 'stream'
  readonly id: number
  /**
   * Records an event in the stream. The event occurs on a rank when all earlier launches of this stream have ended on
   * that rank.
   */
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
   * The time in milliseconds from another event to this event. The time between two events is defined only if both have
   * occurred. The time of an event is the time at which it occurred on the last rank, or on rank `rank` if `rank` is
   * given. The checker has no clock and returns 0.
   */
  elapsed(since: StreamEvent, rank?: number): number
}

export interface AllocationOptions {
  /** The name of the tensor or flag set in reports and error messages. */
  readonly name?: string
}

export interface FlagsOptions extends AllocationOptions {
  /** The number of signals that complete an epoch of the flag; 1 by default. */
  readonly arrivals?: number
  /** 'host' for flags that only the host signals, with the method `World.signal`. */
  readonly signaller?: 'host'
}

export interface TensorOptions extends AllocationOptions {
  /** The alignment of the allocation on the heap in bytes: a power of two from 256 (the default) to 65536. */
  readonly alignment?: number
}

export interface RandomOptions extends TensorOptions {
  /**
   * The seed of the random contents. The same seed yields the same elements on every target. By default, every call on
   * a world uses a new seed.
   */
  readonly seed?: number
}

/** The methods that allocate on all ranks at once, or on one rank (`World.on`). */
export interface Allocator {
  /** Allocates a tensor whose contents are undefined until a kernel or the host writes them. */
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
  /** Allocates a tensor with the given elements on each rank, in row-major order, rounded to the dtype. */
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
  /**
   * The ranks of the world that are the group's ranks 0, 1, and so on. For a whole world, the list of members contains
   * all its ranks.
   */
  readonly members: readonly number[]
  /**
   * The ranks whose memory is in this process. Only the data of local ranks can be read and written by this process.
   */
  readonly localRanks: readonly number[]
  /** A description of the hardware of the ranks. Operations and tuning branch on the machine record. */
  readonly machine: Machine
  /** The time resolution of events and recordings in nanoseconds, or 0 if there is no clock. */
  readonly clockTick: number
  /**
   * Returns a rank group: some ranks of this world as a world of their own, such as the ranks of one tensor-parallel or
   * data-parallel group. Rank r of the group is rank `members[r]` of this world. Rank groups may overlap. Operations
   * and collectives take a group in place of a world. A tensor can be used on any group; a flag set only on the group
   * on which it was allocated.
   */
  group(members: readonly number[]): World
  /**
   * Returns an allocator that allocates in the name of one rank. Every rank must make the same allocations in the same
   * order. If the allocations of two ranks differ, the next launch throws an error.
   */
  on(rank: number): Allocator
  /**
   * Frees an allocation on every rank. Freed memory is reused once all launches enqueued before the call have ended.
   */
  free(allocation: SymmetricTensor | SymmetricFlags | PackedTensor): void
  launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void
  /**
   * Launches a co-launch set, whose launches may wait for each other. A co-launch set is enqueued as a whole: either
   * all its launches are enqueued, on all ranks, or none. Each launch of a co-launch set needs its own stream or its
   * own ranks.
   */
  launchTogether(launches: readonly Launch[]): void
  /**
   * Compiles a kernel in advance, so that the first launch does not have to. On a GPU, the compiled code also depends
   * on the shapes of `args`.
   */
  prepare<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    options?: PrepareOptions<P, M>,
  ): Promise<void>
  /**
   * Compiles the kernels that `launches` would launch, and launches nothing. The event loop keeps running while the
   * kernels are compiled, unlike during a launch that has to compile first. The method `compile` is absent on targets
   * that compile quickly.
   */
  compile?(launches: () => void): Promise<void>
  /** The stream of launches that name no stream; its number is 0. */
  readonly defaultStream: Stream
  /** Creates a new stream on all ranks. */
  stream(): Stream
  /** Waits until all launches enqueued so far have ended, on all local ranks. */
  synchronize(): Promise<void>
  /** Waits for all launches enqueued so far and returns the elements of a rank's copy of a tensor. */
  read(tensor: SymmetricTensor, rank: number): Promise<Float64Array>
  /**
   * Reads a rank's copy of a tensor without waiting for launches. Up to four elements of four bytes are read by acquire
   * loads, so that the host may poll a word that a kernel stores with release order. A read of more elements is weak: a
   * launch that writes the elements at the same time causes a race.
   */
  peek(tensor: SymmetricTensor, rank: number): Promise<Float64Array>
  /**
   * Signals a flag of a rank whose set was allocated with `signaller: 'host'`. The signal releases everything that the
   * host has written so far, at system scope. The n-th host signal of a flag with one arrival ends the wait of the n-th
   * launch that waits for it.
   */
  signal(flags: SymmetricFlags, rank: number, at?: readonly number[]): void
  /**
   * Overwrites the elements of a rank's copy of a tensor. A `write` is not ordered with launches that may still be
   * running.
   */
  write(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void
  /**
   * Waits for all launches enqueued so far, then copies a tensor, on every rank or from one rank to another. The dtype
   * and the number of elements of both tensors must match.
   */
  copy(
    from: SymmetricTensor,
    to: SymmetricTensor,
    ranks?: { readonly from: number; readonly to: number },
  ): Promise<void>
  /** Waits for all launches enqueued so far, then overwrites every rank's copy with the copy of the root rank. */
  broadcast(tensor: SymmetricTensor, root: number): Promise<void>
  /**
   * Waits for all launches enqueued so far, then converts the tensor on every rank into the layout that the target's
   * matrix products read fastest.
   */
  pack<D extends StorageDType>(tensor: SymmetricTensor<D>): Promise<PackedTensor<D>>
  /**
   * Waits until all ranks have finished all earlier launches. All work after the barrier is ordered after all work
   * before the barrier.
   */
  barrier(): Promise<void>
  /**
   * Makes the world usable after a stop. After a reset, no launch is pending, and flags and epochs are zero on all
   * ranks. A reset keeps the contents of tensors, except that flag-in-data words become zero.
   */
  reset(): Promise<void>
  /**
   * The events recorded so far, if the world was opened with `record`. Reading the timeline does not wait for launches.
   */
  timeline(): Timeline
  /**
   * The differences between the kernels of a world that records events and those of a world that does not, apart from
   * the code that writes the log.
   */
  readonly recordedUnlike: readonly string[]
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * An error in the use of a world. The message says what was wrong and what to do, after the author's source line if it
 * is known.
 */
export class WorldError extends Error {
  constructor(message: string, site?: Site) {
    super(site?.position ? `${site}: ${message}` : message)
    this.name = 'WorldError'
  }
}

/** Throws an error about the call that the author's program is making now. */
export const misuse = (message: string): WorldError => new WorldError(message, Site.here())

/** Checks the number of ranks of a world. */
export function expectRanks(ranks: number): void {
  if (!Number.isInteger(ranks) || ranks < 1 || ranks > mostRanks)
    throw misuse(`a world of ${ranks} ranks: it must have 1 to ${mostRanks}`)
}

/** Checks the number of programs that the checker lets be resident on a rank. */
export function expectResidency(residency: number | undefined): void {
  if (residency !== undefined && !(Number.isInteger(residency) && residency >= 1))
    throw misuse(`a residency of ${residency} programs: it must be a whole number, 1 or more`)
}

/** The state of a worker thread when its world was stopped. */
export interface StoppedWorker {
  /** The rank of the worker in the world. */
  readonly rank: number
  /**
   * The members of the group on which the kernel was launched. The list is absent if the kernel was launched on the
   * whole world.
   */
  readonly members?: readonly number[]
  readonly stream: number
  readonly kernel: string
  readonly program: number
  /** The source line in the kernel at which the worker was, if known. */
  readonly site: string | undefined
  /** A description of what the worker was doing at that source line. */
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
 * The error that is thrown after the watchdog, a fault, a dead worker or an interrupt has stopped the ranks. After a
 * `WorldStopped`, `World.reset` makes the world usable again.
 */
export class WorldStopped extends WorldError {
  readonly reason: string
  readonly workers: readonly StoppedWorker[]
  /** The launches that could have signalled each flag set for which a worker waited. */
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
 * A host program that uses kernels. The checker explores scenarios, and scenarios document how a kernel is meant to be
 * used. A scenario should read results back and compare them with a reference.
 */
export interface Scenario {
  readonly kind: 'scenario'
  readonly name: string
  /** The numbers of ranks with which the scenario runs. */
  readonly ranks: readonly number[]
  /**
   * The number of programs that can be resident on a rank at the same time. If the residency is undefined, there is no
   * limit.
   */
  readonly residency: number | undefined
  /** The source line at which the scenario was created. */
  readonly site?: Site
  /** For each tunable number, by name: the values among which `arke tune` chooses, the default first. */
  readonly tune?: Tunable
  /**
   * Runs the host program with the chosen value of each tunable number; by default with the first value of each list.
   */
  readonly run: (world: World, chosen?: Chosen) => Promise<unknown>
}

/** For each tunable number, by name: the values among which `arke tune` chooses. */
export type Tunable = Readonly<Record<string, readonly number[]>>
export type Chosen = Readonly<Record<string, number>>

export interface ScenarioOptions<T extends Tunable = Tunable> {
  /** One or more numbers of ranks with which the scenario runs; 2 by default. */
  readonly ranks?: number | readonly number[]
  readonly residency?: number
  /**
   * The values among which `arke tune` chooses, such as `{ BLOCK: [64, 128, 256] }`. The first value of each list is
   * the default. The function `run` gets one value of each list, and can pass the value to its launches as a
   * meta-parameter.
   */
  readonly tune?: T
}

export function scenario<const T extends Tunable = Readonly<Record<never, never>>>(
  name: string,
  options: ScenarioOptions<T>,
  run: (world: World, chosen: { readonly [Name in keyof T]: number }) => Promise<unknown>,
): Scenario {
  const { ranks: given = 2, residency, tune } = options
  const ranks = typeof given === 'number' ? [given] : given
  if (ranks.length === 0)
    throw misuse(`the scenario ${name} has an empty list of world sizes: give at least one number of ranks`)
  ranks.forEach(expectRanks)
  expectResidency(residency)
  if (tune) expectTunable(name, tune)
  const usual = Object.fromEntries(Object.entries(tune ?? {}).map(([one, [first]]) => [one, first]))
  return {
    kind: 'scenario',
    name,
    ranks,
    residency,
    site: Site.here(),
    ...(tune && { tune }),
    run: (world, chosen) => run(world, { ...usual, ...chosen } as { [Name in keyof T]: number }),
  }
}

function expectTunable(scenario: string, tune: Tunable): void {
  const wrong = (why: string): Error =>
    misuse(`the scenario ${scenario}: tune ${why}; write it as { BLOCK: [64, 128, 256] }`)
  if (typeof tune !== 'object' || Object.keys(tune).length === 0) throw wrong('names nothing')
  for (const [name, numbers] of Object.entries(tune)) {
    if (!Array.isArray(numbers) || numbers.length === 0) throw wrong(`has no list of numbers for ${name}`)
    const strange = numbers.find((one) => typeof one !== 'number' || !Number.isFinite(one))
    if (strange !== undefined)
      throw wrong(`has ${JSON.stringify(strange)} for ${name}, which is not a number`)
    if (new Set(numbers).size < numbers.length) throw wrong(`has a number twice for ${name}`)
  }
}

export interface Tolerance {
  /** The absolute tolerance of the comparison, in the unit of the elements; 0 by default. */
  readonly atol?: number
  /** The relative tolerance of the comparison, as a fraction of the expected element; 0 by default. */
  readonly rtol?: number
}

/**
 * Throws an error unless every element is within `atol` + `rtol` x |expected| of the expected element. If the
 * tolerances are absent, the arrays must be equal. Infinities must match exactly, and NaN is equal to nothing.
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
