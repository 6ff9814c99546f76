/**
 * The description of the cuda target (../description.ts). Without a world, its machine is an H200, or one with other
 * limits.
 */
import { oneEach, sharedOut, type DeviceDescription } from '../../world/machine.ts'
import type { GivenDevice, TargetDescription } from '../description.ts'
import { h200 } from './machines.ts'

/** The device memory for all worlds of a measurement, and the granularity of its allocations, in bytes. */
const memory = 64 * 2 ** 30
const granularity = 2 ** 21

/** The device without a world, and the one whose limits a text does not state. */
const usualGpu = h200

/** The name differs from that of the usual device, because tiles that were measured there do not apply. */
export function describedGpu({ sharedBytes, registers }: GivenDevice = {}): DeviceDescription {
  if (sharedBytes === undefined && registers === undefined) return usualGpu
  const { perProcessor } = usualGpu
  return {
    ...usualGpu,
    name: 'a GPU that is only described',
    ...(sharedBytes !== undefined && { sharedBytes }),
    perProcessor: {
      ...perProcessor,
      ...(registers !== undefined && { registers }),
      // A processor has room for one program of the largest size.
      ...(sharedBytes !== undefined && { sharedBytes: sharedBytes + perProcessor.reservedBytes }),
    },
  }
}

export const cudaDescription: TargetDescription = {
  options: ['extents', 'oneDevice', 'severalDevices', 'hostSignals', 'record', 'sharedBytes', 'registers'],
  machine: (ranks, severalDevices, given) =>
    severalDevices ? oneEach(describedGpu(given), ranks) : sharedOut(describedGpu(given), ranks),
  // A world allocates its whole heap when it is opened, so worlds that are open together share the memory.
  measuredHeap: (ranks, worlds) => Math.floor(memory / worlds / ranks / granularity) * granularity,
}
