/**
 * Machines that are described here, for rules and benchmarks that run where there is none. A world describes its own machine: what its
 * driver states goes before what is written here, and only what has to be measured is taken from here, by the name of the device.
 */
import type { Capabilities, Device, DeviceDescription, Machine } from './machine.ts'

/** NVIDIA's GPUs from Hopper on: see `Capabilities` for what each means. */
export const gpuCapabilities: Capabilities = {
  matrixUnit: true,
  copyEngine: true,
  nearPeers: false,
  sharedProcessors: true,
  deviceQueues: true,
}

/** What one H200 was measured to do (bench/gpu), and what its link is specified for. */
export const h200Measured = { bandwidth: 4.38e12, flops: 790e12, link: 450e9, launchCost: 4000 }

export const h200: DeviceDescription = {
  name: 'NVIDIA H200',
  family: 'cuda',
  processors: 132,
  warp: 32,
  sharedBytes: 232_448,
  registers: 65_536,
  cacheBytes: 50 * 2 ** 20,
  ...h200Measured,
  capabilities: gpuCapabilities,
}

/** What was measured on devices of that name. */
export function measuredOn(name: string): Pick<Device, 'bandwidth' | 'flops' | 'link' | 'launchCost'> {
  return name === h200.name ? h200Measured : {}
}

const cpuCapabilities: Capabilities = {
  matrixUnit: false,
  copyEngine: false,
  nearPeers: true,
  sharedProcessors: false,
  deviceQueues: false,
}

/** Ranks as threads of one processor. `family` is the target that makes its code; wasm's vectors are narrower. */
export function cpuMachine(
  family: string,
  ranks: number,
  {
    workers = 1,
    panelSteps = 256,
    caches = [],
  }: {
    readonly workers?: number
    readonly panelSteps?: number
    readonly caches?: Machine['caches']
  } = {},
): Machine {
  return {
    name: family,
    family,
    processors: Array.from({ length: ranks }, () => workers),
    memories: [Array.from({ length: ranks }, (_, rank) => rank)],
    caches,
    warp: 1,
    panelSteps,
    capabilities: cpuCapabilities,
  }
}
