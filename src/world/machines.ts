/**
 * Descriptions of known machines, for rules and benchmarks that run on other hosts. A world describes its own machine.
 * Facts from the driver take precedence over this file. Only measured facts are taken from here, by the name of the
 * device.
 */
import type { Capabilities, Device, DeviceDescription, DeviceLimits, Machine } from './machine.ts'

/** The capabilities of NVIDIA GPUs since Hopper. `Capabilities` explains each field. */
export const gpuCapabilities: Capabilities = {
  matrixUnit: true,
  copyEngine: true,
  nearPeers: false,
  sharedProcessors: true,
  deviceQueues: true,
}

/**
 * The partitions and the units of allocation of NVIDIA's processors since Ampere, which the driver does not report.
 * They are those of NVIDIA's occupancy calculator.
 */
export const gpuUnits = { partitions: 4, registerUnit: 256, sharedUnit: 128 }

/** Rates measured on one H200 (bench/gpu), and the specified bandwidth of its link. */
const h200Measured = { bandwidth: 4.38e12, flops: 790e12, link: 450e9, launchCost: 4000 }

export const h200: DeviceDescription & DeviceLimits & typeof h200Measured = {
  name: 'NVIDIA H200',
  family: 'cuda',
  processors: 132,
  warp: 32,
  sharedBytes: 232_448,
  perProcessor: {
    programs: 32,
    threads: 2048,
    registers: 65_536,
    sharedBytes: 233_472,
    reservedBytes: 1024,
    ...gpuUnits,
  },
  cacheBytes: 50 * 2 ** 20,
  ...h200Measured,
  capabilities: gpuCapabilities,
}

/** The measured rates of devices with this name. */
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

/**
 * The machine of ranks that are threads of one CPU. `family` is the target that generates the code. The vectors of wasm
 * are narrower.
 */
export function cpuMachine(
  family: string,
  ranks: number,
  {
    workers = 1,
    panelSteps = 256,
    caches = [],
    model,
  }: {
    readonly workers?: number
    readonly panelSteps?: number
    readonly caches?: Machine['caches']
    readonly model?: string
  } = {},
): Machine {
  return {
    name: family,
    family,
    ...(model !== undefined && { model }),
    processors: Array.from({ length: ranks }, () => workers),
    memories: [Array.from({ length: ranks }, (_, rank) => rank)],
    caches,
    warp: 1,
    panelSteps,
    capabilities: cpuCapabilities,
  }
}
