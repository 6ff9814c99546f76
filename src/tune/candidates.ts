/**
 * Tiles worth trying, the default first. What a target refuses is not left out here for every reason it may have: whoever tries
 * them finds out. On a GPU: tiles that shared memory and registers hold, in numbers that keep multiprocessors busy to the end; with as
 * many stages as fit for one program on a multiprocessor and for two, and a number between: ranks that share a device's memory
 * keep step better when each has less under way.
 */
import type { CacheShape, DecodeTiles } from '../ops/flashDecode/tiles.ts'
import { cacheTileBytes, isLegalCache, mostTokens } from '../ops/flashDecode/tiles.ts'
import { stageBytes, tileMemory, tileRows } from '../ops/limits.ts'
import type { ProductShape, Tiles } from '../ops/tiles.ts'
import type { Numbers } from './tables.ts'

const columns = [32, 64, 112, 128, 224, 256]
const depths = [64, 128, 256]
const mostStages = 12
/** Of the best: how busy the multiprocessors must be, on average over all rounds of tiles. */
const leastBusy = 0.75

export function productCandidates(target: string, shape: ProductShape, fallback: Tiles): Tiles[] {
  if (target !== 'cuda') return unique([fallback, ...aroundProduct(shape, fallback)])
  const { m, n, k, dtype, multiprocessors = 132 } = shape
  const rows = tileRows(m).filter((BM) => dtype !== 'f32' || (BM >= 16 && BM <= 64))
  const tiles = rows.flatMap((BM) =>
    columns
      // No tile of zeros; and the matrix unit reads panels of 32 columns alone, without which 128 rows do not fit the registers.
      .filter((BN) => BN < 2 * n && (BM < 128 || BN % 32 === 0))
      .map((BN) => ({ BM, BN, busy: busyShare(Math.ceil(m / BM) * Math.ceil(n / BN), multiprocessors) })),
  )
  const busiest = Math.max(...tiles.map(({ busy }) => busy))
  const candidates = tiles
    .filter(({ busy }) => busy >= leastBusy * busiest)
    .flatMap(({ BM, BN }) =>
      (dtype === 'f32' ? [32, 64] : depths)
        .filter((BK) => BK < 2 * k)
        .flatMap((BK) =>
          stagesFor(stageBytes({ BM, BN, BK }, dtype)).map((stages) => ({ BM, BN, BK, stages })),
        ),
    )
  return unique([fallback, ...candidates])
}

/** Of the time of all rounds, each of a tile on every multiprocessor, what has tiles. */
function busyShare(tiles: number, multiprocessors: number): number {
  return tiles / (Math.ceil(tiles / multiprocessors) * multiprocessors)
}

function stagesFor(bytes: number, memories: readonly number[] = [1, 2 / 3, 1 / 2]): number[] {
  const fitting = memories.map((share) => Math.floor((share * tileMemory) / bytes))
  return fitting.map((stages) => Math.min(stages, mostStages)).filter((stages) => stages >= 2)
}

/** On a CPU: each extent halved and doubled, as far as there is something to cut. */
function aroundProduct({ m, n, k }: ProductShape, fallback: Tiles): Tiles[] {
  const { BM, BN, BK } = fallback
  return [
    ...[BM / 2, 2 * BM]
      .filter((rows) => rows % 4 === 0 && rows < 2 * m)
      .map((rows) => ({ ...fallback, BM: rows })),
    ...[BN / 2, 2 * BN]
      .filter((wide) => wide % 32 === 0 && wide < 2 * n)
      .map((wide) => ({ ...fallback, BN: wide })),
    ...[BK / 2, 2 * BK]
      .filter((deep) => deep % 4 === 0 && deep < 2 * k)
      .map((deep) => ({ ...fallback, BK: deep })),
  ]
}

export function decodeCandidates(target: string, shape: CacheShape, fallback: DecodeTiles): DecodeTiles[] {
  if (target !== 'cuda')
    return unique([
      fallback,
      ...[16, 32, 128].filter((BN) => BN < 2 * shape.tokens).map((BN) => ({ ...fallback, BN })),
      ...[2, 4]
        .filter((splits) => splits * fallback.BN <= shape.tokens)
        .map((splits) => ({ ...fallback, splits })),
    ])
  const { batch, kvHeads, multiprocessors = 132 } = shape
  // One part for each multiprocessor, and more, so that those that end early have another.
  const even = Math.max(1, multiprocessors / (batch * kvHeads))
  const splits = [0, 1, ...[1, 2, 3, 4].map((times) => Math.ceil(times * even))]
  const candidates = [32, 64, 128]
    .filter((BN) => BN <= mostTokens(shape))
    .flatMap((BN) =>
      stagesFor(cacheTileBytes(shape, { BN, stages: 1 })).flatMap((stages) =>
        [...splits, fallback.splits].map((parts) => ({ BN, stages, splits: parts })),
      ),
    )
  return unique([fallback, ...candidates.filter((tiles) => isLegalCache(target, shape, tiles))])
}

function unique<Candidate extends Numbers>(candidates: readonly Candidate[]): Candidate[] {
  const seen = new Map(candidates.map((tiles) => [Object.values(tiles).join(' '), tiles]))
  return [...seen.values()]
}
