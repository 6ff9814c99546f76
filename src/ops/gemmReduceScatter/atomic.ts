/**
 * C = scatter(sum over ranks of A x B) in one kernel that adds each tile to an accumulator of its owner, with remote
 * atomic additions.
 *
 *   sums     [rows of a shard, columns of a shard], f32: the accumulator of this rank's shard
 *   zeroed   [rank]: that rank has set its accumulator to zero in this launch
 *   arrived  [source, i, j]: that source has added its tile to the accumulator
 *
 * Each launch sets the accumulator of its own rank to zero before it multiplies. The previous launch on this rank has
 * then ended, so the accumulator has been read. A rank adds to an accumulator after its owner has signalled `zeroed` in
 * the same epoch, so one slot serves all epochs. The sum depends on no earlier launch, also not on a launch that was
 * stopped.
 *
 * The order of the additions differs between launches, so the last bits of sums may differ, too.
 */
import { f32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { oncePer } from '../../operation/definition.ts'
import type { Reduced } from './bulk.ts'
import { blockMeta, eachArrived } from './inbox.ts'
import { partialMeta, partialProduct } from './product.ts'

export const atomicKernel = oncePer(({ dtype, scatter }: Pick<Reduced, 'dtype' | 'scatter'>) =>
  kernel(
    `gemmReduceScatterAtomic${scatter}`,
    {
      a: tensor(dtype, 2),
      b: tensor(dtype, 2),
      c: tensor(dtype, 2),
      sums: tensor(f32, 2),
      zeroed: flags(1),
      arrived: flags(3),
    },
    { ...partialMeta, ...blockMeta },
    (t, { a, b, c, sums, zeroed, arrived }, meta) => {
      const { BM, BN, rows, columns } = meta
      const partial = partialProduct(t, scatter, { a, b }, c, meta)
      t.persistent(sums.tiles([rows, columns]), (block) => t.store(block, t.zeros(f32, [rows, columns])))
      t.last(() => t.signalAll(zeroed.at([t.rank])))
      partial.each('round', (owner, at) => {
        const sum = partial.tile(owner, at)
        t.wait(zeroed.at([owner]))
        t.atomic.add(sums.on(owner).tile(at, [BM, BN]), sum)
        t.signal(arrived.on(owner).at([t.rank, ...at]))
      })
      eachArrived(t, arrived, c, meta, (at) =>
        t.store(c.tile(at, [rows, columns]), t.load(sums.tile(at, [rows, columns])).to(dtype)),
      )
    },
  ),
)
