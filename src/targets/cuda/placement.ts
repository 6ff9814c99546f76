// Where the ranks of a world are: devices, multiprocessors, heaps.
// Contract: all heaps lie in one range of addresses that every device of the world can reach, rank r's at `heap + r * stride`.
// One rank has a whole device. Several have a device each where there are as many (no machine with several devices has run this
// yet); otherwise, or where it was said how many multiprocessors each has, they share the first one out.

import type { Driver } from './driver.ts'
import { shareDevice, type Share } from './ranks.ts'
import { readHandle, type Device } from './runtime.ts'

export interface RankPlace extends Share {
  readonly device: Device
}

export interface Placement {
  readonly ranks: readonly RankPlace[]
  readonly heap: bigint
  readonly stride: number
  close(): void
}

export function placeRanks(
  devices: readonly Device[],
  ranks: number,
  heapBytes: number,
  multiprocessors?: number,
): Placement {
  const places = choose(devices, ranks, multiprocessors)
  try {
    const heaps = mapHeaps(
      places.map(({ device }) => device),
      heapBytes,
    )
    return {
      ranks: places,
      ...heaps,
      close() {
        for (const place of places) place.close()
        heaps.close()
      },
    }
  } catch (error) {
    for (const place of places) place.close()
    throw error
  }
}

function choose(devices: readonly Device[], ranks: number, multiprocessors?: number): RankPlace[] {
  const [first] = devices
  if (multiprocessors === undefined) {
    if (ranks === 1) return [whole(first)]
    if (devices.length >= ranks && reachEachOther(devices.slice(0, ranks)))
      return devices.slice(0, ranks).map(whole)
  }
  return shareDevice(first, ranks, multiprocessors).map((share) => ({ ...share, device: first }))
}

const whole = (device: Device): RankPlace => ({
  device,
  sms: device.sms,
  createStream: () => device.createStream(),
  close: () => {},
})

function reachEachOther(devices: readonly Device[]): boolean {
  const can = new Int32Array(1)
  return devices.every((from) =>
    devices.every((to) => {
      if (from === to) return true
      from.driver.cuDeviceCanAccessPeer(can, from.index, to.index)
      return can[0] === 1
    }),
  )
}

// CUmemAllocationProp (pinned memory of a device) and CUmemAccessDesc.
const PINNED = 1
const ON_DEVICE = 1
const READ_AND_WRITE = 3

function allocationOf(device: Device): Int32Array {
  return Int32Array.of(PINNED, 0, ON_DEVICE, device.index, 0, 0, 0, 0)
}

/** A heap on each device, side by side. */
function mapHeaps(
  devices: readonly Device[],
  bytes: number,
): { readonly heap: bigint; readonly stride: number; close(): void } {
  const driver: Driver = devices[0].driver
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
