/**
 * The common interface of all operations, ready-made ones and the author's own (define.ts): an operation is allocated on
 * a world, filled, launched, read back and compared with a reference. Benchmarks and tests use operations through this
 * interface only.
 *
 * One execution (`launch`) is enqueued on all ranks without a host wait, and the next execution may be enqueued
 * immediately. The kernels of every variant synchronise on the device. Kernels wait until the inputs of other ranks are
 * ready and until buffers may be overwritten. A kernel that a rank launches on the same stream before an execution may
 * write the inputs of the execution. A kernel that a rank launches on the same stream after an execution may read the
 * outputs and overwrite the inputs.
 */
import { round } from '../ir/dtype.ts'
import type { Tiling, TilesFrom } from '../tune/configurations.ts'
import type { Measurement } from './choice.ts'
import type { Growing } from '../tune/tables.ts'
import type { SymmetricTensor, World } from '../world/world.ts'

/** The dtypes that operands may have. Matrix products are accumulated in f32. */
export type OperandDType = 'f32' | 'f16' | 'bf16'
export const operandDTypes: readonly OperandDType[] = ['f32', 'f16', 'bf16']

/** The work that each rank does in one execution. */
export interface Traffic {
  /** The number of bytes that the busiest rank receives from other ranks. */
  readonly remoteBytes: number
  /** The minimum number of bytes that a rank must receive from other ranks, whatever the variant. */
  readonly leastRemoteBytes: number
  /** The number of floating-point operations of the busiest rank. A multiply-add counts as two operations. */
  readonly flops: number
  /** The number of kernel launches in one execution of the operation. */
  readonly launches: number
}

/** One kernel launch of an operation's execution. */
export interface Step {
  readonly name: string
  /** Launches the kernel on all ranks and returns without waiting for the device. */
  launch(): void
  /**
   * The operands of a step that only computes c = a x b on every rank, with row-major matrices and without flags. A
   * benchmark measures the matrix product of a vendor's library in place of a step that is only a matrix product. The
   * operand `a` may have more rows than `c`.
   */
  readonly product?: {
    readonly a: SymmetricTensor
    readonly b: SymmetricTensor
    readonly c: SymmetricTensor
  }
}

/**
 * An operation with a fixed variant and shape, allocated on a world. The type `Contents` is the type of the data that
 * fills the inputs of all ranks.
 */
export interface Operation<Contents = never> {
  readonly name: string
  readonly variant: string
  /** The reason why `auto` chose the variant. The reason is absent if the caller named the variant. */
  readonly reason?: string
  readonly dtype: OperandDType
  readonly inputs: Readonly<Record<string, SymmetricTensor>>
  readonly outputs: Readonly<Record<string, SymmetricTensor>>
  readonly traffic: Traffic
  /** The tile sizes of the kernels. The field `tilesFrom` says how the tiles were chosen. */
  readonly tiles: Readonly<Record<string, number>>
  readonly tilesFrom: TilesFrom
  /**
   * The kernel launches of one execution, in order. To measure one step, launch only that step, after the inputs of the
   * step have been computed.
   */
  readonly steps: readonly Step[]
  /** Enqueues one execution on all ranks and returns without waiting for the device. */
  launch(): void
  /**
   * Converts inputs that stay constant, such as weights, into the layout that the target reads fastest. The method
   * `fill` discards the converted inputs.
   */
  pack(): Promise<void>
  /** Returns random contents, rounded to values that the dtype can represent. */
  random(seed: number): Contents
  /**
   * Writes the contents into the inputs of every rank. `fill` does not wait for launches that may still be running.
   */
  fill(contents: Contents): void
  /**
   * Waits for all launches enqueued so far and returns the output of a rank, in row-major order and without padding.
   */
  result(rank: number): Promise<Float64Array>
  /**
   * The number of rows and columns of a rank's output, without padding. The method is absent if no rank's output has
   * padding.
   */
  extents?(rank: number): readonly [rows: number, columns: number]
  /**
   * The expected output of a rank, computed in float64. If `rows` is given, only the given rows of the output are
   * computed, where a row runs along the last axis.
   */
  reference(contents: Contents, rank: number, rows?: readonly number[]): Float64Array
  /** The largest difference from the reference that rounding can explain if the contents are random. */
  readonly tolerance: number
}

/**
 * The machine for which tiles are chosen. The machine for the tiles is a world, or the description of a machine that is
 * not present (src/world/machine.ts).
 */
export type TilingWorld = Pick<World, 'ranks' | 'machine'>

/** The options that all operations accept. The option `variant` may also be `auto`, which choice.ts resolves. */
export interface OperationOptions {
  readonly shape: Readonly<Record<string, number>>
  readonly dtype: OperandDType
  readonly variant: string
  readonly tiles?: Readonly<Record<string, number | undefined>>
  readonly stream?: number
}

/** The definition of an operation: its variants, its default options, and how it is made on a world. */
export interface OperationDefinition<Options extends OperationOptions, Contents> {
  readonly name: string
  /** The name that the operation has in headings. */
  readonly title: string
  /** All variants, ordered from bulk synchronous to fused. The list of variants does not contain `auto`. */
  readonly variants: readonly Options['variant'][]
  /** The fused variants: those in which the kernel that computes also communicates. */
  readonly fused: readonly Options['variant'][]
  readonly defaults: Options
  /** The dtypes that the kernels accept. By default, the kernels accept all operand dtypes. */
  readonly dtypes?: readonly OperandDType[]
  /**
   * Additional command-line names, in lower case, for extents of the shape. For example, { kv: 'tokens' } gives the
   * extent `tokens` the additional name `kv`.
   */
  readonly aliases?: Readonly<Record<string, keyof Options['shape'] & string>>
  /**
   * The options that describe the layout of the inputs, each with its possible values. For example, { shard: ['K', 'M']
   * } declares an option `shard` with the values K and M. A measurement applies to only one layout of the inputs.
   */
  readonly layouts?: Readonly<Record<string, readonly string[]>>
  /**
   * The extents that grow with the amount of work, such as rows and tokens. Shapes that differ only slightly in growing
   * extents share tuned tiles. Shapes share tuned tiles only if all extents that do not grow with the work are equal.
   */
  readonly growing?: Growing
  /** True if some inputs are weights, which `Operation.pack` converts into the target's layout. */
  readonly packs: boolean
  /** The shipped measurements from which `auto` chooses, unless the program has remembered its own measurements. */
  readonly measurements: readonly Measurement[]
  /** The default tile choice, used when the caller does not specify tiles. */
  tiling(world: TilingWorld, options: Omit<Options, 'tiles'>): Tiling
  /**
   * Allocates the operation on a world. If the caller passes the `inputs` of another operation of the same shape, dtype
   * and layout, the two operations share the inputs, including packed weights.
   */
  make(world: World, options: Options, inputs?: Operation['inputs']): Operation<Contents>
  /**
   * A step of `bsp` that reads only memory of the rank on which it runs. The time of the limiting step is a lower bound
   * on the time of every variant.
   */
  readonly limit: { readonly step: string; readonly name: string }
}

/** An operation of any kind. Each operation validates its own options. */
export type AnyOperation = OperationDefinition<OperationOptions, unknown>

/**
 * True if a value has the fields of a definition of an operation, which another copy of this package could have
 * created.
 */
export function isOperation(value: unknown): value is AnyOperation {
  if (typeof value !== 'object' || value === null) return false
  const { name, variants, defaults, make, tiling } = value as Partial<AnyOperation>
  return (
    [typeof name, typeof defaults, typeof make, typeof tiling].join() === 'string,object,function,function' &&
    Array.isArray(variants)
  )
}

/** The largest relative error of rounding to each dtype. */
export const roundoff: Readonly<Record<OperandDType, number>> = {
  f32: 2 ** -24,
  f16: 2 ** -11,
  bf16: 2 ** -8,
}

/**
 * Calls `make` only once for each choice of options. A kernel object keeps its recorded IR, so each kernel must be
 * created only once.
 */
export function oncePer<Choice, Made>(make: (choice: Choice) => Made): (choice: Choice) => Made {
  const made = new Map<string, Made>()
  return (choice) => {
    const key = JSON.stringify(choice)
    let known = made.get(key)
    if (known === undefined) made.set(key, (known = make(choice)))
    return known
  }
}

/**
 * The number of random numbers after which the sequence repeats. The period is a prime, so that the rows of a matrix do
 * not repeat after a few rows.
 */
const period = 1_048_573

/** Returns `count` numbers between -1 and 1 that the dtype can represent. The same seed yields the same numbers. */
export function randomNumbers(dtype: OperandDType, count: number, seed: number): Float32Array {
  let state = (seed * 2654435761) >>> 0 || 1
  const numbers = new Float32Array(count)
  for (let i = 0; i < Math.min(count, period); i++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    numbers[i] = dtype === 'f32' ? (state | 0) / 2 ** 31 : round(dtype, (state | 0) / 2 ** 31)
  }
  for (let done = period; done < count; done *= 2) numbers.copyWithin(done, 0, Math.min(done, count - done))
  return numbers
}

export function expectExtents(what: string, extents: Readonly<Record<string, number>>, least = 1): void {
  for (const [name, extent] of Object.entries(extents))
    if (!Number.isInteger(extent) || extent < least)
      throw new RangeError(`${what}: ${name} is ${extent}; it must be a whole number of at least ${least}`)
}

/** Returns the table entry with the given name, or throws an error that lists all valid names. */
export function chosen<T>(what: string, table: Readonly<Record<string, T>>, name: string): T {
  if (!Object.hasOwn(table, name))
    throw new RangeError(`${what}: there is no ${name}; choose one of ${Object.keys(table).join(', ')}`)
  return table[name]
}

/**
 * Throws an error if the caller gave an option that the requested variant does not support. With `variant: 'auto'`, an
 * option that the chosen variant does not support is ignored.
 */
export function expectOptionsOf(
  what: string,
  options: { readonly variant: string },
  variantsOf: Readonly<Record<string, readonly string[]>>,
): void {
  const { variant } = options
  if (variant === 'auto') return
  const given = options as Readonly<Record<string, unknown>>
  for (const [name, variants] of Object.entries(variantsOf))
    if (given[name] && !variants.includes(variant))
      throw new RangeError(
        `${what}: ${name} is an option of ${variants.join(' and ')} only, not of ${variant}`,
      )
}
