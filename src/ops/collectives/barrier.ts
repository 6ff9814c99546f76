/**
 * A barrier between ranks on the device: no rank's later launches (of the stream) begin before all ranks have got here, and
 * they see what all ranks did before. The host waits for nothing, unlike with `world.barrier`.
 *
 *   arrived   [world]: each rank signals all ranks that it is here
 *
 * Nothing goes back: a rank that is ahead only writes a later epoch into the same flag, which satisfies the earlier wait too.
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
