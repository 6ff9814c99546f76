/**
 * The host's side: a world of ranks with a symmetric heap. One program allocates, launches and reads back; every target
 * offers the same interface, and nothing in it assumes that all ranks live in this process: data of a rank is reached through
 * methods that take the rank, and asking for one that is not among `localRanks` is an error.
 *
 * An allocation exists on every rank at the same place in its heap. A launch orders nothing between ranks: on one rank,
 * launches of a stream follow each other; between ranks only flags, or `barrier`, order anything.
 */
import type { DType, StorageDType } from '../ir/dtype.ts'
import { Site } from '../ir/site.ts'
import type { FlagsParam, Kernel, Meta, Params, ScalarParam, TensorParam } from '../lang/kernel.ts'
import type { Timeline } from '../timeline/timeline.ts'
import type { Machine } from './machine.ts'
import { signalLines, type FlagSignals } from './signallers.ts'

/** In a world. */
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
}

/**
 * What `World.pack` makes of a tensor: the same elements in the order in which the target's products read them. How they lie is
 * the target's; a kernel takes it where it takes a tensor. A target without such an order passes `source` itself.
 */
export interface PackedTensor<D extends StorageDType = StorageDType> {
  readonly kind: 'packed'
  readonly name: string
  readonly dtype: D
  readonly shape: readonly number[]
  /** What holds its elements: of a target that has no such order, the tensor itself, which `free` then frees. */
  readonly source: SymmetricTensor<D>
}

/** One value for all ranks, or one a rank. */
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
  /** Programs on each rank, or as many as can run at once. */
  readonly grid: PerRank<number> | 'resident'
  /** Compile-time parameters that differ from the kernel's defaults. */
  readonly meta?: Partial<M>
  /** The one with number 0 by default. */
  readonly stream?: Stream | number
  /** The ranks that launch; all by default. */
  readonly ranks?: readonly number[]
}

/** One of several launches that may wait for each other: see `World.launchTogether`. Made by `launchOf`. */
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

/** A queue of launches on every rank. Launches of one follow each other; those of two may run at once. */
export interface Stream {
  readonly kind: 'stream'
  readonly id: number
  /** An event that has happened on a rank when all that was launched here before has ended there. */
  record(): StreamEvent
  /** On every rank, what is launched here from now on starts after the event has happened on that rank. */
  wait(event: StreamEvent): void
  /** All launches of this stream so far have ended, on all local ranks. */
  synchronize(): Promise<void>
}

export interface StreamEvent {
  readonly kind: 'event'
  /** It has happened on all local ranks. */
  synchronize(): Promise<void>
  /**
   * Milliseconds from another event to this one, both of which have happened: from the last rank's end to the last rank's
   * end, or on one rank alone. The checker has no clock: 0.
   */
  elapsed(since: StreamEvent, rank?: number): number
}

export interface AllocationOptions {
  /** What reports call it. */
  readonly name?: string
}

export interface TensorOptions extends AllocationOptions {
  /** Where it begins on the heap: a power of two from 64 bytes, the default, to 64 KiB. */
  readonly alignment?: number
}

export interface RandomOptions extends TensorOptions {
  /** The same seed gives the same elements, on every target; without one, every call on a world has its own. */
  readonly seed?: number
}

/** Allocation and host access, for all ranks at once or (`World.on`) for one. */
export interface Allocator {
  /** Holds nothing until somebody writes it. */
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
  /** 0, 1, 2, … in row-major order, rounded to the dtype. */
  arange<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    options?: TensorOptions,
  ): SymmetricTensor<D>
  /** Uniform from 0 to 1, different on every rank. */
  rand<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    options?: RandomOptions,
  ): SymmetricTensor<D>
  /** Normal with mean 0 and deviation 1, different on every rank. */
  randn<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    options?: RandomOptions,
  ): SymmetricTensor<D>
  /** `contents` gives each rank's elements in row-major order; they are rounded to the dtype. */
  from<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    contents: PerRank<ArrayLike<number>>,
    options?: TensorOptions,
  ): SymmetricTensor<D>
  flags(
    shape?: readonly number[],
    options?: AllocationOptions & { readonly arrivals?: number },
  ): SymmetricFlags
}

export interface World extends Allocator {
  readonly target: string
  readonly ranks: number
  /** The ranks that live in this process: those that can be read and written. */
  readonly localRanks: readonly number[]
  /** What its ranks run on, as data: what operations and tuning branch on. */
  readonly machine: Machine
  /** The shortest time that events and recordings can tell from none, in nanoseconds; 0 where there is no clock. */
  readonly clockTick: number
  /** Allocate as one rank. Every rank must allocate the same, in the same order; it is an error at the next launch if not. */
  on(rank: number): Allocator
  /** Give memory back, on every rank. It is used again once the launches so far have ended. */
  free(allocation: SymmetricTensor | SymmetricFlags | PackedTensor): void
  launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void
  /** Launches that may wait for each other: all are enqueued, on all ranks, or none is. Each has its own stream or ranks. */
  launchTogether(launches: readonly Launch[]): void
  /** Compile ahead, so that the first launch does not. What a GPU runs depends on the shapes of `args` too. */
  prepare<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    options?: Pick<LaunchOptions<M>, 'meta'> & { readonly args?: LaunchArguments<P> },
  ): Promise<void>
  /**
   * Compile what the launches that `launches` makes need, and launch nothing. The event loop goes on meanwhile, which a launch that
   * has to compile first does not allow. Not there on targets that compile quickly.
   */
  compile?(launches: () => void): Promise<void>
  /** A new stream. */
  stream(): Stream
  /** All launches so far have ended, on all local ranks. */
  synchronize(): Promise<void>
  /** What a rank holds; implies `synchronize`. */
  read(tensor: SymmetricTensor, rank: number): Promise<Float64Array>
  /** Overwrite a rank's copy; not ordered with launches that may still run. */
  write(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void
  /** On every rank, or from one rank to another, when the launches so far have ended. The same dtype and number of elements. */
  copy(
    from: SymmetricTensor,
    to: SymmetricTensor,
    ranks?: { readonly from: number; readonly to: number },
  ): Promise<void>
  /** Every rank's copy becomes the root's, when the launches so far have ended. */
  broadcast(tensor: SymmetricTensor, root: number): Promise<void>
  /** The tensor in the target's order for products, on every rank, when the launches so far have ended. */
  pack<D extends StorageDType>(tensor: SymmetricTensor<D>): Promise<PackedTensor<D>>
  /** All ranks have done all that was launched before; orders everything after it. */
  barrier(): Promise<void>
  /** After a stop: nothing is launched, flags and epochs are zero on all ranks; tensors hold what they held, but for words that carry flags. */
  reset(): Promise<void>
  /** What was recorded since the world was opened with `record`; waits for nothing. */
  timeline(): Timeline
  /** Of a world that records: how kernels that it has launched differ from those that it launches otherwise, besides their log. */
  readonly recordedUnlike: readonly string[]
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** A mistake in how the world is used: what was wrong and what to do. */
export class WorldError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'WorldError'
  }
}

/** A worker, by what it was doing when its world stopped. */
export interface StoppedWorker {
  readonly rank: number
  readonly stream: number
  readonly kernel: string
  readonly program: number
  /** The author's line, where it is known. */
  readonly site: string | undefined
  /** What it was doing there, in words. */
  readonly what: string
  /** Of a wait for a flag. */
  readonly flag?: {
    readonly name: string
    readonly rank: number
    readonly value: number
    readonly wanted: number
  }
}

/** The ranks were stopped: by the watchdog, a fault, a worker that died, an interrupt. `World.reset` makes it usable again. */
export class WorldStopped extends WorldError {
  readonly reason: string
  readonly workers: readonly StoppedWorker[]
  /** Of each flag set that a worker waited for: who could have signalled it. */
  readonly signals: readonly FlagSignals[]
  constructor(reason: string, workers: readonly StoppedWorker[] = [], signals: readonly FlagSignals[] = []) {
    const lines = workers.map(
      ({ rank, stream, kernel, program, site, what }) =>
        `  ${site ?? '(unknown line)'}  rank ${rank}${stream === 0 ? '' : `, stream ${stream}`}, program ${program} of ${kernel} ${what}`,
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
 * A host program that uses kernels: the unit that the checker explores, that `arke check` runs and that documents how a
 * kernel is meant to be used. It should read results back and compare them with a reference.
 */
export interface Scenario {
  readonly kind: 'scenario'
  readonly name: string
  /** The world sizes it is meant for. */
  readonly ranks: readonly number[]
  /** How many programs can run at once on a rank; undefined is no limit. */
  readonly residency: number | undefined
  /** Where it was made. */
  readonly site?: Site
  readonly run: (world: World) => Promise<unknown>
}

export interface ScenarioOptions {
  readonly ranks?: number | readonly number[]
  readonly residency?: number
}

export function scenario(
  name: string,
  options: ScenarioOptions,
  run: (world: World) => Promise<unknown>,
): Scenario {
  const ranks = options.ranks ?? 2
  return {
    kind: 'scenario',
    name,
    ranks: typeof ranks === 'number' ? [ranks] : ranks,
    residency: options.residency,
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
