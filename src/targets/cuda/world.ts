/** A world of ranks on NVIDIA GPUs. */
import type { GpuWorldOptions } from '../gpu/machine.ts'
import { GpuWorld } from '../gpu/world.ts'
import { CudaPlatform, type CudaDevices } from './platform.ts'
import type { Stream } from './stream.ts'

export class CudaWorld extends GpuWorld {
  constructor(devices: CudaDevices, options: GpuWorldOptions) {
    super(new CudaPlatform(devices), options)
  }

  override driverStream(rank: number, stream = 0): Stream {
    return super.driverStream(rank, stream) as Stream
  }
}
