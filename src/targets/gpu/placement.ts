// Places the ranks of a world on devices, multiprocessors and heaps. Contract: the heaps of all ranks are in one
// address range that every device of the world can access; rank r's heap starts at `heap + r * stride`. If a world has
// one rank, this rank uses a whole device. Several ranks use one device each if there are enough devices (worlds on
// several devices have not run on hardware yet). If there are too few devices, or if `multiprocessors` is given, all
// ranks share the first device.

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
  processors: device.processors,
  createStream: () => device.createStream(),
  close: () => {},
})

const reachEachOther = (devices: readonly Device[]): boolean =>
  devices.every((from) => devices.every((to) => from === to || from.canReach(to)))
