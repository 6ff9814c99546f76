/**
 * In a ring all-reduce, every rank sends only to the next rank. The partial sum of each share travels once around the
 * ring, and every rank on the way adds its own data. The finished share travels around the ring once more. In a ring
 * all-reduce, the data makes 2 (world - 1) hops. The ring all-reduce suits large vectors on machines whose links join
 * neighbours. Tiles follow each other closely, so that all links are busy at the same time.
 *
 *   x          [n]: this rank's vector, replaced by the sum
 *   inbox      [world - 1, tiles per share x TILE] f32: partial sums, by hop
 *   partial    [world - 1, tiles per share]: the partial sum of that hop is in this rank's inbox
 *   finished   [world - 1, tiles per share]: the finished tile of that hop is in this rank's x
 *
 * Data is pushed to the next rank. Finished tiles go directly into the `x` of the next rank, because the sum already
 * includes the data of the next rank. An inbox needs only one slot per rank, not two that alternate. Every partial sum
 * that a rank sends contributes to a finished tile, and the sender waits for that tile in the same launch. The finished
 * tile exists only after the next rank has read the partial sum.
 *
 * Share s is guaranteed to be summed in the order of ranks s, s + 1, …, s - 1, with each addition in f32 and one final
 * rounding. In a ring all-reduce, all ranks and all launches therefore get the same bits. The order of ranks differs
 * between shares, so the bits differ from those of one-shot and two-shot all-reduce. Partial sums travel as f32, so for
 * 16-bit dtypes the first trip around the ring moves twice as many bytes as the second.
 */
import { f32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import type { Scalar } from '../../lang/value.ts'
import { defaultTile, inboxFor, perDType, shareOf, window } from './collective.ts'

export const ringAllReduce = perDType((dtype) =>
  kernel(
    'ringAllReduce',
    { x: tensor(dtype, 1), inbox: tensor(f32, 2), partial: flags(2), finished: flags(2) },
    { TILE: defaultTile },
    (t, { x, inbox, partial, finished }, { TILE }) => {
      if (t.world === 1) return
      const hops = t.world - 1
      const next = t.rank.add(1).mod(t.world)
      const share = (owner: Scalar) => shareOf(x.dim(0), owner, t.world, TILE)
      /** The share of the vector that belongs to the rank which is `steps` ranks before this one. */
      const behind = (steps: Scalar) => share(t.rank.add(t.world).sub(steps).mod(t.world))

      t.for(hops, (hop) => {
        const passing = behind(hop)
        t.persistent([passing.tiles], ([j]) => {
          const own = t.load(window(x, passing).tile([j], [TILE])).to(f32)
          const sum = t.if(
            hop.eq(0),
            () => own,
            () => {
              const before = hop.sub(1)
              t.wait(partial.at([before, j]))
              return t.load(inboxFor(inbox.pick(before), passing).tile([j], [TILE])).add(own)
            },
          )
          t.store(inboxFor(inbox.on(next).pick(hop), passing).tile([j], [TILE]), sum)
          t.signal(partial.on(next).at([hop, j]))
        })
      })

      const last = share(next)
      t.persistent([last.tiles], ([j]) => {
        const own = t.load(window(x, last).tile([j], [TILE])).to(f32)
        t.wait(partial.at([hops - 1, j]))
        const sum = t.load(inboxFor(inbox.pick(hops - 1), last).tile([j], [TILE])).add(own)
        t.store(window(x, last).tile([j], [TILE]), sum.to(dtype))
        t.store(window(x.on(next), last).tile([j], [TILE]), sum.to(dtype))
        t.signal(finished.on(next).at([0, j]))
      })

      t.for(hops, (hop) => {
        const passing = behind(hop)
        t.persistent([passing.tiles], ([j]) => {
          t.wait(finished.at([hop, j]))
          t.if(hop.lt(hops - 1), () => {
            t.put(window(x, passing).tile([j], [TILE]), window(x.on(next), passing).tile([j], [TILE]))
            t.signal(finished.on(next).at([hop.add(1), j]))
          })
        })
      })
    },
  ),
)
