/**
 * All-reduce in one shot: every rank pushes its vector to every other rank and sums up what it gets. One hop, so the
 * fastest for small vectors; every rank sends (world - 1) times its vector.
 *
 *   x         [n]: this rank's vector, replaced by the sum
 *   inbox     [2, world, n]: by source, in two slots by epoch
 *   arrived   [world, tiles]: the source signals that its tile lies in my inbox
 *
 * Push: a store needs no answer, where a load over a link waits for one; the arrival flag follows the data.
 *
 * A slot is written again two launches later. By then the writer has waited, in the launch between, for a signal of every
 * peer, which that peer sent after it had ended the launch that read the slot. So no flag goes back.
 *
 * Promised: the sum in rank order, each addition in f32, rounded once: the same bits on all ranks and in every launch.
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

      // The same tiles fall to the same program again, so that it overwrites only what it has sent itself.
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
