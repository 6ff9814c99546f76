/**
 * The bulk-synchronous way to C = gather(A) x B: an all-gather that ends when everybody has everything, then a plain
 * product. The all-gather puts each shard where the product wants it, so that nothing is moved twice; it starts when every
 * rank has come to it, since only then has the product before read what it overwrites.
 *
 *   gathered  K: [M, ranks x K of a rank]; M: [ranks x M of a rank, K]
 *   entered   [rank]: that rank has come here, this launch
 *   left      [rank]: that rank has put its shard everywhere
 */
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import { announce, leaveTogether } from '../meeting.ts'
import { oncePer, type OperandDType } from '../operation.ts'
import type { Shard } from './product.ts'

export const gatherKernel = oncePer(({ dtype, shard }: { dtype: OperandDType; shard: Shard }) =>
  kernel(
    `allGather${shard}`,
    { a: tensor(dtype, 2), gathered: tensor(dtype, 2), entered: flags(1), left: flags(1) },
    { BM: 64, BK: 256 },
    (t, { a, gathered, entered, left }, { BM, BK }) => {
      const axis = shard === 'K' ? 1 : 0
      const extent = a.dim(axis)
      announce(t, entered)
      t.persistent([t.world, ceilDiv(a.dim(0), BM), ceilDiv(a.dim(1), BK)], ([n, i, k]) => {
        const peer = t.rank.add(n).mod(t.world)
        const place = gathered.on(peer).slice(axis, t.rank.mul(extent), extent)
        t.wait(entered.at([peer]))
        t.put(a.tile([i, k], [BM, BK]), place.tile([i, k], [BM, BK]))
      })
      leaveTogether(t, left)
    },
  ),
)
