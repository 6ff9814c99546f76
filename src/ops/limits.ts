/** Which tiles a product can be cut into on a GPU. */
import { dtypes } from '../ir/dtype.ts'
import type { OperandDType } from './operation.ts'
import type { ProductShape, Tiles } from './tiles.ts'

/** Of a GPU's shared memory, what tiles may take; some of it is for stores and barriers. */
export const tileMemory = 212 * 1024

/** Of one stage. */
export const stageBytes = ({ BM, BN, BK }: Omit<Tiles, 'stages'>, dtype: OperandDType): number =>
  (BM + BN) * BK * dtypes[dtype].bytes

/**
 * Rows that a tile on a GPU may have: the fewest that cover all, up to 128, and as many as the matrix unit takes at once; instead of 8,
 * the fewest there are, also 16.
 */
export function tileRows(m: number): readonly number[] {
  const covering = [8, 16, 32, 64, 128].find((rows) => rows >= m) ?? 128
  if (covering === 8) return [8, 16]
  return covering > 16 && covering !== 64 ? [covering, 64] : [covering]
}

/** Whether what was measured for another number of rows does for these; on a CPU, if the rule would have cut about as many. */
export const isLegalProduct = (
  target: string,
  { m, dtype }: Pick<ProductShape, 'm' | 'dtype'>,
  tiles: Tiles,
  fallback: Tiles,
): boolean =>
  target === 'cuda'
    ? tileRows(m).includes(tiles.BM) && tiles.stages * stageBytes(tiles, dtype) <= tileMemory
    : 2 * tiles.BM >= fallback.BM && tiles.BM <= 2 * fallback.BM
