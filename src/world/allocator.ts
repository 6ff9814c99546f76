/**
 * Provides the functions that allocate tensors and flags, and checks the dtypes, shapes and options of the allocations.
 */
import { dtypes, type StorageDType } from '../ir/dtype.ts'
import { elements } from '../ir/type.ts'
import { granule, mostAlignment } from './heap.ts'
import { normal, uniform } from './random.ts'
import {
  misuse,
  WorldError,
  type Allocator,
  type FlagsOptions,
  type PerRank,
  type RandomOptions,
  type SymmetricFlags,
  type SymmetricTensor,
  type TensorOptions,
} from './world.ts'

/** The initial contents of a new tensor on a rank: undefined, one value for all elements, or the elements. */
export type Contents = undefined | number | PerRank<ArrayLike<number>>

/** The functions of a world that allocate memory on certain ranks. */
interface Allocating {
  tensor<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    contents: Contents,
    options: TensorOptions,
  ): SymmetricTensor<D>
  flags(shape: readonly number[], options: FlagsOptions): SymmetricFlags
  /** The seed of a random tensor for which the host program gives no seed. */
  nextSeed(): number
}

export function allocatorOf(target: Allocating): Allocator {
  const make = <D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    contents: Contents,
    options: TensorOptions = {},
  ): SymmetricTensor<D> => target.tensor(dtype, shape, contents, options)
  const random =
    (what: string, generator: typeof uniform) =>
    <D extends StorageDType>(
      dtype: D,
      shape: readonly number[],
      options: RandomOptions = {},
    ): SymmetricTensor<D> => {
      if (dtypes[dtype]?.kind !== 'float')
        throw misuse(`${what} of ${dtype}: random tensors need a floating-point dtype`)
      const seed = options.seed ?? target.nextSeed()
      if (!Number.isSafeInteger(seed)) throw misuse(`a seed of ${seed}: it must be a whole number below 2^53`)
      return make(dtype, shape, (rank) => drawn(elements(shape), generator(seed, rank)), options)
    }
  return {
    empty: (dtype, shape, options) => make(dtype, shape, undefined, options),
    full: (dtype, shape, value, options) => make(dtype, shape, value, options),
    zeros: (dtype, shape, options) => make(dtype, shape, 0, options),
    arange: (dtype, shape, options) =>
      make(dtype, shape, () => Float64Array.from({ length: elements(shape) }, (_, i) => i), options),
    rand: random('rand', uniform),
    randn: random('randn', normal),
    from: (dtype, shape, contents, options) => make(dtype, shape, contents, options),
    flags: (shape = [], options = {}) => target.flags(shape, options),
  }
}

/** Checks the dtype, shape and alignment of a new tensor and returns its alignment in bytes. */
export function expectTensor(dtype: StorageDType, shape: readonly number[], options: TensorOptions): number {
  if (!Object.hasOwn(dtypes, dtype) || (dtype as string) === 'bool')
    throw misuse(`a tensor of ${String(dtype)}: tensors cannot hold this dtype`)
  if (!isShape(shape) || shape.length < 1 || shape.length > 4)
    throw misuse(
      `a tensor of shape ${shapeText(shape)}: it must have one to four extents, each a whole number, 0 or more`,
    )
  const alignment = options.alignment ?? granule
  if (!Number.isInteger(Math.log2(alignment)) || alignment < granule || alignment > mostAlignment)
    throw misuse(
      `an alignment of ${alignment} bytes: it must be a power of two from ${granule} to ${mostAlignment}`,
    )
  return alignment
}

/** Checks the shape and options of a new flag set and returns its number of arrivals per epoch. */
export function expectFlags(shape: readonly number[], options: FlagsOptions): number {
  if (!isShape(shape) || shape.length > 3)
    throw misuse(
      `flags of shape ${shapeText(shape)}: it must have up to three extents, each a whole number, 0 or more`,
    )
  const arrivals = options.arrivals ?? 1
  if (!Number.isInteger(arrivals) || arrivals < 1)
    throw misuse(`flags of ${arrivals} arrivals per epoch: it must be a whole number, 1 or more`)
  const { signaller } = options
  if (signaller !== undefined && (signaller as unknown) !== 'host')
    throw misuse(
      `a signaller of ${JSON.stringify(signaller)}: it must be 'host', or left out if kernels signal the flags`,
    )
  return arrivals
}

export function expectLength(
  { name, shape }: SymmetricTensor,
  rank: number,
  contents: ArrayLike<number>,
): void {
  if (contents.length !== elements(shape))
    throw new WorldError(
      `${name} is [${shape.join(', ')}], ${elements(shape)} elements, but ${contents.length} were given for rank ${rank}`,
    )
}

const isShape = (shape: unknown): shape is readonly number[] => Array.isArray(shape) && shape.every(isExtent)

const shapeText = (shape: unknown): string => (Array.isArray(shape) ? `[${shape.join(', ')}]` : String(shape))

export const isExtent = (extent: number): boolean => Number.isInteger(extent) && extent >= 0

function drawn(count: number, next: () => number): Float32Array {
  const values = new Float32Array(count)
  for (let i = 0; i < count; i++) values[i] = next()
  return values
}
