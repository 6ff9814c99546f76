/**
 * The points at which an operation is tested and measured. Points are plain data next to the operation's kernels, so
 * tests and benchmarks enumerate operations without knowing any of them by name.
 */
import type { Numbers } from '../tune/tables.ts'
import type { Machine } from '../world/machine.ts'
import type { OperandDType, OperationOptions } from '../operation/definition.ts'

/** The properties that decide which kernels exist: machine, number of ranks, dtype and shape. */
export interface Setting<Options extends OperationOptions = OperationOptions> {
  readonly machine: Machine
  readonly ranks: number
  readonly dtype: OperandDType
  readonly shape: Options['shape']
}

/** The options of an operation except shape, dtype, tiles and stream. */
export type Form<Options extends OperationOptions = OperationOptions> = Omit<
  Options,
  'shape' | 'dtype' | 'tiles' | 'stream'
>

export interface CpuPoint<Options extends OperationOptions = OperationOptions> {
  readonly name: string
  readonly options: Omit<Options, 'dtype' | 'variant' | 'tiles' | 'stream'>
  /** The work that the other ranks can do before they need anything from one late rank, given the number of ranks. */
  without(ranks: number): Without
}

/**
 * Either the share of their execution that the other ranks can finish without the late rank, or 'its work': the other
 * ranks can also do the late rank's work once its inputs are ready.
 */
export type Without = { readonly share: number } | 'its work'

/** The geometric sequence from `from` to `to` with factor `by`, both ends included. */
export const powers = (from: number, to: number, by: number): number[] =>
  from > to ? [] : [from, ...powers(from * by, to, by)]

/** A point that is measured on a GPU. Fields such as `shard` describe the layout of the inputs. */
export interface GpuCell<Options extends OperationOptions = OperationOptions> {
  /** The name under which results are stored, unique within the operation. */
  readonly key: string
  readonly ranks: number
  readonly dtype: 'bf16' | 'f16'
  readonly shape: Options['shape']
  readonly shard?: 'K' | 'M'
}

export interface GpuPoints<Options extends OperationOptions = OperationOptions> {
  /** The section of the results file, which is also the prefix of all keys. */
  readonly section: string
  /** The heading of the results table. */
  readonly heading: string
  /** The name in the results of the step from `OperationDefinition.limit` when that step is measured alone. */
  readonly alone: string
  /**
   * The lower bound that times are compared with: the time of that step alone, or the minimum work divided by the
   * device's peak rate.
   */
  readonly floor: 'alone' | 'least work'
  /** The variants whose tiles are tuned for the shipped table. */
  readonly tuned: readonly Options['variant'][]
  cells(quick: boolean, shard: 'K' | 'M'): readonly GpuCell<Options>[]
  /** Points with the same total work, divided among `ranks` ranks. */
  scaling(ranks: number): readonly GpuCell<Options>[]
  /** The minimum work of all ranks together: bytes of memory traffic and floating-point operations. */
  work(cell: Omit<GpuCell<Options>, 'key'>): { readonly bytes: number; readonly flops: number }
  /** The minimum number of bytes that a rank receives from other ranks. */
  remoteBytes(cell: Omit<GpuCell<Options>, 'key'>): number
  /**
   * The performance goal: 'recover' the cost of bulk synchronous execution, be 'no slower' than `bsp`, or be 'near
   * alone', close to the time of the step alone.
   */
  goal(shape: Options['shape']): 'recover' | 'no slower' | 'near alone'
}

export interface Points<Options extends OperationOptions = OperationOptions, Contents = never> {
  /** Named sets of options that select among the kernels. Together they launch every kernel of the operation. */
  forms(setting: Setting<Options>): Readonly<Record<string, Form<Options>>>
  /** Named realistic shapes. Tests run all forms at the first shape and some forms at the others. */
  readonly usual: Readonly<Record<string, Options['shape']>>
  /** Named tile sizes around the default. The first is the default and has an empty name. */
  cuts?(tiles: Numbers, machine: Machine): Readonly<Record<string, Numbers>>
  /** Small shapes in which no extent is a multiple of a tile extent, with tiles that divide the shapes unevenly. */
  readonly odd: readonly { readonly shape: Options['shape']; readonly tiles: Numbers }[]
  /** The points that bench/operations.ts measures on CPU ranks. */
  readonly cpu: readonly CpuPoint<Options>[]
  /** The points that bench/gpu measures on a GPU. */
  readonly gpu?: GpuPoints<Options>
  /** The name of the input that the results are proportional to. */
  readonly factor: string
  /** Contents that cover cases which random contents do not reach. `round` numbers the rounds of a test. */
  contents?(random: Contents, shape: Options['shape'], round: number): Contents
}
