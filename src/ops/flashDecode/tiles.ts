/** How a rank's part of the cache is cut where nobody said otherwise. */
import { dtypes } from '../../ir/dtype.ts'
import type { OperandDType } from '../operation.ts'
import { fewestProcessors, isCached, type Machine } from '../../world/machine.ts'
import { tileMemory } from '../limits.ts'

/** A type and not an interface: tables hold tiles of any operation. */
export type DecodeTiles = {
  /** Tokens of a tile. */
  readonly BN: number
  readonly stages: number
  /** Parts of a rank's sequence; 0: even shares of all of them (parts.ts). */
  readonly splits: number
}

export interface CacheShape {
  readonly batch: number
  readonly queryHeads: number
  readonly kvHeads: number
  readonly D: number
  readonly tokens: number
  readonly dtype: OperandDType
  /** A rank that is done goes on with what is left of others. */
  readonly stealing?: boolean
  /** Programs may differ in number from rank to rank: no even shares. */
  readonly uneven?: boolean
}

/** Of keys and values in shared memory; f32 is multiplied from there, query and scores included. */
export function cacheTileBytes(
  { queryHeads, kvHeads, D, dtype }: CacheShape,
  { BN, stages }: Pick<DecodeTiles, 'BN' | 'stages'>,
): number {
  const { bytes } = dtypes[dtype]
  return 2 * stages * BN * D * bytes + (dtype === 'f32' ? (queryHeads / kvHeads) * (D + BN) * bytes : 0)
}

/** The most tokens of a tile; scores of more heads and tokens do not fit the registers. */
export const mostTokens = ({ queryHeads, kvHeads }: CacheShape): number =>
  queryHeads / kvHeads > 64 ? 64 : 128

function tokensThatFit(machine: Machine, shape: CacheShape, stages: number): number {
  let BN = mostTokens(shape)
  while (BN > 16 && cacheTileBytes(shape, { BN, stages }) > tileMemory(machine)) BN /= 2
  return BN
}

/** Whether what was measured for another number of tokens does for these: everything fits, and no part is without a tile. */
export const isLegalCache = (machine: Machine, shape: CacheShape, tiles: DecodeTiles): boolean =>
  tiles.splits <= Math.ceil(shape.tokens / tiles.BN) &&
  !(tiles.splits === 0 && shape.uneven) &&
  (isCached(machine) ||
    (tiles.BN <= mostTokens(shape) && cacheTileBytes(shape, tiles) <= tileMemory(machine)))

/**
 * The fewest parts that keep every multiprocessor busy to the end, or nearly. Beyond one for each multiprocessor a part has some
 * tiles, so that it is worth its combination.
 */
function splitsFor(heads: number, multiprocessors: number, tiles: number): number {
  const oneEach = Math.min(Math.floor(multiprocessors / heads), Math.ceil(tiles))
  const most = Math.max(1, oneEach, Math.min(Math.ceil((4 * multiprocessors) / heads), Math.floor(tiles / 4)))
  const share = (splits: number): number => {
    const each = (heads * splits) / multiprocessors
    return each / Math.ceil(each)
  }
  let best = 1
  for (let splits = 2; splits <= most && share(best) < 0.95; splits++)
    if (share(splits) > share(best)) best = splits
  return best
}

/** Where ranks steal: of a rank's (batch, kv head) tiles one in so many, at the end, is cut into splits. */
export const cutShare = 4

const cutOf = (tiles: number): number => Math.ceil(tiles / cutShare)

/** Pieces of a rank's cache that are drawn one by one where ranks steal. */
export const piecesOf = (tiles: number, splits: number): number => tiles + cutOf(tiles) * (splits - 1)

/**
 * What a rank waits for at the end is then a thirty-second of its work. To send and combine one more piece takes as long as to attend
 * to some fifteen tokens: there is one for every 2048 at most.
 */
function splitsToSteal({ batch, kvHeads, tokens }: CacheShape): number {
  const tiles = batch * kvHeads
  const mostPieces = (tiles * tokens) / 2048
  return Math.max(1, Math.floor(Math.min(32 / tiles, mostPieces / cutOf(tiles))))
}

const mostStages = 3
/** Bytes. With more some multiprocessors get more of the memory, and the others end later: by up to a tenth on an H200. */
const mostUnderWay = 2 ** 17 + 2 ** 14

/** Through scratch memory the cache streams on all multiprocessors. */
export function decodeTiles(
  machine: Machine,
  shape: CacheShape,
  given: Partial<DecodeTiles> = {},
): DecodeTiles {
  if (isCached(machine)) {
    const { BN = 64, stages = 2, splits = shape.stealing ? splitsToSteal(shape) : 1 } = given
    return { BN, stages, splits }
  }
  const { batch, kvHeads, tokens } = shape
  const BN = given.BN ?? tokensThatFit(machine, shape, given.stages ?? mostStages)
  const mostBytes = Math.min(mostUnderWay, tileMemory(machine))
  const stages =
    given.stages ?? (cacheTileBytes(shape, { BN, stages: mostStages }) > mostBytes ? 2 : mostStages)
  return {
    BN,
    stages,
    splits: given.splits ?? splitsFor(batch * kvHeads, fewestProcessors(machine), tokens / BN),
  }
}
