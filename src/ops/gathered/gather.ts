/**
 * The all-gather of the bulk-synchronous variant of C = gather(A) x B. A second kernel then computes a plain matrix
 * product.
 *
 * The all-gather writes each shard directly to its final position, so no data is moved twice. A rank sends to a peer
 * once that peer has reached this launch, because only then has the peer's previous matrix product read the buffer. The
 * launch ends when every rank has received all shards.
 *
 *   gathered  K: [M, ranks x K per rank]; M: [ranks x M per rank, K]
 *   entered   [rank]: that rank has reached this launch
 *   left      [rank]: that rank has written its shard to all ranks
 */
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import { announce, leaveTogether } from '../meeting.ts'
import { oncePer, type OperandDType } from '../../operation/definition.ts'
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
