// Builds the machine record of a world on GPUs from the driver's device properties and from rates that were measured on
// devices of the same name.

import type { Machine } from '../../world/machine.ts'
import type { RankPlace } from './placement.ts'
import type { Platform } from './platform.ts'

export function describeMachine(
  platform: Pick<Platform, 'target' | 'capabilities' | 'products' | 'measuredOn'>,
  places: readonly RankPlace[],
): Machine {
  const [{ device }] = places
  const ranks = places.map((_, rank) => rank)
  const devices = [...new Set(places.map((place) => place.device))]
  const memories = devices.map((one) => ranks.filter((rank) => places[rank].device === one))
  return {
    name: device.name,
    family: platform.target,
    processors: places.map((place) => place.processors),
    memories,
    caches: memories.map((sharing, at) => ({ level: 2, bytes: devices[at].cacheBytes, ranks: sharing })),
    warp: device.warp,
    sharedBytes: device.sharedBytes,
    perProcessor: device.perProcessor,
    ...platform.measuredOn(device.name),
    products: platform.products,
    capabilities: platform.capabilities,
  }
}
