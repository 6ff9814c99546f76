/**
 * The host's side: a world of ranks with a symmetric heap. One program allocates, launches and reads back; every target
 * offers the same interface, and nothing in it assumes that all ranks live in this process.
 *
 * An allocation exists on every rank at the same place in its heap. A launch orders nothing between ranks: on one rank,
 * launches of a stream follow each other; between ranks only flags, or `barrier`, order anything.
 */
import type { DType, StorageDType } from '../ir/dtype.ts'
import type { FlagsParam, Kernel, Meta, Params, ScalarParam, TensorParam } from '../lang/kernel.ts'

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

/** One value for all ranks, or one a rank. */
export type PerRank<T> = T | ((rank: number) => T)

export type LaunchArguments<P extends Params> = {
  readonly [K in keyof P]: P[K] extends TensorParam<infer D, infer _R>
    ? PerRank<SymmetricTensor<D>>
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
  readonly stream?: number
  /** The ranks that launch; all by default. */
  readonly ranks?: readonly number[]
}

export interface AllocationOptions {
  /** What reports call it. */
  readonly name?: string
}

/** Allocation and host access, for all ranks at once or (`World.on`) for one. */
export interface Allocator {
  /** Holds nothing until somebody writes it. */
  empty<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    options?: AllocationOptions,
  ): SymmetricTensor<D>
  full<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    value: number,
    options?: AllocationOptions,
  ): SymmetricTensor<D>
  zeros<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    options?: AllocationOptions,
  ): SymmetricTensor<D>
  /** `contents` gives each rank's elements in row-major order; they are rounded to the dtype. */
  from<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    contents: PerRank<ArrayLike<number>>,
    options?: AllocationOptions,
  ): SymmetricTensor<D>
  flags(
    shape?: readonly number[],
    options?: AllocationOptions & { readonly arrivals?: number },
  ): SymmetricFlags
}

export interface World extends Allocator {
  readonly target: string
  readonly ranks: number
  /** Allocate as one rank. Every rank must allocate the same, in the same order; it is an error at the next launch if not. */
  on(rank: number): Allocator
  launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void
  /** All launches so far have ended, on all ranks. */
  synchronize(): Promise<void>
  /** What a rank holds; implies `synchronize`. */
  read(tensor: SymmetricTensor, rank: number): Promise<Float64Array>
  /** Overwrite a rank's copy; not ordered with launches that may still run. */
  write(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void
  /** All ranks have done all that was launched before; orders everything after it. */
  barrier(): Promise<void>
  close(): Promise<void>
}

/** A mistake in how the world is used: what was wrong and what to do. */
export class WorldError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'WorldError'
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
    run,
  }
}

/** Throws if two arrays differ by more than `tolerance` anywhere; NaN equals nothing. */
export function expectClose(actual: ArrayLike<number>, expected: ArrayLike<number>, tolerance = 0): void {
  if (actual.length !== expected.length)
    throw new Error(`${actual.length} elements where ${expected.length} are expected`)
  for (let i = 0; i < actual.length; i++)
    if (!(Math.abs(actual[i] - expected[i]) <= tolerance))
      throw new Error(
        `element ${i} is ${actual[i]}, expected ${expected[i]}${tolerance ? ` (tolerance ${tolerance})` : ''}`,
      )
}
