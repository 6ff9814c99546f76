/**
 * All-gather: every rank receives the vectors of all ranks.
 *
 *   x         [n]: this rank's vector
 *   out       [world, n]: all vectors, by rank
 *   ready     [world]: a peer has begun this launch, so nothing reads its `out` from the previous launch any more
 *   arrived   [world]: the whole vector of a peer is in this rank's `out`
 *
 * Each rank pushes its vector directly into the `out` of its peers, without an inbox and without a second copy. Pushing
 * directly costs one signal at the start, which takes no time if the peer has already begun the launch. A launch ends
 * when all vectors have arrived.
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

export const allGatherKernel = perDType((dtype) =>
  kernel(
    'allGather',
    { x: tensor(dtype, 1), out: tensor(dtype, 2), ready: flags(1), arrived: flags(1) },
    { TILE: defaultTile },
    (t, { x, out, ready, arrived }, { TILE }) => {
      t.if(t.program.eq(0), () => t.signalAll(ready.at([t.rank])))
      t.persistent([t.world, ceilDiv(x.dim(0), TILE)], ([steps, i]) => {
        const peer = rankAfter(t.rank, steps, t.world)
        t.wait(ready.at([peer]))
        t.put(x.tile([i], [TILE]), out.on(peer).pick(t.rank).tile([i], [TILE]))
      })
      t.last(() => t.signalAll(arrived.at([t.rank])))
      t.persistent([t.world], ([source]) => t.wait(arrived.at([source])))
    },
  ),
)

export interface AllGather<D extends CollectiveDType> {
  /** `x` has the shape [elements], and `out` has the shape [ranks, elements]. */
  launch(x: SymmetricTensor<D>, out: SymmetricTensor<D>): void
}

export function allGather<D extends CollectiveDType>(
  world: World,
  given: CollectiveOptions<D>,
): AllGather<D> {
  const { dtype, elements } = given
  const { name, options } = settle('allGather', given)
  const ready = world.flags([world.ranks], { name: `${name}.ready` })
  const arrived = world.flags([world.ranks], { name: `${name}.arrived` })
  return {
    launch(x, out) {
      expectTensor(name, x, dtype, [elements])
      expectTensor(name, out, dtype, [world.ranks, elements])
      world.launch(allGatherKernel(dtype), { x, out, ready, arrived }, options)
    },
  }
}
