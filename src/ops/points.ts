/**
 * Where an operation is looked at: plain data beside its kernels, so that tests and benchmarks enumerate operations and know none of them
 * by name.
 */
import type { Numbers } from '../tune/tables.ts'
import type { Machine } from '../world/machine.ts'
import type { OperandDType, OperationOptions } from './operation.ts'

/** What may decide which kernels there are. */
export interface Setting<Options extends OperationOptions = OperationOptions> {
  readonly machine: Machine
  readonly ranks: number
  readonly dtype: OperandDType
  readonly shape: Options['shape']
}

/** Everything but what a setting says. */
export type Form<Options extends OperationOptions = OperationOptions> = Omit<
  Options,
  'shape' | 'dtype' | 'tiles' | 'stream'
>

export interface CpuPoint<Options extends OperationOptions = OperationOptions> {
  readonly name: string
  readonly options: Omit<Options, 'dtype' | 'variant' | 'tiles' | 'stream'>
  /** With one of so many ranks late: what the others can do before they need anything of it. */
  without(ranks: number): Without
}

/**
 * A share of their execution, since they need something that the late rank holds. Or its work, too, which they can do in its place once
 * its inputs are there.
 */
export type Without = { readonly share: number } | 'its work'

/** Powers of a number, both ends included. */
export const powers = (from: number, to: number, by: number): number[] =>
  from > to ? [] : [from, ...powers(from * by, to, by)]

/** A point on a GPU. Its other fields say how inputs are laid out: `shard`. */
export interface GpuCell<Options extends OperationOptions = OperationOptions> {
  /** Unique among those of the operation: results are kept by it. */
  readonly key: string
  readonly ranks: number
  readonly dtype: 'bf16' | 'f16'
  readonly shape: Options['shape']
  readonly shard?: 'K' | 'M'
}

export interface GpuPoints<Options extends OperationOptions = OperationOptions> {
  /** The section of results that it is, and how keys begin. */
  readonly section: string
  /** Of its table. */
  readonly heading: string
  /** What the step that no variant undercuts (`OperationDefinition.limit`) is called where it is measured alone. */
  readonly alone: string
  /** What times are compared with: that step, or the least work over what the device can do. */
  readonly floor: 'alone' | 'least work'
  /** Variants whose tiles are tuned for the table that is shipped. */
  readonly tuned: readonly Options['variant'][]
  cells(quick: boolean, shard: 'K' | 'M'): readonly GpuCell<Options>[]
  /** The same work on more ranks. */
  scaling(ranks: number): readonly GpuCell<Options>[]
  /** Of all ranks together, at least: bytes of memory and operations. */
  work(cell: Omit<GpuCell<Options>, 'key'>): { readonly bytes: number; readonly flops: number }
  /** Bytes that cross to a rank at least. */
  remoteBytes(cell: Omit<GpuCell<Options>, 'key'>): number
  /** What is aimed at: to recover what bulk synchronous execution costs, to be no slower than it, or to be near the step alone. */
  goal(shape: Options['shape']): 'recover' | 'no slower' | 'near alone'
}

export interface Points<Options extends OperationOptions = OperationOptions, Contents = never> {
  /** Options that choose among its kernels, by name: each of its kernels is launched with some of them. */
  forms(setting: Setting<Options>): Readonly<Record<string, Form<Options>>>
  /** Shapes of real work, by name. All forms are looked at at the first one, and some at the others. */
  readonly usual: Readonly<Record<string, Options['shape']>>
  /** Ways to cut the work, around the default, by name; the first is the usual one and has none. */
  cuts?(tiles: Numbers, machine: Machine): Readonly<Record<string, Numbers>>
  /** Small shapes in which nothing is a multiple of anything, with tiles that cut them. */
  readonly odd: readonly { readonly shape: Options['shape']; readonly tiles: Numbers }[]
  /** What is measured on CPU ranks (bench/operations.ts). */
  readonly cpu: readonly CpuPoint<Options>[]
  /** What is measured on a GPU (bench/gpu). */
  readonly gpu?: GpuPoints<Options>
  /** The input that results are proportional to. */
  readonly factor: string
  /** Contents that reach what random ones do not, in the n-th round of a test. */
  contents?(random: Contents, shape: Options['shape'], round: number): Contents
}
