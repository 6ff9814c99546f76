/** Which tiles a product is cut into on one rank where nobody said otherwise. */
import { productCandidates } from '../tune/candidates.ts'
import { tilesFor, type Tiling } from '../tune/configurations.ts'
import { fewestProcessors, isCached, type Machine } from '../world/machine.ts'
import { isLegalProduct, usesMatrixUnit } from './limits.ts'
import type { OperandDType } from './operation.ts'

/** A type and not an interface: tables hold tiles of any operation. */
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
  /** The right operand was packed once: its tiles are read where they lie. */
  readonly packed?: boolean
}

/** The extent in whole steps, at most `most`. */
export const upTo = (extent: number, most: number, step: number): number =>
  Math.min(most, Math.ceil(extent / step) * step)

/**
 * In scratch memory, as on a GPU: few rows wait for memory alone: small tiles, many programs, and deep pipelines of them; or one wide tile for nearly
 * every multiprocessor; or, where each has many tiles one after the other, tiles of which two programs share it, so that one copies
 * while the other ends. Many rows want tiles as large as the registers bear, unless there are too few for all multiprocessors.
 */
export function scratchTiles(machine: Machine, { m, n, dtype }: Omit<ProductShape, 'k'>): Tiles {
  const multiprocessors = fewestProcessors(machine)
  if (!usesMatrixUnit(machine, dtype)) return { BM: m <= 16 ? 16 : 64, BN: 64, BK: 32, stages: 3 }
  const wide = Math.ceil(n / 256)
  const isOneEach = wide <= multiprocessors && wide >= 0.87 * multiprocessors
  const isManyEach = n / 64 > 4 * multiprocessors
  if (m <= 16) {
    const BM = m <= 8 ? 8 : 16
    if (isOneEach) return { BM, BN: 256, BK: 64, stages: 6 }
    return isManyEach ? { BM, BN: 128, BK: 64, stages: 6 } : { BM, BN: 64, BK: 128, stages: 8 }
  }
  if (m <= 64) {
    const isWide = isOneEach || isManyEach
    return isWide ? { BM: 64, BN: 256, BK: 64, stages: 4 } : { BM: 64, BN: 64, BK: 128, stages: 6 }
  }
  const isFull = Math.ceil(m / 128) * wide >= 0.87 * multiprocessors
  return isFull ? { BM: 128, BN: 256, BK: 64, stages: 4 } : { BM: 128, BN: 128, BK: 64, stages: 6 }
}

/** How the tiles of a product on one rank are chosen. */
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
 * In caches a tile is as large as the caches bear: whatever is copied into one is used that often. A packed operand costs
 * nothing to read again, so its tiles are wide.
 */
function cachedTiles({ panelSteps = 256 }: Machine, { m, n, k, packed = false }: ProductShape): Tiles {
  return {
    BM: upTo(m, 1024, m < 6 ? 1 : 4),
    BN: upTo(n, packed ? 512 : 1024, 16),
    BK: upTo(k, m < 6 ? 4096 : panelSteps, 4),
    stages: 2,
  }
}
