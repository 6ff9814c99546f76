/**
 * A rank barrier on the device. On each rank, later launches of the stream begin only after all ranks have reached the
 * barrier, and they see all earlier writes of all ranks. Unlike with `world.barrier`, the host does not wait.
 *
 *   arrived   [world]: each rank signals all ranks that it has reached the barrier
 *
 * The rank barrier does not need a second signal by which the waiting ranks confirm the first signal. A rank that is
 * one launch ahead writes the next epoch into the same flag, which also satisfies a wait for the current epoch.
 */
import { flags, kernel } from '../../lang/kernel.ts'
import type { World } from '../../world/world.ts'
import type { CollectiveOptions } from './collective.ts'

export const barrierKernel = kernel('barrier', { arrived: flags(1) }, (t, { arrived }) => {
  t.signalAll(arrived.at([t.rank]))
  t.for(t.world, (source) => t.wait(arrived.at([source])))
})

export interface Barrier {
  launch(): void
}

export function barrier(world: World, options: Pick<CollectiveOptions, 'stream' | 'name'> = {}): Barrier {
  const { stream, name = 'barrier' } = options
  const arrived = world.flags([world.ranks], { name: `${name}.arrived` })
  return { launch: () => world.launch(barrierKernel, { arrived }, { grid: 1, stream }) }
}
