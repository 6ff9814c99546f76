/**
 * C = gather(A) x B in one kernel that loads A directly from its owners. The launch signals that this rank's A is
 * ready, because the kernel that computed A precedes this launch on the stream. The launch ends when every rank has
 * read this rank's A, so that the next kernel on the stream may overwrite A. (In example 07, the kernel that computes A
 * signals that A is ready.)
 *
 *   ready  [rank]: that rank's A is ready in this launch
 *   done   [rank]: that rank has read all shards that it needs
 */
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { announce, leaveTogether } from '../meeting.ts'
import { oncePer, type OperandDType } from '../../operation/definition.ts'
import { product, productMeta, type Shard } from '../gathered/product.ts'

export const pullKernel = oncePer(({ dtype, shard }: { dtype: OperandDType; shard: Shard }) =>
  kernel(
    `allGatherGemmPull${shard}`,
    { a: tensor(dtype, 2), b: tensor(dtype, 2), c: tensor(dtype, 2), ready: flags(1), done: flags(1) },
    productMeta,
    (t, { a, b, c, ready, done }, meta) => {
      const multiply = product(t, shard, { a, b, c }, meta)
      announce(t, ready)
      multiply.ofShards((owner, at, into) => {
        // This rank's own A was ready before the launch, so the program need not wait for it.
        t.if(owner.ne(t.rank), () => t.wait(ready.at([owner])))
        t.copy(a.on(owner).tile(at, [meta.BM, meta.BK]), into)
      })
      leaveTogether(t, done)
    },
  ),
)
