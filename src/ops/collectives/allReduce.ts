/** All-reduce on a world, in place. The class allocates the buffers of the chosen variant and launches its kernel. */
import type { SymmetricTensor, World } from '../../world/world.ts'
import { chosen } from '../../operation/definition.ts'
import {
  expectTensor,
  settle,
  tilesOfShare,
  type CollectiveDType,
  type CollectiveOptions,
} from './collective.ts'
import { oneShotAllReduce } from './oneShot.ts'
import { ringAllReduce } from './ring.ts'
import { twoShotAllReduce } from './twoShot.ts'

export type AllReduceVariant = 'oneShot' | 'twoShot' | 'ring'

export interface AllReduceOptions<D extends CollectiveDType> extends CollectiveOptions<D> {
  /**
   * The variant `oneShot` suits small vectors, `twoShot` suits large vectors, and `ring` suits machines whose fast
   * links join only neighbours.
   */
  readonly variant: AllReduceVariant
}

export interface AllReduce<D extends CollectiveDType> {
  /** On every rank, replaces the vector of [elements] by the sum over all ranks. */
  launch(x: SymmetricTensor<D>): void
}

export function allReduce<D extends CollectiveDType>(world: World, given: AllReduceOptions<D>): AllReduce<D> {
  const { dtype, elements, variant } = given
  const settings = settle('allReduce', given)
  const start = chosen('allReduce', starters, variant)(world, dtype, elements, settings)
  return {
    launch(x) {
      expectTensor(settings.name, x, dtype, [elements])
      start(x)
    },
  }
}

type Start = (x: SymmetricTensor<CollectiveDType>) => void
type Starter = (
  world: World,
  dtype: CollectiveDType,
  elements: number,
  settings: ReturnType<typeof settle>,
) => Start

const starters: Readonly<Record<AllReduceVariant, Starter>> = {
  oneShot(world, dtype, elements, { tiles, name, options }) {
    const inbox = world.empty(dtype, [2, world.ranks, elements], { name: `${name}.inbox` })
    const arrived = world.flags([world.ranks, tiles], { name: `${name}.arrived` })
    return (x) => world.launch(oneShotAllReduce(dtype), { x, inbox, arrived }, options)
  },
  twoShot(world, dtype, elements, { tile, name, options }) {
    const { ranks } = world
    const tiles = tilesOfShare(elements, ranks, tile)
    const inbox = world.empty(dtype, [ranks, tiles * tile], { name: `${name}.inbox` })
    const arrived = world.flags([ranks, tiles], { name: `${name}.arrived` })
    const finished = world.flags([ranks, tiles], { name: `${name}.finished` })
    return (x) => world.launch(twoShotAllReduce(dtype), { x, inbox, arrived, finished }, options)
  },
  ring(world, dtype, elements, { tile, name, options }) {
    const hops = world.ranks - 1
    const tiles = tilesOfShare(elements, world.ranks, tile)
    const inbox = world.empty('f32', [hops, tiles * tile], { name: `${name}.inbox` })
    const partial = world.flags([hops, tiles], { name: `${name}.partial` })
    const finished = world.flags([hops, tiles], { name: `${name}.finished` })
    return (x) => world.launch(ringAllReduce(dtype), { x, inbox, partial, finished }, options)
  },
}
