/**
 * Computes this rank's partial product tile by tile, for a result that is scattered along M or N. The tiles are those of
 * the owners' shards, so that every tile has one owner.
 *
 *   a  [M, K per rank], b [K per rank, N]: this rank's slices along K, padded with zeros to equal size
 *   c  the shard of one owner: M [M per rank, N]; N [M, N per rank]
 *
 * All shards of C have equal size, including padding. The last shards may have fewer rows (columns) of C than others, or
 * none. Tiles of padding are zeros and exist on every rank, so that every rank sends something to every other rank.
 */
import { f32, i32 } from '../../lang/dtypes.ts'
import type { Program } from '../../lang/program.ts'
import { ceilDiv, type Tensor } from '../../lang/tensor.ts'
import type { Fragment, Scalar } from '../../lang/value.ts'
import type { OperandDType } from '../../operation/definition.ts'

export type Scatter = 'M' | 'N'

export interface PartialMeta {
  readonly BM: number
  readonly BN: number
  readonly BK: number
  readonly stages: number
  /** True if the extent of a shard along the scattered axis is a multiple of the tile, so that no tile spans two shards. */
  readonly aligned: boolean
  /** True if no tile of any shard consists of padding only. */
  readonly full: boolean
  /**
   * True to signal a tile only after the program has computed its next tile. A copy engine has completed the store of
   * the tile by then, so the program does not wait for it.
   */
  readonly signalsLate: boolean
}
/** The default tiles for a GPU. The default tiles for other machines are in ../gathered/tiles.ts. */
export const partialMeta = {
  ...{ BM: 128, BN: 256, BK: 64, stages: 4 },
  ...{ aligned: false, full: false, signalsLate: false },
}

export interface Factors {
  readonly a: Tensor<OperandDType, 2>
  readonly b: Tensor<OperandDType, 2>
}
/** The tile (i, j) of a shard. */
export type TileIndex = readonly [i: Scalar, j: Scalar]
export interface OwnedTile {
  readonly owner: Scalar
  readonly at: TileIndex
}

/** The functions that the product calls for a tile, in order. The argument `step` counts the owners (`ownedTile`). */
export interface Uses {
  /** The initial value of the accumulator; zeros by default. */
  readonly begin?: (tile: OwnedTile, step: Scalar) => Fragment<'f32', 2>
  readonly store: (tile: OwnedTile, sum: Fragment<'f32', 2>, step: Scalar) => void
  /** Signals that the tile has been stored. `begin` and `store` must not wait for this signal, which may be late. */
  readonly signal?: (tile: OwnedTile) => void
}

/**
 * The part of the scattered axis that belongs to `owner`: its first index, and its extent without padding. `height` is the
 * extent of a shard including padding, and `all` is the extent of C.
 */
export function partOf(owner: Scalar, height: Scalar, all: Scalar): { first: Scalar; extent: Scalar } {
  const first = owner.mul(height)
  return { first: first.min(all), extent: all.sub(first).max(0).min(height) }
}

/**
 * With the order `round`, the tiles of all owners become complete at the same rate, because every rank computes one row
 * (column) of tiles for each owner in turn. With the order `owner`, all tiles of one owner precede those of the next.
 */
export type Order = 'round' | 'owner'

/** The tile at a position of the iteration space, and the number of owners that come before its owner. */
export function ownedTile(
  t: Program,
  scatter: Scatter,
  order: Order,
  [first, second, other]: readonly [Scalar, Scalar, Scalar],
): { tile: OwnedTile; step: Scalar } {
  const [part, step] = order === 'round' ? [first, second] : [second, first]
  // Step 0 is the previous rank, and the last step is this rank.
  const owner = t.rank
    .add(t.world - 1)
    .sub(step)
    .mod(t.world)
  return { tile: { owner, at: scatter === 'M' ? [part, other] : [other, part] }, step }
}

/** Declares the shared tiles at the top of a kernel and returns the function that multiplies. */
export function partialProduct(
  t: Program,
  scatter: Scatter,
  { a, b }: Factors,
  c: Tensor<OperandDType, 2>,
  { BM, BN, BK, stages, aligned, full, signalsLate }: PartialMeta,
) {
  const as = t.shared(a.dtype, [BM, BK])
  const bs = t.shared(b.dtype, [BK, BN])
  const steps = ceilDiv(a.dim(1), BK)
  const [axis, side, all] = scatter === 'M' ? [0, BM, a.dim(0)] : [1, BN, b.dim(1)]
  const height = c.dim(axis)
  const [rowTiles, columnTiles] = [ceilDiv(c.dim(0), BM), ceilDiv(c.dim(1), BN)]

  /** The sum of a tile of this rank's partial product and its initial value `begin`. */
  const multiply = ({ owner, at: [i, j] }: OwnedTile, begin: Fragment<'f32', 2>): Fragment<'f32', 2> => {
    const { first, extent } = partOf(owner, height, all)
    const place = scatter === 'M' ? i : j
    const inWhole = owner.mul(ceilDiv(height, side)).add(place)
    const left = (k: Scalar) => {
      if (scatter === 'N') return a.tile([i, k], [BM, BK])
      return aligned ? a.tile([inWhole, k], [BM, BK]) : a.slice(0, first, extent).tile([i, k], [BM, BK])
    }
    const right = (k: Scalar) => {
      if (scatter === 'M') return b.tile([k, j], [BK, BN])
      return aligned ? b.tile([k, inWhole], [BK, BN]) : b.slice(1, first, extent).tile([k, j], [BK, BN])
    }
    return t.pipeline(
      [full ? steps : place.mul(side).lt(extent).select(steps, 0)],
      begin,
      ([k], sum) => {
        t.copy(left(k), as)
        t.copy(right(k), bs)
        return t.dot(as, bs, sum)
      },
      { stages },
    )
  }

  /** Multiplies every tile of every shard, in the given order. */
  return (order: Order, { begin, store, signal }: Uses): void => {
    const [along, across] = scatter === 'M' ? [rowTiles, columnTiles] : [columnTiles, rowTiles]
    const extents =
      order === 'round' ? ([along, t.world, across] as const) : ([t.world, along, across] as const)
    const product = (tile: OwnedTile, step: Scalar) =>
      multiply(tile, begin?.(tile, step) ?? t.zeros(f32, [BM, BN]))
    if (!signal || !signalsLate) {
      t.persistent(extents, (place) => {
        const { tile, step } = ownedTile(t, scatter, order, place)
        store(tile, product(tile, step), step)
        signal?.(tile)
      })
      return
    }
    const none = t.constant(i32, -1)
    const signalStored = ({ owner, i, j }: Record<'owner' | 'i' | 'j', Scalar>): void =>
      t.if(owner.ge(0), () => signal({ owner, at: [i, j] }))
    const last = t.persistent(extents, { owner: none, i: none, j: none }, (place, stored) => {
      const { tile, step } = ownedTile(t, scatter, order, place)
      const sum = product(tile, step)
      signalStored(stored)
      store(tile, sum, step)
      return { owner: tile.owner, i: tile.at[0], j: tile.at[1] }
    })
    signalStored(last)
  }
}
