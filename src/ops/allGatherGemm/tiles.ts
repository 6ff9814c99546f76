/** Which tiles a product is cut into where nobody said otherwise. A choice made by measuring stands above these. */

import { upTo, type Tiles } from '../tiles.ts'

export type { Tiles }

/** `rows`, `columns` and `depth` are of what one tile is cut from: of a shard, where that is smaller. */
export function defaultTiles(target: string, rows: number, columns: number, depth: number): Tiles {
  if (target === 'cuda') return { BM: 128, BN: 256, BK: 64, stages: 4 }
  // On a CPU a tile of A and one of B lie in the second cache, packed; more rows use a tile of B longer. No machine packs
  // panels of more than 32 columns, so a tile has a whole number of them.
  return {
    BM: upTo(rows, rows > 256 ? 128 : 64, 4),
    BN: upTo(columns, 256, 32),
    BK: upTo(depth, 256, 4),
    stages: 2,
  }
}
