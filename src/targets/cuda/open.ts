/** Opens worlds on the GPUs of this machine. */
import { WorldError } from '../../world/world.ts'
import { findCuda } from './driver.ts'
import { withoutComments } from './emit/library.ts'
import type { Compile } from './executables.ts'
import type { CudaPlatform, CudaWorldOptions } from './machine.ts'
import { keptOnDisk, numberFrom } from './node.ts'
import { compileCuda, findNvrtc } from './nvrtc.ts'
import { Device } from './runtime.ts'
import { CudaWorld } from './world.ts'

/** What emitted kernels are written for. */
const computeCapability = 90

let platform: CudaPlatform | { readonly unavailable: string } | undefined

export function openCudaWorld(options: CudaWorldOptions): CudaWorld {
  platform ??= findPlatform()
  if ('unavailable' in platform) throw new WorldError(`there is no cuda target here: ${platform.unavailable}`)
  const timeout = options.timeout ?? numberFrom('ARKE_TIMEOUT')
  return new CudaWorld(platform, { ...options, timeout })
}

function findPlatform(): CudaPlatform | { readonly unavailable: string } {
  const cuda = findCuda()
  if (!cuda.available) return { unavailable: cuda.reason }
  const nvrtc = findNvrtc()
  if (!nvrtc.available) return { unavailable: nvrtc.reason }
  const all = Array.from({ length: cuda.deviceCount }, (_, index) => Device.open(index))
  const devices = all.filter((device) => device.computeCapability === computeCapability)
  if (devices.length === 0)
    return { unavailable: `kernels are written for Hopper GPUs, and here is ${all[0].name}` }
  return { devices, compile: compileAndKeep(nvrtc.version, cuda.driverVersion) }
}

/**
 * Machine code by what was compiled, how, by what and for what. Comments do not count: kernels that differ only in the facts their
 * headers state are compiled once.
 */
export const compileAndKeep =
  (nvrtcVersion: string, driverVersion: number): Compile =>
  (emitted, device) => {
    const { name, source, architecture } = emitted
    const options = { name: `${name}.cu`, architecture, lineInfo: true }
    const key = JSON.stringify([nvrtcVersion, driverVersion, device.name, options, withoutComments(source)])
    return keptOnDisk(key, () => compileCuda(source, options).bytes)
  }

/** For `arke targets`: nothing but the driver is loaded. */
export function cudaStatus(): { readonly usable: boolean; readonly about: string } {
  const cuda = findCuda()
  if (!cuda.available) return { usable: false, about: cuda.reason }
  const nvrtc = findNvrtc()
  if (!nvrtc.available) return { usable: false, about: nvrtc.reason }
  const { deviceCount } = cuda
  return {
    usable: true,
    about: `${deviceCount} device${deviceCount === 1 ? '' : 's'}; ranks beyond that share one, each with multiprocessors of its own`,
  }
}
