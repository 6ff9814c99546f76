/** Which tiles a product can be cut into where programs declare their scratch memory. */
import { dtypes } from '../ir/dtype.ts'
import { isCached, type Machine } from '../world/machine.ts'
import type { OperandDType } from './operation.ts'
import type { ProductShape, Tiles } from './tiles.ts'

/** Bytes of scratch memory that a program's stores and barriers take. */
const otherScratch = 15 * 1024

/** Bytes of scratch memory that tiles may take; no limit where they lie in caches. */
export const tileMemory = ({ sharedBytes }: Pick<Machine, 'sharedBytes'>): number =>
  sharedBytes === undefined ? Infinity : sharedBytes - otherScratch

/** Of one stage. */
export const stageBytes = ({ BM, BN, BK }: Omit<Tiles, 'stages'>, dtype: OperandDType): number =>
  (BM + BN) * BK * dtypes[dtype].bytes

/**
 * Rows that a tile may have where there is a matrix unit: the fewest that cover all, up to 128, and as many as the unit takes at once;
 * instead of 8, the fewest there are, also 16.
 */
export function tileRows(m: number): readonly number[] {
  const covering = [8, 16, 32, 64, 128].find((rows) => rows >= m) ?? 128
  if (covering === 8) return [8, 16]
  return covering > 16 && covering !== 64 ? [covering, 64] : [covering]
}

/** Numbers of f32 are multiplied without the matrix unit. */
export const usesMatrixUnit = (
  { capabilities }: Pick<Machine, 'capabilities'>,
  dtype: OperandDType,
): boolean => capabilities.matrixUnit && dtype !== 'f32'

/** Whether what was measured for another number of rows does for these; in caches, if the rule would have cut about as many. */
export const isLegalProduct = (
  machine: Machine,
  { m, dtype }: Pick<ProductShape, 'm' | 'dtype'>,
  tiles: Tiles,
  fallback: Tiles,
): boolean =>
  isCached(machine)
    ? 2 * tiles.BM >= fallback.BM && tiles.BM <= 2 * fallback.BM
    : tileRows(m).includes(tiles.BM) && tiles.stages * stageBytes(tiles, dtype) <= tileMemory(machine)
