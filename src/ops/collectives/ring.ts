/**
 * All-reduce around a ring: every rank talks to its next neighbour only. The partial sum of a share travels once around, gaining
 * a rank's part at every hop, and the finished share once more. 2 (world - 1) hops; for large vectors on links that join
 * neighbours. Tiles follow each other, so that all links work at once.
 *
 *   x          [n]: this rank's vector, replaced by the sum
 *   inbox      [world - 1, tiles of a share x TILE] f32: partial sums, by hop
 *   partial    [world - 1, tiles of a share]: the rank before signals that the partial sum of that hop lies in my inbox
 *   finished   [world - 1, tiles of a share]: the rank before signals that the finished tile of that hop lies in my x
 *
 * Push, to the next rank; finished tiles straight into its x, whose part of them went into the sum before it was finished.
 * The inbox needs one slot: what I send ends up in a finished tile that I wait for in the same launch, and that tile was
 * finished after my neighbour had read what I sent.
 *
 * Promised: share s is summed in the order of ranks s, s + 1, …, s - 1, each addition in f32, rounded once: the same bits on all
 * ranks and in every launch. The order differs between shares, so the bits are not those of the other variants. Partial
 * sums travel as f32: of 16-bit dtypes, the first trip takes twice the bytes of the second.
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
      /** The share that is `steps` behind this rank. */
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
