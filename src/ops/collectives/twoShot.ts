/**
 * In a two-shot all-reduce, every rank owns one share of the vector. First, every rank pushes its data for each share to
 * the owner of that share. After summing, the owner of a share pushes the sum to all ranks. In a two-shot all-reduce,
 * the data makes two hops. Every rank sends 2 (world - 1) / world times the bytes of its vector, which is the minimum.
 *
 *   x          [n]: this rank's vector, replaced by the sum
 *   inbox      [world, tiles per share x TILE]: parts of this rank's own share, by source
 *   arrived    [world, tiles per share]: the tile of that source is in this rank's inbox
 *   finished   [world, tiles per share]: the owner has written the sum of that tile into this rank's x
 *
 * Data is pushed, and sums go directly into the `x` of the peers. The arrival of a peer's tile shows that the peer has
 * finished reading that tile of its `x`. An inbox needs only one slot per rank, not two that alternate. A source rank
 * ends its launch only after `finished` was signalled for every tile, and the owner signals `finished` after it has
 * read the source's tile.
 *
 * The sum is guaranteed to be computed in rank order by one rank, with each addition in f32 and one final rounding. All
 * ranks and all launches therefore get the same bits, which equal the result of `oneShotAllReduce`.
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
