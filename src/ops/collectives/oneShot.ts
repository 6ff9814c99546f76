/**
 * One-shot all-reduce: every rank pushes its vector to every other rank and sums the vectors that it receives. In a
 * one-shot all-reduce, the data makes only one hop, so this variant is the fastest for small vectors. Every rank sends
 * (world - 1) times the bytes of its vector.
 *
 *   x         [n]: this rank's vector, replaced by the sum
 *   inbox     [2, world, n]: vectors by source, in two slots selected by epoch parity
 *   arrived   [world, tiles]: the tile of that source is in this rank's inbox
 *
 * Data is pushed to the other ranks, because a store needs no reply, whereas a load over a link waits for a reply. The
 * arrival flag is signalled after the data is stored.
 *
 * An inbox slot is overwritten two launches after it was written. Before a writer overwrites a slot, it has waited in
 * the previous launch for a signal from every peer. Each peer sends its signal after it has ended the launch that read
 * the slot, so the reader needs to return no flag.
 *
 * The sum is guaranteed to be computed in rank order, with each addition in f32 and one final rounding. In a one-shot
 * all-reduce, all ranks and all launches therefore get the same bits.
 */
import { f32, i32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import { defaultTile, perDType, rankAfter } from './collective.ts'

export const oneShotAllReduce = perDType((dtype) =>
  kernel(
    'oneShotAllReduce',
    { x: tensor(dtype, 1), inbox: tensor(dtype, 3), arrived: flags(2) },
    { TILE: defaultTile },
    (t, { x, inbox, arrived }, { TILE }) => {
      const slot = t.epoch(arrived).mod(2).to(i32)
      const tiles = ceilDiv(x.dim(0), TILE)

      t.persistent([tiles], ([i]) => {
        const mine = t.load(x.tile([i], [TILE]))
        t.for({ from: 1, to: t.world }, (steps) => {
          const peer = rankAfter(t.rank, steps, t.world)
          t.store(inbox.on(peer).pick(slot).pick(t.rank).tile([i], [TILE]), mine)
          t.signal(arrived.on(peer).at([t.rank, i]))
        })
      })

      // Both loops assign the same tiles to the same program. A program therefore overwrites only tiles that it has
      // sent itself.
      t.persistent([tiles], ([i]) => {
        const of = (source: Scalar) =>
          t.if(
            source.eq(t.rank),
            () => t.load(x.tile([i], [TILE])).to(f32),
            () => {
              t.wait(arrived.at([source, i]))
              return t.load(inbox.pick(slot).pick(source).tile([i], [TILE])).to(f32)
            },
          )
        const first = of(t.constant(i32, 0))
        const total = t.for({ from: 1, to: t.world }, first, (source, sum) => sum.add(of(source)))
        t.store(x.tile([i], [TILE]), total.to(dtype))
      })
    },
  ),
)
