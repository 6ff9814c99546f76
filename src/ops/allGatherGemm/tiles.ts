/** Which tiles a product is cut into where nobody said otherwise. A choice made by measuring stands above these. */

import { isCached, type Machine } from '../../world/machine.ts'
import { scratchTiles, upTo, type ProductShape, type Tiles } from '../tiles.ts'

export type { Tiles }

/** The shape is of what one tile is cut from: of a shard, where that is smaller. */
export function defaultTiles(machine: Machine, shape: ProductShape): Tiles {
  if (!isCached(machine)) return scratchTiles(machine, shape)
  const { m: rows, n: columns, k: depth } = shape
  // On a CPU a tile of A and one of B lie in the second cache, packed; more rows use a tile of B longer. No machine packs
  // panels of more than 32 columns, so a tile has a whole number of them.
  return {
    BM: upTo(rows, rows > 256 ? 128 : 64, 4),
    BN: upTo(columns, 256, 32),
    BK: upTo(depth, 256, 4),
    stages: 2,
  }
}
