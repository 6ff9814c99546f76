/**
 * Computes the matrix product of shards along K in two passes over C. The first pass multiplies every tile by this
 * rank's own shard, directly from A. The second pass adds the matrix products of all other shards. A rank thus waits
 * for a late peer only after it has done all work that needs no peer. C holds the partial sums between the passes, so C
 * must be f32. Each program has the same tiles in both passes.
 */
import { f32 } from '../../lang/dtypes.ts'
import { ceilDiv, type Ref } from '../../lang/tensor.ts'
import type { Fragment } from '../../lang/value.ts'
import type { OperandDType } from '../../operation/definition.ts'
import type { Multiply, Take } from './product.ts'

export const ownFirst: Multiply = (t, { a, b, c }, { as, bs }, { BM, BN, BK, stages }, take) => {
  const depth = a.dim(1)
  /** One pass over C with the shards of `ranks` ranks, starting with the rank that is `first` ranks after this one. */
  const pass = (
    first: number,
    ranks: number,
    begin: (tile: Ref<OperandDType, 2, 'global'>) => Fragment<'f32', 2>,
    bring: Take,
  ): void =>
    t.persistent(c.tiles([BM, BN]), (ci, [i, j]) => {
      const sum = t.pipeline(
        [ranks, ceilDiv(depth, BK)],
        begin(ci),
        ([step, k], acc) => {
          const owner = t.rank.add(step).add(first).mod(t.world)
          t.copy(b.slice(0, owner.mul(depth), depth).tile([k, j], [BK, BN]), bs)
          bring(owner, [i, k], as)
          return t.dot(as, bs, acc)
        },
        { stages },
      )
      t.copy(sum.to(c.dtype), ci)
    })
  const zeros = () => t.zeros(f32, [BM, BN])
  pass(0, 1, zeros, (_, at, into) => t.copy(a.tile(at, [BM, BK]), into))
  if (t.world > 1) pass(1, t.world - 1, (tile) => t.load(tile).to(f32), take)
}
