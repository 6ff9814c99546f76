/** The description of the cuda target (../description.ts). Without a world, its machine is an H200. */
import { oneEach, sharedOut } from '../../world/machine.ts'
import { h200 } from '../../world/machines.ts'
import type { TargetDescription } from '../description.ts'

/** The device memory for all worlds of a measurement, and the granularity of its allocations, in bytes. */
const memory = 64 * 2 ** 30
const granularity = 2 ** 21

export const cudaDescription: TargetDescription = {
  options: ['extents', 'oneDevice', 'severalDevices', 'record'],
  machine: (ranks, severalDevices) => (severalDevices ? oneEach(h200, ranks) : sharedOut(h200, ranks)),
  // A world allocates its whole heap when it is opened, so worlds that are open together share the memory.
  measuredHeap: (ranks, worlds) => Math.floor(memory / worlds / ranks / granularity) * granularity,
}
