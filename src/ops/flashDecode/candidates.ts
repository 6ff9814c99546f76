/** Candidate tiles for a rank's section of the KV cache, with the default tiles first. See src/tune/candidates.ts. */
import { stagesFor, unique } from '../../tune/candidates.ts'
import { fewestProcessors, isCached, type Machine } from '../../world/machine.ts'
import { cacheTileBytes, isLegalCache, mostTokens, type CacheShape, type DecodeTiles } from './tiles.ts'

export function decodeCandidates(machine: Machine, shape: CacheShape, fallback: DecodeTiles): DecodeTiles[] {
  if (isCached(machine))
    return unique([
      fallback,
      ...[16, 32, 128].filter((BN) => BN < 2 * shape.tokens).map((BN) => ({ ...fallback, BN })),
      ...[2, 4]
        .filter((splits) => splits * fallback.BN <= shape.tokens)
        .map((splits) => ({ ...fallback, splits })),
    ])
  const { batch, kvHeads } = shape
  const processors = fewestProcessors(machine)
  // The candidates have one split per processor, or a multiple of that, so that a processor that ends early has another
  // split to do.
  const even = Math.max(1, processors / (batch * kvHeads))
  const splits = [0, 1, ...[1, 2, 3, 4].map((times) => Math.ceil(times * even))]
  const candidates = [32, 64, 128]
    .filter((BN) => BN <= mostTokens(shape))
    .flatMap((BN) =>
      stagesFor(machine, cacheTileBytes(shape, { BN, stages: 1 })).flatMap((stages) =>
        [...splits, fallback.splits].map((parts) => ({ BN, stages, splits: parts })),
      ),
    )
  return unique([fallback, ...candidates.filter((tiles) => isLegalCache(machine, shape, tiles))])
}
