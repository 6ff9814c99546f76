/**
 * All-to-all: every rank has one section of data for each rank, and receives the sections that all ranks have for it.
 *
 *   x         [world, n]: this rank's parts, by destination rank
 *   out       [world, n]: the parts for this rank, by source rank
 *   ready     [world]: a peer has begun this launch, so nothing reads its `out` from the previous launch any more
 *   arrived   [world]: the whole part of a peer is in this rank's `out`
 *
 * Each rank pushes its sections directly into the `out` of its peers, without an inbox and without a second copy. The
 * cost of pushing directly is one signal at the start. A launch ends when all sections have arrived.
 */
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { ceilDiv } from '../../lang/tensor.ts'
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

export const allToAllKernel = perDType((dtype) =>
  kernel(
    'allToAll',
    { x: tensor(dtype, 2), out: tensor(dtype, 2), ready: flags(1), arrived: flags(1) },
    { TILE: defaultTile },
    (t, { x, out, ready, arrived }, { TILE }) => {
      t.if(t.program.eq(0), () => t.signalAll(ready.at([t.rank])))
      t.persistent([t.world, ceilDiv(x.dim(1), TILE)], ([steps, i]) => {
        const peer = rankAfter(t.rank, steps, t.world)
        t.wait(ready.at([peer]))
        t.put(x.pick(peer).tile([i], [TILE]), out.on(peer).pick(t.rank).tile([i], [TILE]))
      })
      t.last(() => t.signalAll(arrived.at([t.rank])))
      t.persistent([t.world], ([source]) => t.wait(arrived.at([source])))
    },
  ),
)

export interface AllToAll<D extends CollectiveDType> {
  /** `x` and `out` both have the shape [ranks, elements]. */
  launch(x: SymmetricTensor<D>, out: SymmetricTensor<D>): void
}

export function allToAll<D extends CollectiveDType>(world: World, given: CollectiveOptions<D>): AllToAll<D> {
  const { dtype, elements } = given
  const { name, options } = settle('allToAll', given)
  const ready = world.flags([world.ranks], { name: `${name}.ready` })
  const arrived = world.flags([world.ranks], { name: `${name}.arrived` })
  return {
    launch(x, out) {
      expectTensor(name, x, dtype, [world.ranks, elements])
      expectTensor(name, out, dtype, [world.ranks, elements])
      world.launch(allToAllKernel(dtype), { x, out, ready, arrived }, options)
    },
  }
}
