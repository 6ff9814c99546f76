/**
 * Tiles worth trying, the default first. What a target refuses is not left out here for every reason it may have: whoever tries
 * them finds out. In scratch memory: tiles that it and the registers hold, in numbers that keep multiprocessors busy to the end; with
 * several numbers of stages: ranks that share a device's memory keep step better when each has less under way.
 */
import { stageBytes, tileMemory, tileRows, usesMatrixUnit } from '../ops/limits.ts'
import type { ProductShape, Tiles } from '../ops/tiles.ts'
import { fewestProcessors, isCached, type Machine } from '../world/machine.ts'
import type { Numbers } from './tables.ts'

const columns = [32, 64, 112, 128, 224, 256]
const depths = [64, 128, 256]
const mostStages = 12
/** Of the best: how busy the multiprocessors must be, on average over all rounds of tiles. */
const leastBusy = 0.75

export function productCandidates(machine: Machine, shape: ProductShape, fallback: Tiles): Tiles[] {
  if (isCached(machine)) return unique([fallback, ...aroundProduct(shape, fallback)])
  const { m, n, k, dtype } = shape
  const multiprocessors = fewestProcessors(machine)
  const isOnUnit = usesMatrixUnit(machine, dtype)
  const rows = tileRows(m).filter((BM) => isOnUnit || (BM >= 16 && BM <= 64))
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
      (isOnUnit ? depths : [32, 64])
        .filter((BK) => BK < 2 * k)
        .flatMap((BK) =>
          stagesFor(machine, stageBytes({ BM, BN, BK }, dtype)).map((stages) => ({ BM, BN, BK, stages })),
        ),
    )
  return unique([fallback, ...candidates])
}

/** Of the time of all rounds, each of a tile on every multiprocessor, what has tiles. */
function busyShare(tiles: number, multiprocessors: number): number {
  return tiles / (Math.ceil(tiles / multiprocessors) * multiprocessors)
}

/** As many as fit for one program on a processor and for two, and a number between. */
export function stagesFor(machine: Machine, bytes: number): number[] {
  const fitting = [1, 2 / 3, 1 / 2].map((share) => Math.floor((share * tileMemory(machine)) / bytes))
  return fitting.map((stages) => Math.min(stages, mostStages)).filter((stages) => stages >= 2)
}

/** In caches: each extent halved and doubled, as far as there is something to cut. */
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
