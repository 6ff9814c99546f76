/**
 * All-reduce in two shots: every rank owns a share of the vector. First all push their part of a share to its owner, then the
 * owner pushes the sum to all. Two hops; every rank sends 2 (world - 1) / world of its vector, the least there can be.
 *
 *   x          [n]: this rank's vector, replaced by the sum
 *   inbox      [world, tiles of a share x TILE]: by source, of the share I own
 *   arrived    [world, tiles of a share]: the source signals that its tile lies in my inbox
 *   finished   [world, tiles of a share]: the owner signals that the sum of its tile lies in my x
 *
 * Push, and straight into the peers' x: a peer's arrival says that it has read that tile of its x for the last time. The inbox
 * needs one slot: a source ends its launch after `finished` of every tile, which the owner signals after it has read it.
 *
 * Promised: the sum in rank order, each addition in f32, rounded once, by one rank for all: the same bits on all ranks and
 * in every launch, and the same as `oneShotAllReduce` gives.
 */
import { f32, i32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import type { Scalar } from '../../lang/value.ts'
import { defaultTile, inboxFor, perDType, rankAfter, shareOf, window } from './collective.ts'

export const twoShotAllReduce = perDType((dtype) =>
  kernel(
    'twoShotAllReduce',
    { x: tensor(dtype, 1), inbox: tensor(dtype, 2), arrived: flags(2), finished: flags(2) },
    { TILE: defaultTile },
    (t, { x, inbox, arrived, finished }, { TILE }) => {
      const share = (owner: Scalar) => shareOf(x.dim(0), owner, t.world, TILE)

      t.for({ from: 1, to: t.world }, (steps) => {
        const owner = rankAfter(t.rank, steps, t.world)
        const theirs = share(owner)
        t.persistent([theirs.tiles], ([j]) => {
          const target = inboxFor(inbox.on(owner).pick(t.rank), theirs)
          t.put(window(x, theirs).tile([j], [TILE]), target.tile([j], [TILE]))
          t.signal(arrived.on(owner).at([t.rank, j]))
        })
      })

      const own = share(t.rank)
      t.persistent([own.tiles], ([j]) => {
        const of = (source: Scalar) =>
          t.if(
            source.eq(t.rank),
            () => t.load(window(x, own).tile([j], [TILE])).to(f32),
            () => {
              t.wait(arrived.at([source, j]))
              return t.load(inboxFor(inbox.pick(source), own).tile([j], [TILE])).to(f32)
            },
          )
        const first = of(t.constant(i32, 0))
        const total = t.for({ from: 1, to: t.world }, first, (source, sum) => sum.add(of(source)))
        const result = total.to(dtype)
        t.store(window(x, own).tile([j], [TILE]), result)
        t.for({ from: 1, to: t.world }, (steps) => {
          const peer = rankAfter(t.rank, steps, t.world)
          t.store(window(x.on(peer), own).tile([j], [TILE]), result)
          t.signal(finished.on(peer).at([t.rank, j]))
        })
      })

      t.for({ from: 1, to: t.world }, (steps) => {
        const owner = rankAfter(t.rank, steps, t.world)
        t.persistent([share(owner).tiles], ([j]) => t.wait(finished.at([owner, j])))
      })
    },
  ),
)
