/**
 * Computes the matrix product of the gathered A and the local B. The caller supplies `take`, which copies tile (i, k)
 * of `owner`'s shard into the shared tile. A rank starts with its own shard and continues with the shards of the
 * following ranks, so that the ranks do not all read from rank 0 first.
 *
 *   K  a [M, K per rank], b [ranks x K per rank, N], c [M, N]
 *   M  a [M per rank, K], b [K, N], c [M, N]; the extent of c shows which of the last shards are short or empty
 *
 * Shards are padded with zeros to equal size. The flag `aligned` means that the height of a shard is a multiple of BM.
 * The function `acrossShards` multiplies tiles of the gathered rows. The function `acrossShards` is used for shards
 * that are not aligned, and for shards with so few rows that reading B once per shard costs more than waiting for all
 * shards. If strips of `ownRows` x `ownColumns` are given, the function `ownRowsFirst` computes the same matrix
 * product, but multiplies this rank's own rows while it waits.
 */
import type { Program } from '../../lang/program.ts'
import { bool, f32, i32 } from '../../lang/dtypes.ts'
import { ceilDiv, type Shared, type Tensor } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import type { OperandDType } from '../../operation/definition.ts'
import { ownFirst } from './ownFirst.ts'
import { ownRowsFirst, type StripTiles } from './ownRowsFirst.ts'

export type Shard = 'K' | 'M'

export interface ProductMeta {
  readonly BM: number
  readonly BN: number
  readonly BK: number
  readonly stages: number
  readonly aligned: boolean
  readonly ownRows: number
  readonly ownColumns: number
}
/** The default tiles for a GPU. The default tiles for other machines are in tiles.ts. */
export const productMeta = { BM: 128, BN: 256, BK: 64, stages: 4, aligned: false, ownRows: 0, ownColumns: 0 }

export interface Operands {
  readonly a: Tensor<OperandDType, 2>
  readonly b: Tensor<OperandDType, 2>
  readonly c: Tensor<OperandDType, 2>
}
export type Take = (owner: Scalar, at: readonly [i: Scalar, k: Scalar], into: Shared<OperandDType, 2>) => void

/** The matrix A gathered from all ranks. The rows of tile i may be read after `arrival(i)` has returned. */
export interface Gathered {
  readonly rows: Tensor<OperandDType, 2>
  readonly arrival: (i: Scalar) => void
  /** True if all rows of A have arrived. A kernel may test this with `isHere` only if all rows fit into one tile. */
  readonly isHere: () => Scalar<'bool'>
}

interface SharedTiles {
  readonly as: Shared<OperandDType, 2>
  readonly bs: Shared<OperandDType, 2>
}
export type Multiply = (
  t: Program,
  operands: Operands,
  tiles: SharedTiles,
  meta: ProductMeta,
  take: Take,
) => void

/** Declares the shared tiles at the top of a kernel and returns the functions that multiply. */
export function product(t: Program, shard: Shard, operands: Operands, meta: ProductMeta) {
  const { BM, BN, BK } = meta
  const { dtype } = operands.a
  const tiles = { as: t.shared(dtype, [BM, BK]), bs: t.shared(dtype, [BK, BN]) }
  const strips = meta.ownRows > 0 ? stripTiles(t, dtype, tiles, meta) : undefined
  const multiply = shard === 'K' ? alongK : alongM
  return {
    ofShards: (take: Take): void => multiply(t, operands, tiles, meta, take),
    ofShardsHere: (take: Take, isHere: (owner: Scalar) => Scalar<'bool'>): void =>
      alongKAsTheyCome(t, operands, tiles, meta, take, isHere),
    ownFirst: (take: Take): void => ownFirst(t, operands, tiles, meta, take),
    ofRows: (gathered: Gathered): void =>
      strips
        ? ownRowsFirst(t, operands, strips, meta, gathered)
        : acrossShards(t, operands, tiles, meta, gathered),
  }
}

function stripTiles(
  t: Program,
  dtype: OperandDType,
  { as, bs }: SharedTiles,
  { BK, ownRows, ownColumns }: ProductMeta,
): StripTiles {
  const right = t.shared(dtype, [BK, ownColumns])
  return {
    tile: { left: as, right: bs },
    strip: { left: as, right },
    ownStrip: { left: t.shared(dtype, [ownRows, BK]), right },
  }
}

const alongK: Multiply = (t, { a, b, c }, { as, bs }, { BM, BN, BK, stages }, take) => {
  const depth = a.dim(1)
  t.persistent(c.tiles([BM, BN]), (ci, [i, j]) => {
    const sum = t.pipeline(
      [t.world, ceilDiv(depth, BK)],
      t.zeros(f32, [BM, BN]),
      ([step, k], acc) => {
        const owner = t.rank.add(step).mod(t.world)
        // The copy of B is started before the copy of A. B is local, so its copy is in flight while the program waits for A.
        t.copy(b.slice(0, owner.mul(depth), depth).tile([k, j], [BK, BN]), bs)
        take(owner, [i, k], as)
        return t.dot(as, bs, acc)
      },
      { stages },
    )
    t.copy(sum.to(c.dtype), ci)
  })
}

/**
 * Multiplies shards along K in the order of their arrival. This rank multiplies its own shard first, and then each
 * remaining shard that has arrived. If no remaining shard has arrived, the program waits for the next shard. A late
 * rank thus delays the other ranks only when they have nothing else to multiply. A sum of floats depends on the order
 * of its terms, so the last bits may differ between launches.
 */
function alongKAsTheyCome(
  t: Program,
  { a, b, c }: Operands,
  { as, bs }: SharedTiles,
  { BM, BN, BK, stages }: ProductMeta,
  take: Take,
  isHere: (owner: Scalar) => Scalar<'bool'>,
): void {
  const depth = a.dim(1)
  const ownerAt = (place: Scalar): Scalar => t.rank.add(place).mod(t.world)
  const bitOf = (place: Scalar): Scalar => t.constant(i32, 1).shl(place)
  const next = (left: Scalar): Scalar => {
    const isLeft = (place: Scalar): Scalar<'bool'> => left.and(bitOf(place)).ne(0)
    const mayBeNext = (place: Scalar): Scalar<'bool'> =>
      t.if(
        isLeft(place),
        () => isHere(ownerAt(place)),
        () => t.constant(bool, 0),
      )
    const step = (place: Scalar): Scalar => place.add(1)
    const first = t.while(t.constant(i32, 0), (place) => isLeft(place).not(), step)
    const here = t.while(
      first,
      (place) =>
        t.if(
          place.lt(t.world),
          () => mayBeNext(place).not(),
          () => t.constant(bool, 0),
        ),
      step,
    )
    return here.lt(t.world).select(here, first)
  }
  t.persistent(c.tiles([BM, BN]), (ci, [i, j]) => {
    const { sum } = t.pipeline(
      [t.world, ceilDiv(depth, BK)],
      { sum: t.zeros(f32, [BM, BN]), left: t.constant(i32, 2 ** t.world - 1), place: t.constant(i32, 0) },
      ([step, k], { sum, left, place: last }) => {
        const place = t.if(
          k.eq(0).and(step.gt(0)),
          () => next(left),
          () => last,
        )
        const owner = ownerAt(place)
        t.copy(b.slice(0, owner.mul(depth), depth).tile([k, j], [BK, BN]), bs)
        take(owner, [i, k], as)
        return { sum: t.dot(as, bs, sum), left: left.and(bitOf(place).not()), place }
      },
      { stages },
    )
    t.copy(sum.to(c.dtype), ci)
  })
}

const alongM: Multiply = (t, { a, b, c }, { as, bs }, { BM, BN, BK, stages, aligned }, take) => {
  const [rows, height] = [c.dim(0), a.dim(0)]
  const tiles = ceilDiv(height, BM)
  const whole = rows.div(height)
  const rowTiles = whole.mul(tiles).add(ceilDiv(rows.sub(whole.mul(height)), BM))
  t.persistent([rowTiles, ceilDiv(c.dim(1), BN)], ([n, j]) => {
    const at = t.rank.mul(tiles).add(n).mod(rowTiles)
    const [owner, i] = [at.div(tiles), at.mod(tiles)]
    const sum = t.pipeline(
      [ceilDiv(a.dim(1), BK)],
      t.zeros(f32, [BM, BN]),
      ([k], acc) => {
        t.copy(b.tile([k, j], [BK, BN]), bs)
        take(owner, [i, k], as)
        return t.dot(as, bs, acc)
      },
      { stages },
    )
    const first = owner.mul(height)
    const place = aligned
      ? c.tile([at, j], [BM, BN])
      : c.slice(0, first, rows.sub(first).min(height)).tile([i, j], [BM, BN])
    t.copy(sum.to(c.dtype), place)
  })
}

function acrossShards(
  t: Program,
  { a, b, c }: Operands,
  { as, bs }: SharedTiles,
  { BM, BN, BK, stages }: ProductMeta,
  { rows, arrival }: Gathered,
): void {
  t.persistent(c.tiles([BM, BN]), (ci, [i, j]) => {
    arrival(i)
    const sum = t.pipeline(
      [ceilDiv(a.dim(1), BK)],
      t.zeros(f32, [BM, BN]),
      ([k], acc) => {
        t.copy(rows.tile([i, k], [BM, BK]), as)
        t.copy(b.tile([k, j], [BK, BN]), bs)
        return t.dot(as, bs, acc)
      },
      { stages },
    )
    t.copy(sum.to(c.dtype), ci)
  })
}
