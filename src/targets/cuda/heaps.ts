// Maps the heaps of several ranks into one address range with the driver's virtual memory calls.

import type { Heaps } from '../gpu/device.ts'
import { readHandle } from './driver.ts'
import type { Device } from './runtime.ts'

// Constants of CUmemAllocationProp (pinned memory on a device) and CUmemAccessDesc.
const PINNED = 1
const ON_DEVICE = 1
const READ_AND_WRITE = 3

function allocationOf(device: Device): Int32Array {
  return Int32Array.of(PINNED, 0, ON_DEVICE, device.index, 0, 0, 0, 0)
}

/** Allocates one heap per entry of `devices`, at adjacent addresses. */
export function mapHeaps(devices: readonly Device[], bytes: number): Heaps {
  const { driver } = devices[0]
  devices[0].makeCurrent(devices[0].context)
  const granularity = Number(
    readHandle((out) => driver.cuMemGetAllocationGranularity(out, allocationOf(devices[0]), 0)),
  )
  const stride = Math.ceil(bytes / granularity) * granularity
  const range = stride * devices.length
  const heap = readHandle((out) => driver.cuMemAddressReserve(out, range, 0, 0, 0))
  const made: bigint[] = []
  const close = (): void => {
    if (made.length > 0) driver.cuMemUnmap(heap, made.length * stride)
    for (const memory of made) driver.cuMemRelease(memory)
    driver.cuMemAddressFree(heap, range)
  }
  try {
    for (const device of devices) {
      const memory = readHandle((out) => driver.cuMemCreate(out, stride, allocationOf(device), 0))
      driver.cuMemMap(heap + BigInt(made.length) * BigInt(stride), stride, 0, memory, 0)
      made.push(memory)
    }
    const access = [...new Set(devices)].flatMap(({ index }) => [ON_DEVICE, index, READ_AND_WRITE])
    driver.cuMemSetAccess(heap, range, Int32Array.from(access), access.length / 3)
  } catch (error) {
    close()
    throw error
  }
  return { heap, stride, close }
}
