// Builds the machine record of a world on GPUs from the driver's device properties and from earlier measurements on
// devices of the same name.

import type { Capabilities, Machine } from '../../world/machine.ts'
import { measuredOn } from '../../world/machines.ts'
import type { RankPlace } from './placement.ts'

export function describeMachine(
  family: string,
  places: readonly RankPlace[],
  capabilities: Capabilities,
): Machine {
  const [{ device }] = places
  const ranks = places.map((_, rank) => rank)
  const devices = [...new Set(places.map((place) => place.device))]
  const memories = devices.map((one) => ranks.filter((rank) => places[rank].device === one))
  return {
    name: device.name,
    family,
    processors: places.map((place) => place.processors),
    memories,
    caches: memories.map((sharing, at) => ({ level: 2, bytes: devices[at].cacheBytes, ranks: sharing })),
    warp: device.warp,
    sharedBytes: device.sharedBytes,
    registers: device.registers,
    ...measuredOn(device.name),
    capabilities,
  }
}
