/**
 * C = scatter(sum over ranks of A x B) in one kernel in which partial sums travel around the ring of ranks. Every rank
 * sends only to the next rank. The sum of a tile starts at the rank after its owner. Each rank on the way adds its own
 * partial product, and the owner adds the last one.
 *
 *   inbox    [2, hop, rows of a shard, columns of a shard]: partial sums by hop, two slots selected by epoch parity
 *   arrived  [hop, i, j]: the partial sum of that tile is in the inbox, after hop + 1 ranks have added to it
 *
 * A rank uses the partial sum as the initial value of the accumulator of its own product, so that the sum needs no
 * additional registers and no additional pass over memory.
 *
 * The reader of an inbox returns no credits. Rank r writes a slot of rank r + 1 two launches after its last write
 * there. In the launch in between, rank r has completed its own shard. The sums of that shard started at rank r + 1,
 * which had therefore ended the launch that read the slot.
 *
 * No rank waits for ever: a tile of step s needs only the same tile of step s - 1, and every program computes its tiles
 * in the order of the steps.
 *
 * The sum is guaranteed to start with the rank after the owner and to end with the owner. All launches therefore return
 * the same bits. If partial sums travel in 16 bits, every hop rounds the partial sum.
 */
import { f32, i32 } from '../../lang/dtypes.ts'
import { kernel, tensor } from '../../lang/kernel.ts'
import type { Fragment } from '../../lang/value.ts'
import { oncePer } from '../../operation/definition.ts'
import type { Reduced } from './bulk.ts'
import { mail } from './inbox.ts'
import { partialMeta, partialProduct, type TileIndex } from './product.ts'

export const ringKernel = oncePer(({ dtype, wire, scatter }: Reduced) =>
  kernel(
    `gemmReduceScatterRing${scatter}`,
    { a: tensor(dtype, 2), b: tensor(dtype, 2), c: tensor(dtype, 2), ...mail(wire) },
    partialMeta,
    (t, { a, b, c, inbox, arrived }, meta) => {
      const { BM, BN } = meta
      const eachTile = partialProduct(t, scatter, { a, b }, c, meta)
      const finish = (at: TileIndex, sum: Fragment<'f32', 2>): void =>
        t.store(c.tile(at, [BM, BN]), sum.to(dtype))
      if (t.world === 1) return eachTile('owner', { store: ({ at }, sum) => finish(at, sum) })
      const next = t.rank.add(1).mod(t.world)
      const from = t.epoch(arrived, 'wait').mod(2).to(i32)
      const to = t.epoch(arrived).mod(2).to(i32)
      eachTile('owner', {
        begin: ({ at }, step) =>
          t.if(
            step.gt(0),
            () => {
              const hop = step.sub(1)
              t.wait(arrived.at([hop, ...at]))
              return t.load(inbox.pick(from).pick(hop).tile(at, [BM, BN])).to(f32)
            },
            () => t.zeros(f32, [BM, BN]),
          ),
        store: ({ at }, sum, step) =>
          t.if(
            step.lt(t.world - 1),
            () => {
              t.store(inbox.on(next).pick(to).pick(step).tile(at, [BM, BN]), sum.to(wire))
              t.signal(arrived.on(next).at([step, ...at]))
            },
            () => finish(at, sum),
          ),
      })
    },
  ),
)
