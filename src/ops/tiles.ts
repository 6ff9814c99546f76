/** Which tiles a product is cut into on one rank where nobody said otherwise. */

export interface Tiles {
  readonly BM: number
  readonly BN: number
  readonly BK: number
  readonly stages: number
}

export interface ProductShape {
  readonly m: number
  readonly n: number
  readonly k: number
  /** The right operand was packed once: its tiles are read where they lie. */
  readonly packed?: boolean
}

/** The extent in whole steps, at most `most`. */
export const upTo = (extent: number, most: number, step: number): number =>
  Math.min(most, Math.ceil(extent / step) * step)

/**
 * On a CPU a tile is as large as the caches bear: whatever is copied into one is used that often. A packed operand costs
 * nothing to read again, so its tiles are wide.
 */
export function gemmTiles(target: string, { m, n, k, packed = false }: ProductShape): Tiles {
  if (target === 'cuda') return { BM: 128, BN: 256, BK: 64, stages: 4 }
  return {
    BM: upTo(m, 1024, m < 6 ? 1 : 4),
    BN: upTo(n, packed ? 512 : 1024, 16),
    BK: upTo(k, m < 6 ? 4096 : 256, 4),
    stages: 2,
  }
}
