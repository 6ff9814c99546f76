/**
 * C = scatter(sum over ranks of A x B) in one kernel that adds each tile to an accumulator of its owner, with remote
 * atomic additions.
 *
 *   sums     [2, rows of a shard, columns of a shard], f32: two accumulators, selected by epoch parity
 *   arrived  [source, i, j]: that source has added its tile to the accumulator of this epoch
 *   zeroed   [rank]: that rank has set its accumulator of this epoch to zero, if the epoch is 1 or 2
 *
 * The owner of an accumulator sets it to zero. The program that reads a block of the accumulator of this epoch sets the
 * block to zero at once. The next additions to that accumulator come two launches later. In the launch before these
 * additions, every other rank waits for a signal that the owner sends only after it has set the accumulator to zero. So
 * no rank waits before it adds. Only in epochs 1 and 2, in which the accumulators are used for the first time or for
 * the first time since `world.reset`, the owner sets them to zero at the start of the launch, and the other ranks wait
 * for `zeroed`.
 *
 * The order of the additions differs between launches, so the last bits of sums may differ, too.
 */
import { f32, i32 } from '../../lang/dtypes.ts'
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
      sums: tensor(f32, 3),
      zeroed: flags(1),
      arrived: flags(3),
    },
    { ...partialMeta, ...blockMeta },
    (t, { a, b, c, sums, zeroed, arrived }, meta) => {
      const { BM, BN, rows, columns } = meta
      const eachTile = partialProduct(t, scatter, { a, b }, c, meta)
      const slot = t.epoch(arrived).mod(2).to(i32)
      const isFirst = t.epoch(zeroed).le(2)
      const zeros = t.zeros(f32, [rows, columns])
      t.if(isFirst, () =>
        t.persistent(sums.pick(slot).tiles([rows, columns]), (block) => t.store(block, zeros)),
      )
      t.last(() => t.signalAll(zeroed.at([t.rank])))
      eachTile('round', {
        store({ owner, at }, sum) {
          t.if(isFirst, () => t.wait(zeroed.at([owner])))
          t.atomic.add(sums.on(owner).pick(slot).tile(at, [BM, BN]), sum)
        },
        signal: ({ owner, at }) => t.signal(arrived.on(owner).at([t.rank, ...at])),
      })
      eachArrived(t, arrived, c, meta, (at) => {
        const block = sums.pick(slot).tile(at, [rows, columns])
        t.store(c.tile(at, [rows, columns]), t.load(block).to(dtype))
        t.store(block, zeros)
      })
    },
  ),
)
