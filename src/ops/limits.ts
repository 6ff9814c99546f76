/**
 * The tile sizes that a matrix product may use on machines whose programs declare their scratch memory (shared memory).
 */
import { dtypes } from '../ir/dtype.ts'
import { isCached, type Machine } from '../world/machine.ts'
import type { OperandDType } from '../operation/definition.ts'
import type { ProductShape, Tiles } from './tiles.ts'

/**
 * The number of bytes of scratch memory that tiles may use. On machines that keep tiles in caches, tiles may have any
 * size.
 */
export const tileMemory = ({
  sharedBytes = Infinity,
  products,
}: Pick<Machine, 'sharedBytes' | 'products'>): number => sharedBytes - (products?.besideTiles ?? 0)

/** The number of bytes of scratch memory that one pipeline stage takes. */
export const stageBytes = ({ BM, BN, BK }: Omit<Tiles, 'stages'>, dtype: OperandDType): number =>
  (BM + BN) * BK * dtypes[dtype].bytes

/** The numbers of rows that a tile may have in a matrix product of `m` rows (`ProductLimits`). */
export function tileRows(
  { name, products }: Pick<Machine, 'name' | 'products'>,
  m: number,
): readonly number[] {
  if (!products)
    throw new TypeError(
      `the machine ${name} has scratch memory, so its description must list the rows of tiles in \`products\``,
    )
  return products.tileRows.find(([covering]) => covering >= m) ?? products.tileRows.at(-1)!
}

/** True if matrix products of this dtype run on the matrix unit. Matrix products of f32 never run on the matrix unit. */
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
    : tileRows(machine, m).includes(tiles.BM) &&
      tiles.stages * stageBytes(tiles, dtype) <= tileMemory(machine)
