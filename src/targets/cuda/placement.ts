// Where the ranks of a world are: devices, multiprocessors, heaps.
// Contract: all heaps lie in one range of addresses that every device of the world can reach, rank r's at `heap + r * stride`.
// One rank has a whole device. Several have a device each where there are as many (no machine with several devices has run this
// yet); otherwise, or where it was said how many multiprocessors each has, they share the first one out.

import type { Device, Share } from './device.ts'

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
    const on = places.map(({ device }) => device)
    const heaps = on[0].mapHeaps(on, heapBytes)
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
  return first.share(ranks, multiprocessors).map((share) => ({ ...share, device: first }))
}

const whole = (device: Device): RankPlace => ({
  device,
  sms: device.sms,
  createStream: () => device.createStream(),
  close: () => {},
})

const reachEachOther = (devices: readonly Device[]): boolean =>
  devices.every((from) => devices.every((to) => from === to || from.canReach(to)))
