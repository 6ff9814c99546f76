/**
 * Code that all collectives share: their host options, and the division of a vector among ranks.
 *
 * A collective is created once on a world, which allocates its inboxes and flags. After that, a collective can be
 * launched any number of times, without a reset and without a host barrier in between. A rank may run one launch ahead
 * of another rank. The comment at the top of each kernel explains why the kernel never overwrites data that a slower
 * rank still reads. All launches of one collective go to one stream.
 */
import type { StorageDType } from '../../ir/dtype.ts'
import { ceilDiv, type Tensor } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import { WorldError, type LaunchOptions, type SymmetricTensor } from '../../world/world.ts'

/** The dtypes that the exchanged elements may have. Sums are accumulated in f32 and rounded once at the end. */
export type CollectiveDType = 'f32' | 'bf16' | 'f16'

export interface CollectiveOptions<D extends CollectiveDType = CollectiveDType> {
  readonly dtype: D
  /**
   * The number of elements of one rank's vector. If a rank has one section of data for each rank, `elements` is the
   * number of elements per section. The number of elements may be 0.
   */
  readonly elements: number
  /** The number of elements per tile. A tile is the unit that is sent, signalled and summed. */
  readonly tile?: number
  /**
   * The number of programs per rank. By default, a rank runs as many programs as can be resident at once. The programs
   * of a collective wait for each other, so more programs than can be resident would deadlock.
   */
  readonly grid?: LaunchOptions['grid']
  readonly stream?: LaunchOptions['stream']
  /** The prefix of the names that the buffers have in reports. */
  readonly name?: string
}

/** 2048 elements of f32 take 16 registers in each of 128 threads on a GPU, or a quarter of a CPU core's L1 cache. */
export const defaultTile = 2048

export interface Settings {
  readonly tile: number
  /** The number of tiles that cover `elements`. */
  readonly tiles: number
  readonly name: string
  readonly options: Pick<LaunchOptions, 'grid' | 'stream'> & { readonly meta: { readonly TILE: number } }
}

/** Validates the options and fills in their defaults. */
export function settle(kind: string, given: CollectiveOptions): Settings {
  const { elements, tile = defaultTile, grid = 'resident', stream, name = kind } = given
  if (!Number.isInteger(elements) || elements < 0)
    throw new WorldError(`${name}: elements is ${elements}; it must be a whole number, 0 or more`)
  if (!Number.isInteger(tile) || tile < 1)
    throw new WorldError(`${name}: tile is ${tile} elements; it must be a whole number, 1 or more`)
  const tiles = Math.ceil(elements / tile)
  return { tile, tiles, name, options: { grid, stream, meta: { TILE: tile } } }
}

/** Throws an error unless the tensor has the dtype and the shape for which the collective's buffers were allocated. */
export function expectTensor(
  name: string,
  tensor: SymmetricTensor,
  dtype: CollectiveDType,
  shape: readonly number[],
): void {
  const same =
    tensor.shape.length === shape.length && tensor.shape.every((extent, axis) => extent === shape[axis])
  if (!same || tensor.dtype !== dtype)
    throw new WorldError(
      `${name} was made for ${dtype}[${shape.join(', ')}]; ${tensor.name} is ${tensor.dtype}[${tensor.shape.join(', ')}]`,
    )
}

/** Calls `make` only once per dtype, so that all collectives of one dtype share one recorded kernel. */
export function perDType<K>(make: (dtype: CollectiveDType) => K): (dtype: CollectiveDType) => K {
  const made = new Map<CollectiveDType, K>()
  return (dtype) => {
    const known = made.get(dtype) ?? make(dtype)
    made.set(dtype, known)
    return known
  }
}

/**
 * One rank's share of a vector. A share has the elements from `start` up to `start + size` (excluded) and is covered by
 * `tiles` tiles. The shares of the last ranks may be short or empty.
 */
export interface Share {
  readonly start: Scalar
  readonly size: Scalar
  readonly tiles: Scalar
}

/**
 * The share of the vector that `owner` has. Every share except the last nonempty one is a whole number of tiles, so
 * that shares start at tile boundaries.
 */
export function shareOf(elements: Scalar, owner: Scalar, world: number, TILE: number): Share {
  const length = ceilDiv(elements, TILE * world).mul(TILE)
  const start = owner.mul(length).min(elements)
  const size = elements.sub(start).min(length)
  return { start, size, tiles: ceilDiv(size, TILE) }
}

export function window<D extends StorageDType>(tensor: Tensor<D, 1>, share: Share): Tensor<D, 1> {
  return tensor.slice(0, share.start, share.size)
}

/** The first `share.size` elements of an inbox. The view of the inbox ends at the same partial tile as the share. */
export function inboxFor<D extends StorageDType>(inbox: Tensor<D, 1>, share: Share): Tensor<D, 1> {
  return inbox.slice(0, 0, share.size)
}

/** The number of tiles in the longest share, which the host computes like `shareOf` on the device. */
export const tilesOfShare = (elements: number, world: number, tile: number): number =>
  Math.ceil(elements / (tile * world))

/**
 * The rank that is `steps` ranks after this one. Every rank starts with itself, so that the ranks do not all access
 * rank 0 first.
 */
export const rankAfter = (rank: Scalar, steps: Scalar, world: number): Scalar => rank.add(steps).mod(world)
