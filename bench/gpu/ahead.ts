/**
 * Worlds that compile kernels and run nothing: what a cell launches is compiled, and kept on disk for whoever measures it later, by
 * many processes at once and without memory for its tensors.
 */
import { findCuda, type Driver } from '../../src/targets/cuda/driver.ts'
import type { EmittedKernel } from '../../src/targets/cuda/emit/recipe.ts'
import { findNvrtc } from '../../src/targets/cuda/nvrtc.ts'
import { compileAndKeep } from '../../src/targets/cuda/open.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { fakeDriver } from '../../test/cuda/fakeDriver.ts'
import { stageOptions } from './stage.ts'

/** A fake driver whose device memory is no memory: nothing is ever read or written there. */
function hollowDriver(): Driver {
  const { driver } = fakeDriver()
  const nothing = (): void => {}
  const hollow: Partial<Driver> = {
    cuMemAddressReserve: (to) => void ((to as BigUint64Array)[0] = 1n << 44n),
    cuMemAddressFree: nothing,
    cuMemcpyHtoDAsync_v2: nothing,
    cuMemcpyDtoHAsync_v2: nothing,
    cuMemcpyDtoDAsync_v2: nothing,
  }
  return new Proxy(driver, { get: (all, name: keyof Driver) => hollow[name] ?? all[name] })
}

/** From now on stages are of this kind. Where there is no GPU, kernels are emitted only. */
export function compileAhead(): void {
  const device = new Device(hollowDriver(), 0)
  const [cuda, nvrtc] = [findCuda(), findNvrtc()]
  const isHere = cuda.available && nvrtc.available
  const compile = isHere ? compileAndKeep(nvrtc.version, cuda.driverVersion) : undefined
  const real = isHere ? Device.open(0) : device
  const platform = {
    devices: [device],
    compile: (emitted: EmittedKernel) => compile?.(emitted, real) ?? new Uint8Array(),
  }
  stageOptions.open = (options) => new CudaWorld(platform, options)
  stageOptions.isMeasuring = false
}
