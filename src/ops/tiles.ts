/** Chooses the default tiles of a matrix product on one rank. */
import { productCandidates } from '../tune/candidates.ts'
import { tilesFor, type Tiling } from '../tune/configurations.ts'
import { fewestProcessors, isCached, type Machine } from '../world/machine.ts'
import { isLegalProduct, stageBytes, tileMemory, tileRows, usesMatrixUnit } from './limits.ts'
import type { OperandDType } from '../operation/definition.ts'

/** The tiles are a type alias and not an interface, so that the type is assignable to the index signature of tables. */
export type Tiles = {
  readonly BM: number
  readonly BN: number
  readonly BK: number
  readonly stages: number
}

export interface ProductShape {
  readonly m: number
  readonly n: number
  readonly k: number
  readonly dtype: OperandDType
  /** True if the right operand was packed once, so that its tiles are read in place. */
  readonly packed?: boolean
}

/** The extent rounded up to a multiple of `step`, but at most `most`. */
export const upTo = (extent: number, most: number, step: number): number =>
  Math.min(most, Math.ceil(extent / step) * step)

/**
 * Default tiles for a machine with scratch memory, such as a GPU. Default tiles are reduced until they fit into the scratch memory.
 *
 * Matrix products of few rows are limited by memory bandwidth. By default, products of few rows use small tiles in deep
 * pipelines. If wide tiles keep nearly all processors busy with one tile each, products of few rows use wide tiles. If
 * each processor has many tiles, the tiles are small enough for two programs per processor. If two programs share a
 * processor, one program can copy while the other finishes. Products of many rows use the largest tiles that the
 * registers hold, unless that leaves processors without a tile.
 */
export function scratchTiles(machine: Machine, shape: Omit<ProductShape, 'k'>): Tiles {
  return fitted(machine, wantedTiles(machine, shape), shape.dtype)
}

function wantedTiles(machine: Machine, { m, n, dtype }: Omit<ProductShape, 'k'>): Tiles {
  const processors = fewestProcessors(machine)
  if (!usesMatrixUnit(machine, dtype)) return { BM: m <= 16 ? 16 : 64, BN: 64, BK: 32, stages: 3 }
  const wide = Math.ceil(n / 256)
  const isOneEach = wide <= processors && wide >= 0.87 * processors
  const isManyEach = n / 64 > 4 * processors
  if (m <= 16) {
    const [BM] = tileRows(machine, m)
    if (isOneEach) return { BM, BN: 256, BK: 64, stages: 6 }
    return isManyEach ? { BM, BN: 128, BK: 64, stages: 6 } : { BM, BN: 64, BK: 128, stages: 8 }
  }
  if (m <= 64) {
    const isWide = isOneEach || isManyEach
    return isWide ? { BM: 64, BN: 256, BK: 64, stages: 4 } : { BM: 64, BN: 64, BK: 128, stages: 6 }
  }
  const isFull = Math.ceil(m / 128) * wide >= 0.87 * processors
  return isFull ? { BM: 128, BN: 256, BK: 64, stages: 4 } : { BM: 128, BN: 128, BK: 64, stages: 6 }
}

/**
 * Shrinks tiles until they fit into the scratch memory. The function first reduces the stages (to three at least), then
 * the width, then the depth, and finally the stages again (to two at least).
 */
function fitted(machine: Machine, tiles: Tiles, dtype: OperandDType): Tiles {
  const fitting = Math.floor(tileMemory(machine) / stageBytes(tiles, dtype))
  if (fitting >= Math.min(3, tiles.stages)) return { ...tiles, stages: Math.min(fitting, tiles.stages) }
  if (tiles.BN > 64) return fitted(machine, { ...tiles, BN: tiles.BN / 2 }, dtype)
  if (tiles.BK > 32) return fitted(machine, { ...tiles, BK: tiles.BK / 2 }, dtype)
  return { ...tiles, stages: Math.max(2, fitting) }
}

/** The options for choosing the tiles of a matrix product on one rank. */
export function gemmTiling(machine: Machine, shape: ProductShape): Tiling<Tiles> {
  const { m, n, k, dtype } = shape
  const fallback = (): Tiles =>
    isCached(machine) ? cachedTiles(machine, shape) : scratchTiles(machine, shape)
  return {
    asked: {
      ...{
        operation: 'gemm',
        dtype,
        ranks: 1,
        processors: fewestProcessors(machine),
        device: machine.name,
      },
      shape: { M: m, N: n, K: k },
    },
    fallback,
    isLegal: (tiles) => isLegalProduct(machine, shape, tiles, fallback()),
    candidates: () => productCandidates(machine, shape, fallback()),
  }
}

export const gemmTiles = (machine: Machine, shape: ProductShape): Tiles =>
  isCached(machine) ? cachedTiles(machine, shape) : tilesFor(gemmTiling(machine, shape)).tiles

/**
 * Default tiles for a machine that holds tiles in caches. The default tiles are as large as the caches allow, because each copied
 * element is then used more often. A packed operand needs no copy, so its tiles can be narrower than those of other operands.
 */
function cachedTiles({ panelSteps = 256 }: Machine, { m, n, k, packed = false }: ProductShape): Tiles {
  return {
    BM: upTo(m, 1024, m < 6 ? 1 : 4),
    BN: upTo(n, packed ? 512 : 1024, 16),
    BK: upTo(k, m < 6 ? 4096 : panelSteps, 4),
    stages: 2,
  }
}
