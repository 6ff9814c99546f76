/** Loads compiled kernels onto devices. Contract: a kernel is loaded once per device, even if several worlds use it. */
import type { Device, Kernel } from './device.ts'
import type { Emitted, Platform } from './platform.ts'

const loaded = new WeakMap<Device, Map<Emitted, Kernel>>()

export function kernelOn(
  device: Device,
  emitted: Emitted,
  platform: Platform,
  beforeLoading: () => void,
): Kernel {
  let ofDevice = loaded.get(device)
  if (!ofDevice) loaded.set(device, (ofDevice = new Map()))
  let kernel = ofDevice.get(emitted)
  if (!kernel) {
    const code = platform.compile(emitted, device)
    beforeLoading()
    ofDevice.set(emitted, (kernel = device.loadKernel(code, emitted.name)))
  }
  return kernel
}
