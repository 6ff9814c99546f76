/**
 * Lists candidate tiles for tuning, with the default tiles first. The list may contain tiles that a target rejects;
 * tuning tries them and drops them.
 *
 * On machines with scratch memory, the candidates are tiles that fit the scratch memory and the registers. The output
 * must have enough tiles to keep all processors busy until the end of the launch. Several numbers of stages are tried,
 * because ranks that share a device's memory are less skewed when each has fewer loads in flight.
 */
import { stageBytes, tileMemory, tileRows, usesMatrixUnit } from '../ops/limits.ts'
import type { ProductShape, Tiles } from '../ops/tiles.ts'
import { fewestProcessors, isCached, type Machine } from '../world/machine.ts'
import type { Numbers } from './tables.ts'

const columns = [32, 64, 112, 128, 224, 256]
const depths = [64, 128, 256]
const mostStages = 12
/**
 * A candidate is dropped if its utilisation of the processors, averaged over all rounds of tiles, is below this
 * fraction of the best candidate's.
 */
const leastBusy = 0.75

export function productCandidates(machine: Machine, shape: ProductShape, fallback: Tiles): Tiles[] {
  if (isCached(machine)) return unique([fallback, ...aroundProduct(shape, fallback)])
  const { m, n, k, dtype } = shape
  const processors = fewestProcessors(machine)
  const isOnUnit = usesMatrixUnit(machine, dtype)
  const rows = tileRows(machine, m).filter((BM) => isOnUnit || (BM >= 16 && BM <= 64))
  const tiles = rows.flatMap((BM) =>
    columns
      // The list omits tiles that contain only padding. Tiles of 128 rows fit into the registers only if the matrix
      // unit reads panels of 32 columns.
      .filter((BN) => BN < 2 * n && (BM < 128 || BN % 32 === 0))
      .map((BN) => ({ BM, BN, busy: busyShare(Math.ceil(m / BM) * Math.ceil(n / BN), processors) })),
  )
  const busiest = Math.max(...tiles.map(({ busy }) => busy))
  const candidates = tiles
    .filter(({ busy }) => busy >= leastBusy * busiest)
    .flatMap(({ BM, BN }) =>
      (isOnUnit ? depths : [32, 64])
        .filter((BK) => BK < 2 * k)
        .flatMap((BK) =>
          stagesFor(machine, stageBytes({ BM, BN, BK }, dtype)).map((stages) => ({ BM, BN, BK, stages })),
        ),
    )
  return unique([fallback, ...candidates])
}

/**
 * The share of processors that have a tile, averaged over all rounds, where a round is one tile per
 * processor.
 */
function busyShare(tiles: number, processors: number): number {
  return tiles / (Math.ceil(tiles / processors) * processors)
}

/**
 * The largest number of stages that fit with one program per processor, the largest number with two programs, and one
 * number in between.
 */
export function stagesFor(machine: Machine, bytes: number): number[] {
  const fitting = [1, 2 / 3, 1 / 2].map((share) => Math.floor((share * tileMemory(machine)) / bytes))
  return fitting.map((stages) => Math.min(stages, mostStages)).filter((stages) => stages >= 2)
}

/**
 * On machines with caches, each extent of the default tile is halved and doubled, as long as the tiles still divide the
 * matrices.
 */
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

export function unique<Candidate extends Numbers>(candidates: readonly Candidate[]): Candidate[] {
  const seen = new Map(candidates.map((tiles) => [Object.values(tiles).join(' '), tiles]))
  return [...seen.values()]
}
