// Builds the machine record of a CUDA world from the driver's device properties and from earlier measurements on
// devices of the same name.

import type { Machine } from '../../world/machine.ts'
import { gpuCapabilities, measuredOn } from '../../world/machines.ts'
import type { RankPlace } from './placement.ts'

export function describeMachine(family: string, places: readonly RankPlace[]): Machine {
  const [{ device }] = places
  const ranks = places.map((_, rank) => rank)
  const devices = [...new Set(places.map((place) => place.device))]
  const memories = devices.map((one) => ranks.filter((rank) => places[rank].device === one))
  return {
    name: device.name,
    family,
    processors: places.map(({ sms }) => sms),
    memories,
    caches: memories.map((sharing, at) => ({ level: 2, bytes: devices[at].l2Bytes, ranks: sharing })),
    warp: device.warp,
    sharedBytes: device.sharedBytesPerBlock,
    perProcessor: device.perProcessor,
    ...measuredOn(device.name),
    capabilities: gpuCapabilities,
  }
}
