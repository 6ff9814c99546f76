// The CUDA runtime: the device interface (device.ts) through the driver. Here is the device with its memory; streams are in stream.ts,
// kernels in kernel.ts, heaps over several devices in heaps.ts, shares of one in ranks.ts.
// Contract: every failure is a CudaError. It runs machine code and makes none.

import type * as gpu from './device.ts'
import { findCuda, readHandle, readInt, type Driver } from './driver.ts'
import { mapHeaps } from './heaps.ts'
import { Kernel } from './kernel.ts'
import { viewNative } from './node.ts'
import { shareDevice } from './ranks.ts'
import { Stream } from './stream.ts'
import { encodeTensorMap } from './tensormap.ts'
import type { TensorMapShape } from './tensormap.ts'

const DEVICE_ATTRIBUTE = {
  warp: 10,
  sms: 16,
  l2Bytes: 38,
  major: 75,
  minor: 76,
  registers: 82,
  sharedBytesPerBlock: 97,
} as const
const STREAM_NON_BLOCKING = 1
/** Higher than any, which the driver takes for the highest that there is. */
const HIGHEST_PRIORITY = -100
const HOST_PORTABLE_AND_MAPPED = 3

/** The calling thread's, whichever device it is of. */
let currentContext: bigint | null = null

export class Device implements gpu.Device {
  readonly name: string
  readonly warp: number
  readonly sms: number
  /** Of a multiprocessor. */
  readonly registers: number
  readonly l2Bytes: number
  readonly sharedBytesPerBlock: number
  readonly computeCapability: number
  readonly totalBytes: number
  /** The primary context; virtual ranks have their own. */
  readonly context: bigint

  /** Opens a device of this machine, or says why there is none. */
  static open(index = 0): Device {
    const cuda = findCuda()
    if (!cuda.available) throw new Error(`no CUDA here: ${cuda.reason}`)
    if (index >= cuda.deviceCount) {
      throw new RangeError(`there is no device ${index}: this machine has ${cuda.deviceCount}`)
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
    this.sms = attribute(DEVICE_ATTRIBUTE.sms)
    this.registers = attribute(DEVICE_ATTRIBUTE.registers)
    this.l2Bytes = attribute(DEVICE_ATTRIBUTE.l2Bytes)
    this.sharedBytesPerBlock = attribute(DEVICE_ATTRIBUTE.sharedBytesPerBlock)
    this.computeCapability = attribute(DEVICE_ATTRIBUTE.major) * 10 + attribute(DEVICE_ATTRIBUTE.minor)
    this.totalBytes = Number(readHandle((out) => driver.cuDeviceTotalMem_v2(out, index)))
    this.context = readHandle((out) => driver.cuDevicePrimaryCtxRetain(out, index))
    this.makeCurrent(this.context)
  }

  /** Makes a context the calling thread's; every operation on a stream does this itself. */
  makeCurrent(context: bigint): void {
    if (currentContext === context) return
    this.driver.cuCtxSetCurrent(context)
    currentContext = context
  }

  allocate(bytes: number): bigint {
    this.makeCurrent(this.context)
    return readHandle((out) => this.driver.cuMemAlloc_v2(out, bytes))
  }

  /** Waits for the device: never call it while kernels wait for each other. */
  free(address: bigint): void {
    this.makeCurrent(this.context)
    this.driver.cuMemFree_v2(address)
  }

  /** Pinned host memory that kernels can read and write at the same address. */
  allocateHost(bytes: number): gpu.HostMemory {
    this.makeCurrent(this.context)
    const address = readHandle((out) => this.driver.cuMemHostAlloc(out, bytes, HOST_PORTABLE_AND_MAPPED))
    const view = viewNative(address, bytes)
    new Uint8Array(view).fill(0)
    return { address, view, free: () => this.driver.cuMemFreeHost(address) }
  }

  /** An urgent one has the highest priority: what graphs are made of does not share its hardware queue. (That alone lets no copy through.) */
  createStream(urgent = false): Stream {
    this.makeCurrent(this.context)
    const handle = readHandle((out) =>
      urgent
        ? this.driver.cuStreamCreateWithPriority(out, STREAM_NON_BLOCKING, HIGHEST_PRIORITY)
        : this.driver.cuStreamCreate(out, STREAM_NON_BLOCKING),
    )
    return new Stream(this, handle, this.context, this.sms)
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

  share(ranks: number, sms?: number): gpu.Share[] {
    return shareDevice(this, ranks, sms)
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
