/**
 * Lists facts about NVIDIA GPUs that are known without a driver, and a description of the H200 for commands that run on
 * hosts without a GPU. On a host with a GPU, the driver reports the limits of the device, and machines.ts adds what the
 * driver does not report, such as measured rates.
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
 * The partitions of a multiprocessor, and the units in which registers and shared memory are allocated, on NVIDIA GPUs
 * since Ampere. The driver does not report these numbers, which are from NVIDIA's occupancy calculator.
 */
export const processorUnits = { partitions: 4, registerUnit: 256, sharedUnit: 128 }

/** Rates measured on one H200 (bench/gpu), and the specified bandwidth of its link. */
const h200Measured = {
  bandwidth: 4.38e12,
  // The bandwidth per program was measured with Flash Decode, for 4 to 9 numbers of splits at each of 17 points: 70 to
  // 81 GB/s per program.
  programBandwidth: 75e9,
  flops: 790e12,
  link: 450e9,
  launchCost: 4000,
}

/**
 * The limits of the tiles of matrix products. Besides its operand tiles, a kernel needs up to 15 KiB of shared memory
 * for barriers and to stage output for TMA. Output tiles have the height of one or two `wgmma` instructions. If a
 * matrix product has fewer rows than one `wgmma` instruction, the transposed product is computed, in which the rows
 * become columns.
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

/** Returns the measured rates of the devices called `name`, or an empty object if none were measured. */
export function measuredOn(name: string): Measured {
  return name === h200.name ? h200Measured : {}
}
