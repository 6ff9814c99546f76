/** Opens worlds on the GPUs of this machine. */
import { WorldError } from '../../world/world.ts'
import type { GpuWorldOptions } from '../gpu/machine.ts'
import { findCuda } from './driver.ts'
import type { Compile, CudaDevices } from './platform.ts'
import { keptOnDisk, numberFrom } from './node.ts'
import { compileCuda, findNvrtc } from './nvrtc.ts'
import { Device } from './runtime.ts'
import { CudaWorld } from './world.ts'

/** The compute capability for which kernels are emitted: 9.0. */
const computeCapability = 90

let platform: CudaDevices | { readonly unavailable: string } | undefined

export function openCudaWorld(options: GpuWorldOptions): CudaWorld {
  platform ??= findPlatform()
  if ('unavailable' in platform)
    throw new WorldError(`the cuda target is not available: ${platform.unavailable}`)
  const timeout = options.timeout ?? numberFrom('ARKE_TIMEOUT')
  return new CudaWorld(platform, { ...options, timeout })
}

function findPlatform(): CudaDevices | { readonly unavailable: string } {
  const cuda = findCuda()
  if (!cuda.available) return { unavailable: cuda.reason }
  const nvrtc = findNvrtc()
  if (!nvrtc.available) return { unavailable: nvrtc.reason }
  const all = Array.from({ length: cuda.deviceCount }, (_, index) => Device.open(index))
  const devices = all.filter((device) => device.computeCapability === computeCapability)
  if (devices.length === 0)
    return {
      unavailable: `a Hopper GPU (compute capability 9.0) is required, but this machine has ${all[0].name}`,
    }
  return { devices, compile: compileAndKeep(nvrtc.version, cuda.driverVersion) }
}

/**
 * Compiles kernels and caches the machine code on disk. The cache key consists of the code, the compiler options, the
 * versions of NVRTC and the driver, and the device name. Kernels that differ only in comments (the facts of the header,
 * the lines of the author's source) are compiled once.
 */
export const compileAndKeep =
  (nvrtcVersion: string, driverVersion: number): Compile =>
  (emitted, device) => {
    const { name, source, code, architecture } = emitted
    const options = { name: `${name}.cu`, architecture, lineInfo: true }
    const key = JSON.stringify([nvrtcVersion, driverVersion, device.name, options, code])
    return keptOnDisk(key, () => compileCuda(source, options).bytes)
  }

/**
 * Returns the status of the cuda target for `arke targets`. This function loads the CUDA driver and NVRTC, but opens no
 * device.
 */
export function cudaStatus(): { readonly usable: boolean; readonly about: string } {
  const cuda = findCuda()
  if (!cuda.available) return { usable: false, about: cuda.reason }
  const nvrtc = findNvrtc()
  if (!nvrtc.available) return { usable: false, about: nvrtc.reason }
  const { deviceCount } = cuda
  return {
    usable: true,
    about: `${deviceCount} device${deviceCount === 1 ? '' : 's'}; if a world has more ranks, they share the first device, each with its own multiprocessors`,
  }
}
