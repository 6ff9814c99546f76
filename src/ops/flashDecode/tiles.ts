/** Chooses the default tiles of a rank's section of the KV cache. */
import { dtypes } from '../../ir/dtype.ts'
import type { OperandDType } from '../../operation/definition.ts'
import { bandwidthPerRank, fewestProcessors, isCached, type Machine } from '../../world/machine.ts'
import { tileMemory } from '../limits.ts'

/** The tiles are a type alias and not an interface, so that tables can hold tiles of any operation. */
export type DecodeTiles = {
  /** The number of tokens per tile of keys and values. */
  readonly BN: number
  readonly stages: number
  /** The number of splits into which a rank's sequence is divided; 0 selects stream-K shares (parts.ts). */
  readonly splits: number
}

export interface CacheShape {
  readonly batch: number
  readonly queryHeads: number
  readonly kvHeads: number
  readonly D: number
  readonly tokens: number
  readonly dtype: OperandDType
  /** True if a rank that has finished takes over work that other ranks have not done yet. */
  readonly stealing?: boolean
  /** True if the number of programs may differ between ranks, which rules out stream-K shares. */
  readonly uneven?: boolean
}

/**
 * The number of bytes of shared memory that keys and values take. Matrix products of f32 also read the query and the
 * scores from shared memory.
 */
export function cacheTileBytes(
  { queryHeads, kvHeads, D, dtype }: CacheShape,
  { BN, stages }: Pick<DecodeTiles, 'BN' | 'stages'>,
): number {
  const { bytes } = dtypes[dtype]
  return 2 * stages * BN * D * bytes + (dtype === 'f32' ? (queryHeads / kvHeads) * (D + BN) * bytes : 0)
}

/** The largest number of tokens per tile. The scores of a tile with more tokens would not fit into the registers. */
export const mostTokens = ({ queryHeads, kvHeads }: CacheShape): number =>
  queryHeads / kvHeads > 64 ? 64 : 128

function tokensThatFit(machine: Machine, shape: CacheShape, stages: number): number {
  let BN = mostTokens(shape)
  while (BN > 16 && cacheTileBytes(shape, { BN, stages }) > tileMemory(machine)) BN /= 2
  return BN
}

/**
 * True if tiles that were measured for another number of tokens may be used for the given number of tokens. The tiles
 * must fit into shared memory, and every split must have a tile.
 */
export const isLegalCache = (machine: Machine, shape: CacheShape, tiles: DecodeTiles): boolean =>
  tiles.splits <= Math.ceil(shape.tokens / tiles.BN) &&
  !(tiles.splits === 0 && shape.uneven) &&
  (isCached(machine) ||
    (tiles.BN <= mostTokens(shape) && cacheTileBytes(shape, tiles) <= tileMemory(machine)))

/** The bandwidth of one program, in bytes per second, on machines on which this bandwidth was not measured. */
const usualProgramBandwidth = 75e9
/** Seconds, measured on an H200: the fixed time of an execution, and the additional time to combine one more split. */
const fixedTime = 4e-6
const timePerPart = 0.12e-6
/** The default is the smallest number of splits whose estimated time is at most `nearlyBest` times the shortest. */
const nearlyBest = 1.02

/**
 * Estimates the time of an execution with a given number of splits, in seconds. The bandwidth of single programs gives
 * one time, and the memory bandwidth gives another. The estimate adds the fourth powers of the two times, because
 * programs slow each other down close to the memory bandwidth. After attention, every rank combines the partial results
 * of all ranks.
 */
function timeOf(machine: Machine, { batch, kvHeads, tokens, D, dtype }: CacheShape, splits: number): number {
  const heads = batch * kvHeads
  const processors = fewestProcessors(machine)
  const { programBandwidth = usualProgramBandwidth } = machine
  const tileBytes = 2 * tokens * D * dtypes[dtype].bytes
  const byPrograms = (Math.ceil((heads * splits) / processors) * (tileBytes / splits)) / programBandwidth
  const byMemory = (heads * tileBytes) / bandwidthPerRank(machine)
  const combining = Math.ceil(heads / processors) * splits * machine.processors.length * timePerPart
  return fixedTime + Math.sqrt(Math.hypot(byPrograms ** 2, byMemory ** 2)) + combining
}

/**
 * The minimum number of tiles per split if there are more splits than processors, so that each split is worth
 * combining.
 */
const leastTilesPerPart = 4
const mostRounds = 4

function splitsFor(machine: Machine, shape: CacheShape, tiles: number): number {
  const perHead = fewestProcessors(machine) / (shape.batch * shape.kvHeads)
  const oneEach = Math.min(Math.floor(perHead), Math.ceil(tiles))
  const severalEach = Math.min(Math.ceil(mostRounds * perHead), Math.floor(tiles / leastTilesPerPart))
  const most = Math.max(1, oneEach, severalEach)
  const times = Array.from({ length: most }, (_, n) => timeOf(machine, shape, n + 1))
  return 1 + times.findIndex((time) => time <= nearlyBest * Math.min(...times))
}

/** With work stealing, the last 1 / `cutShare` of a rank's (batch, kv head) tiles are cut into splits. */
export const cutShare = 4

const cutOf = (tiles: number): number => Math.ceil(tiles / cutShare)

/** The number of pieces of a rank's cache that are drawn one by one with work stealing. */
export const piecesOf = (tiles: number, splits: number): number => tiles + cutOf(tiles) * (splits - 1)

/**
 * The number of splits that is used with work stealing. With the number of splits chosen for work stealing, a rank
 * waits at the end for at most 1/32 of its work. Sending and combining one more piece takes as long as computing the
 * attention over about 15 tokens, so there is at most one piece per 2048 tokens.
 */
function splitsToSteal({ batch, kvHeads, tokens }: CacheShape): number {
  const tiles = batch * kvHeads
  const mostPieces = (tiles * tokens) / 2048
  return Math.max(1, Math.floor(Math.min(32 / tiles, mostPieces / cutOf(tiles))))
}

const mostStages = 3
/**
 * The largest number of bytes that loads in flight may have per processor. With more bytes in flight, processors get
 * unequal shares of the bandwidth, and on an H200 the slowest processor then ends up to 10 % later.
 */
const mostUnderWay = 2 ** 17 + 2 ** 14

/**
 * Chooses tiles for a machine. On machines with scratch memory, programs copy tiles of the KV cache to the scratch
 * memory.
 */
export function decodeTiles(
  machine: Machine,
  shape: CacheShape,
  given: Partial<DecodeTiles> = {},
): DecodeTiles {
  if (isCached(machine)) {
    const { BN = 64, stages = 2, splits = shape.stealing ? splitsToSteal(shape) : 1 } = given
    return { BN, stages, splits }
  }
  const BN = given.BN ?? tokensThatFit(machine, shape, given.stages ?? mostStages)
  const mostBytes = Math.min(mostUnderWay, tileMemory(machine))
  const stages =
    given.stages ?? (cacheTileBytes(shape, { BN, stages: mostStages }) > mostBytes ? 2 : mostStages)
  return {
    BN,
    stages,
    splits: given.splits ?? splitsFor(machine, shape, shape.tokens / BN),
  }
}
