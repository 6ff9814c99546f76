/**
 * Describes the cuda target (../description.ts). If kernels are emitted without a world, the cuda target assumes an
 * H200, some of whose limits the user may have changed.
 */
import { oneEach, sharedOut, type DeviceDescription } from '../../world/machine.ts'
import type { GivenDevice, TargetDescription } from '../description.ts'
import { h200 } from './machines.ts'

/**
 * The bytes of device memory for all worlds of a measurement together. Each heap size is a multiple of `granularity`
 * bytes.
 */
const memory = 64 * 2 ** 30
const granularity = 2 ** 21

/**
 * The device for which kernels are emitted if there is no world. The header of an emitted kernel states only limits in
 * which its device differs from `usualGpu`.
 */
const usualGpu = h200

/**
 * Returns a device with the given limits. A device with other limits than the usual device has another name, so that
 * tile sizes that were tuned on the usual device are not used for it.
 */
export function describedGpu({ sharedBytes, registers }: GivenDevice = {}): DeviceDescription {
  if (sharedBytes === undefined && registers === undefined) return usualGpu
  const { perProcessor } = usualGpu
  return {
    ...usualGpu,
    name: 'a GPU known only by its limits',
    ...(sharedBytes !== undefined && { sharedBytes }),
    perProcessor: {
      ...perProcessor,
      ...(registers !== undefined && { registers }),
      // A multiprocessor is assumed to have room for one program that uses the given amount of shared memory.
      ...(sharedBytes !== undefined && { sharedBytes: sharedBytes + perProcessor.reservedBytes }),
    },
  }
}

// The description has no `preference`, so a GPU is measured only if the user asks for it, because the GPU may be in
// use.
export const cudaDescription: TargetDescription = {
  options: [
    ...(['extents', 'group', 'oneDevice', 'severalDevices', 'hostSignals'] as const),
    ...(['record', 'sharedBytes', 'registers'] as const),
  ],
  machine: (ranks, severalDevices, given) =>
    severalDevices ? oneEach(describedGpu(given), ranks) : sharedOut(describedGpu(given), ranks),
  // A world allocates its whole heap when it is opened, so all worlds that are open at the same time must share the
  // device memory.
  measuredHeap: (ranks, worlds) => Math.floor(memory / worlds / ranks / granularity) * granularity,
}
