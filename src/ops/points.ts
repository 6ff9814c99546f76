/**
 * The points at which an operation is tested and measured. Points are plain data next to the operation's kernels. Tests
 * and benchmarks can therefore enumerate operations without knowing any of them by name.
 */
import type { Numbers } from '../tune/tables.ts'
import type { Machine } from '../world/machine.ts'
import type { Drawing } from './drawn.ts'
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
  /** The work that the other ranks can do before they need anything from a late rank, given the number of ranks. */
  without(ranks: number): Without
}

/**
 * The value is the share of an execution that the other ranks can finish without the late rank. The value is 'its work'
 * if the other ranks can also do the late rank's work once its inputs are ready.
 */
export type Without = { readonly share: number } | 'its work'

/** The geometric sequence from `from` to `to` with factor `by`, which includes both ends. */
export const powers = (from: number, to: number, by: number): number[] =>
  from > to ? [] : [from, ...powers(from * by, to, by)]

/** Values of the layout options of an operation; see `OperationDefinition.layouts`. */
export type Layout = Readonly<Record<string, string>>

/** A point that is measured on a GPU. */
export interface GpuCell<Options extends OperationOptions = OperationOptions> {
  /** The name under which results are stored, which is unique within the operation. */
  readonly key: string
  readonly ranks: number
  readonly dtype: 'bf16' | 'f16'
  readonly shape: Options['shape']
  /** The layout of the inputs of a measured point. The operation's defaults apply to options that are absent. */
  readonly layout?: Layout
}

/** Work that a library is asked to do (bench/gpu/peers.py): the name of the work, and its extents. */
export interface LibraryWork extends Readonly<Record<string, string | number>> {
  readonly do: string
}

/** A goal for the speed of an operation relative to a library whose name begins with `library`. */
export interface LibraryGoal {
  readonly library: string
  /** The name of the library as texts spell it. */
  readonly name: string
  /** Goals of tier B are expected, and goals of tier C are desirable. */
  readonly tier: 'B' | 'C'
  /** The smallest ratio of the library's time to the operation's time that reaches the goal. */
  readonly least: number
}

/** Points on one rank with the whole device, at which libraries do the same work. */
export interface LibraryPoints<Options extends OperationOptions = OperationOptions> {
  readonly section: string
  /** The name of the measured work, with which the headings of its tables begin. */
  readonly title: string
  /** The extents that all points have in common, as text. */
  readonly extents: string
  readonly variants: readonly Options['variant'][]
  cells(quick: boolean): readonly GpuCell<Options>[]
  workOf(shape: Options['shape']): LibraryWork
  readonly goals: readonly LibraryGoal[]
}

export interface GpuPoints<Options extends OperationOptions = OperationOptions> {
  /** The name of the section in the results file, with which the names of all points in the section begin. */
  readonly section: string
  /** The heading of the results table. */
  readonly heading: string
  /** The name of the limiting step (`OperationDefinition.limit`) in the results when it is measured alone. */
  readonly alone: string
  /**
   * The lower bound with which measured times are compared. The lower bound is the time of the limiting step alone, or
   * the minimum work divided by the device's peak rate.
   */
  readonly floor: 'alone' | 'least work'
  /** The variants whose tiles are tuned for the table that Arke ships. */
  readonly tuned: readonly Options['variant'][]
  /** `layout` has a value for each layout option of the operation. */
  cells(quick: boolean, layout: Layout): readonly GpuCell<Options>[]
  /** Points with the same total work, divided among `ranks` ranks. */
  scaling(ranks: number): readonly GpuCell<Options>[]
  /** The minimum work of all ranks together: the bytes of memory traffic and the floating-point operations. */
  work(cell: Omit<GpuCell<Options>, 'key'>): { readonly bytes: number; readonly flops: number }
  /** The minimum number of bytes that a rank receives from other ranks. */
  remoteBytes(cell: Omit<GpuCell<Options>, 'key'>): number
  /**
   * The performance goal at a measured point. The value 'recover' means to recover the cost of bulk synchronous
   * execution, 'no slower' means no slower than `bsp`, and 'near alone' means close to the time of the step alone.
   */
  goal(shape: Options['shape']): 'recover' | 'no slower' | 'near alone'
  /** The way in which the device generates the inputs. By default, the host generates the inputs. */
  readonly drawing?: Drawing<Options>
  /** The points at which the operation on one rank is compared with libraries, if a library has the operation. */
  readonly libraries?: LibraryPoints<Options>
}

export interface Points<Options extends OperationOptions = OperationOptions, Contents = never> {
  /**
   * Named sets of options that select among the kernels. Together, the named sets of options launch every kernel of the
   * operation.
   */
  forms(setting: Setting<Options>): Readonly<Record<string, Form<Options>>>
  /** Realistic shapes by name. Tests run all sets of options at the first shape and some at the other shapes. */
  readonly usual: Readonly<Record<string, Options['shape']>>
  /** Named tile sizes around the default tile size. The first entry of the tile sizes is the default and has an empty name. */
  cuts?(tiles: Numbers, machine: Machine): Readonly<Record<string, Numbers>>
  /** Small shapes in which no extent is a multiple of a tile extent, so that tiles divide the shapes unevenly. */
  readonly odd: readonly { readonly shape: Options['shape']; readonly tiles: Numbers }[]
  /** The points that bench/operations.ts measures on CPU ranks. */
  readonly cpu: readonly CpuPoint<Options>[]
  /** The points that bench/gpu measures on a GPU. */
  readonly gpu?: GpuPoints<Options>
  /** The name of the input to which the results are proportional. */
  readonly factor: string
  /**
   * Contents of the inputs that cover cases which random contents do not reach. The argument `round` is the number of
   * the test round.
   */
  contents?(random: Contents, shape: Options['shape'], round: number): Contents
}
