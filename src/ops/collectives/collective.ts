/**
 * What all collectives have in common: the options of their host side, and how a vector is divided among ranks.
 *
 * A collective is made once on a world (it allocates its inboxes and flags) and launched any number of times, without a
 * reset and without a host barrier in between. A rank may be a launch ahead of another; each kernel's header says what
 * keeps it from overwriting what a slower rank still reads. All launches of one collective go to one stream.
 */
import type { StorageDType } from '../../ir/dtype.ts'
import { ceilDiv, type Tensor } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import { WorldError, type LaunchOptions, type SymmetricTensor } from '../../world/world.ts'

/** What is exchanged; sums are kept in f32 and rounded once, at the end. */
export type CollectiveDType = 'f32' | 'bf16' | 'f16'

export interface CollectiveOptions<D extends CollectiveDType = CollectiveDType> {
  readonly dtype: D
  /** Of one rank's vector, or of each of its parts where it has one for every rank; 0 is allowed. */
  readonly elements: number
  /** Elements of a tile: what is sent, signalled and summed at a time. */
  readonly tile?: number
  /** Programs on each rank; as many as run at once by default. The kernels wait, so more would hang. */
  readonly grid?: LaunchOptions['grid']
  readonly stream?: LaunchOptions['stream']
  /** What reports call its buffers. */
  readonly name?: string
}

/** 2048 f32 are 16 registers of each of 128 threads on a GPU, and a quarter of a core's first cache. */
export const defaultTile = 2048

export interface Settings {
  readonly tile: number
  /** Tiles that cover `elements`. */
  readonly tiles: number
  readonly name: string
  readonly options: Pick<LaunchOptions, 'grid' | 'stream'> & { readonly meta: { readonly TILE: number } }
}

/** The options with their defaults, after a look at whether they make sense. */
export function settle(kind: string, given: CollectiveOptions): Settings {
  const { elements, tile = defaultTile, grid = 'resident', stream, name = kind } = given
  if (!Number.isInteger(elements) || elements < 0)
    throw new WorldError(`${name}: ${elements} elements; give a whole number, 0 or more`)
  if (!Number.isInteger(tile) || tile < 1)
    throw new WorldError(`${name}: a tile of ${tile} elements; give a whole number, 1 or more`)
  const tiles = Math.ceil(elements / tile)
  return { tile, tiles, name, options: { grid, stream, meta: { TILE: tile } } }
}

/** A collective's buffers fit the tensors it was made for, and no others. */
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

/** One kernel a dtype, made when it is first wanted, so that it is recorded once for all collectives that use it. */
export function perDType<K>(make: (dtype: CollectiveDType) => K): (dtype: CollectiveDType) => K {
  const made = new Map<CollectiveDType, K>()
  return (dtype) => {
    const known = made.get(dtype) ?? make(dtype)
    made.set(dtype, known)
    return known
  }
}

/** A rank's share of a vector: the window [start, start + size), of `tiles` tiles. The last shares may be short or empty. */
export interface Share {
  readonly start: Scalar
  readonly size: Scalar
  readonly tiles: Scalar
}

/** Shares are whole tiles but for the last one, so that they start where a tile does. */
export function shareOf(elements: Scalar, owner: Scalar, world: number, TILE: number): Share {
  const length = ceilDiv(elements, TILE * world).mul(TILE)
  const start = owner.mul(length).min(elements)
  const size = elements.sub(start).min(length)
  return { start, size, tiles: ceilDiv(size, TILE) }
}

export function window<D extends StorageDType>(tensor: Tensor<D, 1>, share: Share): Tensor<D, 1> {
  return tensor.slice(0, share.start, share.size)
}

/** The first elements of an inbox, as many as a share has: it then has the share's ragged edge. */
export function inboxFor<D extends StorageDType>(inbox: Tensor<D, 1>, share: Share): Tensor<D, 1> {
  return inbox.slice(0, 0, share.size)
}

/** Tiles of the longest share: `shareOf` for the host. */
export const tilesOfShare = (elements: number, world: number, tile: number): number =>
  Math.ceil(elements / (tile * world))

/** The rank `steps` after this one; starting at home keeps ranks from all turning to rank 0 first. */
export const rankAfter = (rank: Scalar, steps: Scalar, world: number): Scalar => rank.add(steps).mod(world)
