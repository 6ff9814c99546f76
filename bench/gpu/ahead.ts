/**
 * Opens worlds that compile kernels but run nothing. The kernels of a measurement cell are compiled into the cache on
 * disk for a later measurement. Many processes can compile concurrently, and no memory is needed for tensors.
 */
import { findCuda, type Driver } from '../../src/targets/cuda/driver.ts'
import type { EmittedKernel } from '../../src/targets/cuda/emit/recipe.ts'
import { findNvrtc } from '../../src/targets/cuda/nvrtc.ts'
import { compileAndKeep } from '../../src/targets/cuda/open.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { fakeDriver } from '../../test/cuda/fakeDriver.ts'
import { stageOptions } from './stage.ts'

/**
 * A fake driver without device memory, whose reads and writes do nothing. The name of the device matters, because it
 * selects the tiles.
 */
function hollowDriver(name: string): Driver {
  const { driver } = fakeDriver()
  const nothing = (): void => {}
  const hollow: Partial<Driver> = {
    cuMemAddressReserve: (to) => void ((to as BigUint64Array)[0] = 1n << 44n),
    cuDeviceGetName: (text) => (text as Uint8Array).set(new TextEncoder().encode(`${name}\0`)),
    cuMemAddressFree: nothing,
    cuStreamWriteValue32_v2: nothing,
    cuMemcpyHtoDAsync_v2: nothing,
    cuMemcpyDtoHAsync_v2: nothing,
    cuMemcpyDtoDAsync_v2: nothing,
  }
  return new Proxy(driver, { get: (all, name: keyof Driver) => hollow[name] ?? all[name] })
}

/**
 * After a call of `compileAhead`, the benchmark compiles kernels in this process and runs none. On a machine without a
 * GPU, kernels are only emitted.
 */
export function compileAhead(): void {
  const [cuda, nvrtc] = [findCuda(), findNvrtc()]
  const isHere = cuda.available && nvrtc.available
  const compile = isHere ? compileAndKeep(nvrtc.version, cuda.driverVersion) : undefined
  const real = isHere ? Device.open(0) : undefined
  const device = new Device(hollowDriver(real?.name ?? 'NVIDIA H200'), 0)
  const platform = {
    devices: [device],
    compile: (emitted: EmittedKernel) => compile?.(emitted, real ?? device) ?? new Uint8Array(),
  }
  stageOptions.open = (options) => new CudaWorld(platform, options)
  stageOptions.isMeasuring = false
}
