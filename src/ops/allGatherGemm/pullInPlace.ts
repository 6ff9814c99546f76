/**
 * C = gather(A) x B in one kernel that pulls A from where it lies. The launch says that this rank's A is ready, since what
 * computed it came before on the stream, and ends when every rank has read it, so that what comes after may write it again.
 * (Example 07 leaves the first to the kernel that computes A.)
 *
 *   ready  [rank]: that rank's A is ready, this launch
 *   done   [rank]: that rank has read all it needs
 */
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { announce, leaveTogether } from '../meeting.ts'
import { oncePer, type OperandDType } from '../operation.ts'
import { product, productMeta, type Shard } from './product.ts'

export const pullKernel = oncePer(({ dtype, shard }: { dtype: OperandDType; shard: Shard }) =>
  kernel(
    `allGatherGemmPull${shard}`,
    { a: tensor(dtype, 2), b: tensor(dtype, 2), c: tensor(dtype, 2), ready: flags(1), done: flags(1) },
    productMeta,
    (t, { a, b, c, ready, done }, meta) => {
      const multiply = product(t, shard, { a, b, c }, meta)
      announce(t, ready)
      multiply.ofShards((owner, at, into) => {
        // Its own was ready before the launch.
        t.if(owner.ne(t.rank), () => t.wait(ready.at([owner])))
        t.copy(a.on(owner).tile(at, [meta.BM, meta.BK]), into)
      })
      leaveTogether(t, done)
    },
  ),
)
