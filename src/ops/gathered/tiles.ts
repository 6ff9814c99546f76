/** The default tiles of the matrix products in All-Gather + GEMM. Tuned tiles take precedence over the default tiles. */

import { isCached, type Machine } from '../../world/machine.ts'
import { scratchTiles, upTo, type ProductShape, type Tiles } from '../tiles.ts'

export type { Tiles }

/**
 * `shape` is the shape that is divided into tiles: the shard if tiles do not span shards, otherwise the whole matrix.
 */
export function defaultTiles(machine: Machine, shape: ProductShape): Tiles {
  if (!isCached(machine)) return scratchTiles(machine, shape)
  const { m: rows, n: columns, k: depth } = shape
  // On a CPU, packed tiles of A and B stay in the L2 cache. With more rows per tile, a tile of B is reused more often.
  // Machines pack panels of at most 32 columns, so BN is a multiple of 32.
  return {
    BM: upTo(rows, rows > 256 ? 128 : 64, 4),
    BN: upTo(columns, 256, 32),
    BK: upTo(depth, 256, 4),
    stages: 2,
  }
}

const fewRows = 128

/**
 * True if a shard has so few rows that tiles of the matrix product should span several shards. Reading B once for each
 * small shard costs more time than waiting for the rows of other ranks.
 */
export const spansShards = (rows: number): boolean => rows < fewRows
