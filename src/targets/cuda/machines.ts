/**
 * What is known about NVIDIA GPUs without a driver, and a description of the H200, for rules and benchmarks that run on
 * other hosts. Facts from the driver take precedence. Only measured rates are taken from here, by the name of the device.
 */
import type {
  Capabilities,
  DeviceDescription,
  DeviceLimits,
  Measured,
  ProductLimits,
} from '../../world/machine.ts'

/** The capabilities of NVIDIA GPUs since Hopper. `Capabilities` explains each field. */
export const capabilities: Capabilities = {
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
export const processorUnits = { partitions: 4, registerUnit: 256, sharedUnit: 128 }

/** Rates measured on one H200 (bench/gpu), and the specified bandwidth of its link. */
const h200Measured = { bandwidth: 4.38e12, flops: 790e12, link: 450e9, launchCost: 4000 }

/**
 * The tiles of products. A kernel needs up to 15 KiB besides its tiles, to stage output for the TMA and for barriers.
 * Tiles have the height of one or two `wgmma` instructions; fewer rows are the columns of the transposed product.
 */
export const products: ProductLimits = {
  besideTiles: 15 * 1024,
  tileRows: [[8, 16], [16], [32, 64], [64], [128, 64]],
}

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
    ...processorUnits,
  },
  cacheBytes: 50 * 2 ** 20,
  ...h200Measured,
  capabilities,
  products,
}

/** The measured rates of devices with this name. */
export function measuredOn(name: string): Measured {
  return name === h200.name ? h200Measured : {}
}
