/**
 * The tile sizes that a matrix product may use on machines whose programs declare their scratch memory (shared memory).
 */
import { dtypes } from '../ir/dtype.ts'
import { isCached, type Machine } from '../world/machine.ts'
import type { OperandDType } from '../operation/definition.ts'
import type { ProductShape, Tiles } from './tiles.ts'

/** The number of bytes of scratch memory per program that are reserved for output staging and barriers. */
const otherScratch = 15 * 1024

/**
 * The number of bytes of scratch memory that tiles may use. On machines that keep tiles in caches, the number is not
 * limited.
 */
export const tileMemory = ({ sharedBytes }: Pick<Machine, 'sharedBytes'>): number =>
  sharedBytes === undefined ? Infinity : sharedBytes - otherScratch

/** The number of bytes of scratch memory that one pipeline stage takes. */
export const stageBytes = ({ BM, BN, BK }: Omit<Tiles, 'stages'>, dtype: OperandDType): number =>
  (BM + BN) * BK * dtypes[dtype].bytes

/**
 * The numbers of rows that a tile may have on a machine with a matrix unit. The first is the smallest supported number
 * that covers all `m` rows, but at most 128. For `m` above 16, another is 64, which is the height of one matrix
 * instruction. For at most 8 rows, both 8 and 16 are allowed.
 */
export function tileRows(m: number): readonly number[] {
  const covering = [8, 16, 32, 64, 128].find((rows) => rows >= m) ?? 128
  if (covering === 8) return [8, 16]
  return covering > 16 && covering !== 64 ? [covering, 64] : [covering]
}

/** True if products of this dtype run on the matrix unit. Products of f32 never run on the matrix unit. */
export const usesMatrixUnit = (
  { capabilities }: Pick<Machine, 'capabilities'>,
  dtype: OperandDType,
): boolean => capabilities.matrixUnit && dtype !== 'f32'

/**
 * True if tiles that were measured for another number of rows may be used for `m` rows. On machines with caches, `BM`
 * must be within a factor of two of the default `BM`.
 */
export const isLegalProduct = (
  machine: Machine,
  { m, dtype }: Pick<ProductShape, 'm' | 'dtype'>,
  tiles: Tiles,
  fallback: Tiles,
): boolean =>
  isCached(machine)
    ? 2 * tiles.BM >= fallback.BM && tiles.BM <= 2 * fallback.BM
    : tileRows(m).includes(tiles.BM) && tiles.stages * stageBytes(tiles, dtype) <= tileMemory(machine)
