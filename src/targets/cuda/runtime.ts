// Implements the device interface (../gpu/device.ts) with the CUDA driver. This file contains the device and its
// memory. Streams are in stream.ts, kernels in kernel.ts, heaps over several devices in heaps.ts, and shares of one
// device in ranks.ts. Contract: a driver call that fails throws a CudaError. This file runs machine code, and does not
// compile kernels.

import type { ProcessorLimits } from '../../world/machine.ts'
import type * as gpu from '../gpu/device.ts'
import { findCuda, readHandle, readInt, type Driver } from './driver.ts'
import { mapHeaps } from './heaps.ts'
import { Kernel } from './kernel.ts'
import { processorUnits } from './machines.ts'
import { viewNative } from './node.ts'
import { shareDevice } from './ranks.ts'
import { Stream } from './stream.ts'
import { encodeTensorMap } from './tensormap.ts'
import type { TensorMapShape } from './tensormap.ts'

const DEVICE_ATTRIBUTE = {
  warp: 10,
  processors: 16,
  cacheBytes: 38,
  threadsPerProcessor: 39,
  major: 75,
  minor: 76,
  sharedBytesPerProcessor: 81,
  registersPerProcessor: 82,
  sharedBytes: 97,
  programsPerProcessor: 106,
  reservedBytes: 111,
} as const
const STREAM_NON_BLOCKING = 1
/**
 * The requested priority of an urgent stream. The driver clamps this value to the highest priority that the device has.
 */
const HIGHEST_PRIORITY = -100
const HOST_PORTABLE_AND_MAPPED = 3

/** The CUDA context that is current on the calling thread; it may belong to any device. */
let currentContext: bigint | null = null

export class Device implements gpu.Device {
  readonly name: string
  readonly warp: number
  readonly processors: number
  readonly perProcessor: ProcessorLimits
  readonly cacheBytes: number
  readonly sharedBytes: number
  readonly computeCapability: number
  readonly totalBytes: number
  /** The primary CUDA context of the device. Each virtual rank has a context of its own. */
  readonly context: bigint

  /** Opens a device of this machine, or throws an error that says why the device cannot be opened. */
  static open(index = 0): Device {
    const cuda = findCuda()
    if (!cuda.available) throw new Error(`CUDA is not available: ${cuda.reason}`)
    if (index >= cuda.deviceCount) {
      throw new RangeError(
        `there is no CUDA device ${index}: this machine has ${cuda.deviceCount} devices, numbered from 0`,
      )
    }
    return new Device(cuda.driver, index)
  }

  constructor(
    readonly driver: Driver,
    readonly index: number,
  ) {
    const attribute = (code: number) => readInt((out) => driver.cuDeviceGetAttribute(out, code, index))
    const text = new Uint8Array(256)
    driver.cuDeviceGetName(text, text.length, index)
    this.name = new TextDecoder().decode(text.subarray(0, text.indexOf(0)))
    this.warp = attribute(DEVICE_ATTRIBUTE.warp)
    this.processors = attribute(DEVICE_ATTRIBUTE.processors)
    this.perProcessor = {
      programs: attribute(DEVICE_ATTRIBUTE.programsPerProcessor),
      threads: attribute(DEVICE_ATTRIBUTE.threadsPerProcessor),
      registers: attribute(DEVICE_ATTRIBUTE.registersPerProcessor),
      sharedBytes: attribute(DEVICE_ATTRIBUTE.sharedBytesPerProcessor),
      reservedBytes: attribute(DEVICE_ATTRIBUTE.reservedBytes),
      ...processorUnits,
    }
    this.cacheBytes = attribute(DEVICE_ATTRIBUTE.cacheBytes)
    this.sharedBytes = attribute(DEVICE_ATTRIBUTE.sharedBytes)
    this.computeCapability = attribute(DEVICE_ATTRIBUTE.major) * 10 + attribute(DEVICE_ATTRIBUTE.minor)
    this.totalBytes = Number(readHandle((out) => driver.cuDeviceTotalMem_v2(out, index)))
    this.context = readHandle((out) => driver.cuDevicePrimaryCtxRetain(out, index))
    this.makeCurrent(this.context)
  }

  /**
   * Makes a context current on the calling thread. Every operation on a stream makes the context of the stream current.
   */
  makeCurrent(context: bigint): void {
    if (currentContext === context) return
    this.driver.cuCtxSetCurrent(context)
    currentContext = context
  }

  allocate(bytes: number): bigint {
    this.makeCurrent(this.context)
    return readHandle((out) => this.driver.cuMemAlloc_v2(out, bytes))
  }

  /**
   * Frees memory. To free memory, the driver waits until the device is idle, so `free` must not be called while kernels
   * wait for each other.
   */
  free(address: bigint): void {
    this.makeCurrent(this.context)
    this.driver.cuMemFree_v2(address)
  }

  /** Allocates pinned host memory that kernels can read and write at the same address. */
  allocateHost(bytes: number): gpu.HostMemory {
    this.makeCurrent(this.context)
    const address = readHandle((out) => this.driver.cuMemHostAlloc(out, bytes, HOST_PORTABLE_AND_MAPPED))
    const view = viewNative(address, bytes)
    new Uint8Array(view).fill(0)
    return { address, view, free: () => this.driver.cuMemFreeHost(address) }
  }

  /**
   * Creates a stream. An urgent stream has the highest priority, so that graph launches do not share its hardware
   * queue. (Priority alone is not enough for a copy to execute while kernels wait; see transfers.ts.)
   */
  createStream(urgent = false): Stream {
    this.makeCurrent(this.context)
    const handle = readHandle((out) =>
      urgent
        ? this.driver.cuStreamCreateWithPriority(out, STREAM_NON_BLOCKING, HIGHEST_PRIORITY)
        : this.driver.cuStreamCreate(out, STREAM_NON_BLOCKING),
    )
    return new Stream(this, handle, this.context, this.processors)
  }

  loadKernel(cubin: Uint8Array, name: string): Kernel {
    this.makeCurrent(this.context)
    const library = readHandle((out) =>
      this.driver.cuLibraryLoadData(out, cubin, null, null, 0, null, null, 0),
    )
    const handle = readHandle((out) => this.driver.cuLibraryGetKernel(out, library, name))
    return new Kernel(this, name, handle)
  }

  tensorMap(address: bigint, shape: TensorMapShape): Uint8Array {
    return encodeTensorMap(this.driver, address, shape)
  }

  share(ranks: number, processors?: number): gpu.Share[] {
    return shareDevice(this, ranks, processors)
  }

  canReach(other: Device): boolean {
    return readInt((out) => this.driver.cuDeviceCanAccessPeer(out, this.index, other.index)) === 1
  }

  mapHeaps(devices: readonly Device[], bytes: number): gpu.Heaps {
    return mapHeaps(devices, bytes)
  }

  synchronize(): void {
    this.makeCurrent(this.context)
    this.driver.cuCtxSynchronize()
  }

  close(): void {
    this.driver.cuDevicePrimaryCtxRelease_v2(this.index)
  }
}
