/**
 * Reduce-scatter: every rank has one section of data for each rank, and receives the sum of the sections that are meant for it.
 *
 *   x         [world, n]: this rank's parts, by destination rank
 *   out       [n]: the sum of all ranks' parts for this rank
 *   inbox     [2, world, n]: parts by source, in two slots selected by epoch parity
 *   arrived   [world, tiles]: the tile of that source is in this rank's inbox
 *
 * Data is pushed to the other ranks, because a store needs no reply. The arrival flag is signalled after the data. An
 * inbox slot is overwritten two launches after it was written. Before a writer overwrites a slot, it has waited in the
 * previous launch for a signal from every peer. Each peer signals after it has ended the launch that read the slot.
 *
 * The sum is guaranteed to be computed in rank order, with each addition in f32 and one final rounding. All launches of
 * a reduce-scatter therefore get the same bits.
 */
import { f32, i32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import type { SymmetricTensor, World } from '../../world/world.ts'
import {
  defaultTile,
  expectTensor,
  perDType,
  rankAfter,
  settle,
  type CollectiveDType,
  type CollectiveOptions,
} from './collective.ts'

export const reduceScatterKernel = perDType((dtype) =>
  kernel(
    'reduceScatter',
    { x: tensor(dtype, 2), out: tensor(dtype, 1), inbox: tensor(dtype, 3), arrived: flags(2) },
    { TILE: defaultTile },
    (t, { x, out, inbox, arrived }, { TILE }) => {
      const slot = t.epoch(arrived).mod(2).to(i32)
      const tiles = ceilDiv(out.dim(0), TILE)

      t.for({ from: 1, to: t.world }, (steps) => {
        const peer = rankAfter(t.rank, steps, t.world)
        t.persistent([tiles], ([i]) => {
          const target = inbox.on(peer).pick(slot).pick(t.rank)
          t.put(x.pick(peer).tile([i], [TILE]), target.tile([i], [TILE]))
          t.signal(arrived.on(peer).at([t.rank, i]))
        })
      })

      t.persistent([tiles], ([i]) => {
        const of = (source: Scalar) =>
          t.if(
            source.eq(t.rank),
            () => t.load(x.pick(t.rank).tile([i], [TILE])).to(f32),
            () => {
              t.wait(arrived.at([source, i]))
              return t.load(inbox.pick(slot).pick(source).tile([i], [TILE])).to(f32)
            },
          )
        const first = of(t.constant(i32, 0))
        const total = t.for({ from: 1, to: t.world }, first, (source, sum) => sum.add(of(source)))
        t.store(out.tile([i], [TILE]), total.to(dtype))
      })
    },
  ),
)

export interface ReduceScatter<D extends CollectiveDType> {
  /** `x` has the shape [ranks, elements], and `out` has the shape [elements]. */
  launch(x: SymmetricTensor<D>, out: SymmetricTensor<D>): void
}

export function reduceScatter<D extends CollectiveDType>(
  world: World,
  given: CollectiveOptions<D>,
): ReduceScatter<D> {
  const { dtype, elements } = given
  const { tiles, name, options } = settle('reduceScatter', given)
  const inbox = world.empty(dtype, [2, world.ranks, elements], { name: `${name}.inbox` })
  const arrived = world.flags([world.ranks, tiles], { name: `${name}.arrived` })
  return {
    launch(x, out) {
      expectTensor(name, x, dtype, [world.ranks, elements])
      expectTensor(name, out, dtype, [elements])
      world.launch(reduceScatterKernel(dtype), { x, out, inbox, arrived }, options)
    },
  }
}
