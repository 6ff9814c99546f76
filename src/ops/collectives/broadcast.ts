/**
 * A broadcast sends the root's vector to every rank. The root rank may differ between launches.
 *
 *   x         [n]: the root's vector, and the destination on all other ranks
 *   root      the same rank number on all ranks
 *   ready     [world], on the root: a peer has begun this launch, so nothing reads the peer's x any more
 *   arrived   the whole vector of the root is in this rank's x
 *
 * The root pushes the vector directly into the `x` of its peers. The root sends the vector to each peer separately, so
 * there is one hop and all bytes leave through the root's links.
 */
import { i32 } from '../../lang/dtypes.ts'
import { flags, kernel, scalar, tensor } from '../../lang/kernel.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import { WorldError, type SymmetricTensor, type World } from '../../world/world.ts'
import {
  defaultTile,
  expectTensor,
  perDType,
  rankAfter,
  settle,
  type CollectiveDType,
  type CollectiveOptions,
} from './collective.ts'

export const broadcastKernel = perDType((dtype) =>
  kernel(
    'broadcast',
    { x: tensor(dtype, 1), root: scalar(i32), ready: flags(1), arrived: flags() },
    { TILE: defaultTile },
    (t, { x, root, ready, arrived }, { TILE }) => {
      const isRoot = t.rank.eq(root)
      t.if(isRoot.not().and(t.program.eq(0)), () => t.signal(ready.on(root).at([t.rank])))
      t.if(isRoot, () =>
        t.persistent([t.world - 1, ceilDiv(x.dim(0), TILE)], ([step, i]) => {
          const peer = rankAfter(t.rank, step.add(1), t.world)
          t.wait(ready.at([peer]))
          t.put(x.tile([i], [TILE]), x.on(peer).tile([i], [TILE]))
        }),
      )
      t.last(() =>
        t.if(isRoot, () =>
          t.for({ from: 1, to: t.world }, (steps) => t.signal(arrived.on(rankAfter(t.rank, steps, t.world)))),
        ),
      )
      t.if(isRoot.not(), () => t.wait(arrived))
    },
  ),
)

export interface Broadcast<D extends CollectiveDType> {
  /** On every rank, replaces the vector of [elements] by the vector of the root. */
  launch(x: SymmetricTensor<D>, root: number): void
}

export function broadcast<D extends CollectiveDType>(
  world: World,
  given: CollectiveOptions<D>,
): Broadcast<D> {
  const { dtype, elements } = given
  const { name, options } = settle('broadcast', given)
  const ready = world.flags([world.ranks], { name: `${name}.ready` })
  const arrived = world.flags([], { name: `${name}.arrived` })
  return {
    launch(x, root) {
      expectTensor(name, x, dtype, [elements])
      if (!Number.isInteger(root) || root < 0 || root >= world.ranks)
        throw new WorldError(`${name}: there is no rank ${root} in a world of ${world.ranks}`)
      world.launch(broadcastKernel(dtype), { x, root, ready, arrived }, options)
    },
  }
}
