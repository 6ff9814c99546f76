/**
 * Computes the matrix product of shards along M if the rows of all shards together fit into one tile.
 *
 * Until the rows of other ranks have arrived, this rank multiplies its own rows of A, one strip of columns of C at a
 * time. A strip is narrower than a tile. After all rows have arrived, the program first computes the other rows of
 * these strips, beginning with the most recent strip, whose columns of B are still in a cache. The program then
 * computes all rows of the other columns of C at once, so that B is read only once: first the remaining strips of a
 * tile of which only some strips have been computed, then whole tiles.
 */
import { f32, i32 } from '../../lang/dtypes.ts'
import type { Program } from '../../lang/program.ts'
import { ceilDiv, type Shared, type Tensor } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import type { OperandDType } from '../../operation/definition.ts'
import type { Gathered, Operands, ProductMeta } from './product.ts'

/** The left and the right operand of a matrix product. */
interface Pair {
  readonly left: Shared<OperandDType, 2>
  readonly right: Shared<OperandDType, 2>
}
export interface StripTiles {
  readonly tile: Pair
  /** The operands of a strip with all rows (`strip`), and with the rows of one shard (`ownStrip`). */
  readonly strip: Pair
  readonly ownStrip: Pair
}
type Matrix = Tensor<OperandDType, 2>

export function ownRowsFirst(
  t: Program,
  { a, b, c }: Operands,
  { tile, strip, ownStrip }: StripTiles,
  { BN, BK, stages, ownColumns }: ProductMeta,
  { rows, arrival, isHere }: Gathered,
): void {
  const multiply = ({ left, right }: Pair, from: Matrix, to: Matrix, j: Scalar): void => {
    const [height, width] = [left.shape[0], right.shape[1]]
    const sum = t.pipeline(
      [ceilDiv(from.dim(1), BK)],
      t.zeros(f32, [height, width]),
      ([k], acc) => {
        t.copy(from.tile([0, k], [height, BK]), left)
        t.copy(b.tile([k, j], [BK, width]), right)
        return t.dot(left, right, acc)
      },
      { stages },
    )
    t.copy(sum.to(c.dtype), to.tile([0, j], [height, width]))
  }
  const height = a.dim(0)
  const rowsOf = (owner: Scalar): Scalar => c.dim(0).sub(owner.mul(height)).max(0).min(height)
  const shardOf = (whole: Matrix, owner: Scalar): Matrix =>
    whole.slice(0, owner.mul(height).min(c.dim(0)), rowsOf(owner))

  // The tiles of this program, as `persistent` assigns them, and the strips of these tiles. Only the last tile of C may
  // have fewer strips than the others.
  const perTile = BN / ownColumns
  const tiles = ceilDiv(c.dim(1), BN).sub(t.program).add(t.programs).sub(1).div(t.programs)
  const tileAt = (n: Scalar): Scalar => n.mul(t.programs).add(t.program)
  const stripAt = (n: Scalar): Scalar => tileAt(n.div(perTile)).mul(perTile).add(n.mod(perTile))
  const outside = tileAt(tiles.sub(1))
    .add(1)
    .mul(perTile)
    .sub(ceilDiv(c.dim(1), ownColumns))
    .max(0)
  const strips = tiles.mul(perTile).sub(outside)

  const hasRows = rowsOf(t.rank).gt(0)
  const begun = t.while(
    t.constant(i32, 0),
    (n) => hasRows.and(n.lt(strips)).and(isHere().not()),
    (n) => {
      multiply(ownStrip, a.slice(0, 0, rowsOf(t.rank)), shardOf(c, t.rank), stripAt(n))
      return n.add(1)
    },
  )
  t.if(tiles.gt(0), () => arrival(t.constant(i32, 0)))
  t.for(begun, (n) =>
    t.for(t.world - 1, (step) => {
      const owner = t.rank.add(step).add(1).mod(t.world)
      t.if(rowsOf(owner).gt(0), () =>
        multiply(ownStrip, shardOf(rows, owner), shardOf(c, owner), stripAt(begun.sub(n).sub(1))),
      )
    }),
  )
  const whole = ceilDiv(begun, perTile)
  t.for({ from: begun, to: whole.mul(perTile).min(strips) }, (n) => multiply(strip, rows, c, stripAt(n)))
  t.for({ from: whole, to: tiles }, (n) => multiply(tile, rows, c, tileAt(n)))
}
