/** How a rank's part of the cache is cut where nobody said otherwise. */
import { dtypes } from '../../ir/dtype.ts'
import type { OperandDType } from '../operation.ts'

export interface DecodeTiles {
  /** Tokens of a tile. */
  readonly BN: number
  readonly stages: number
  /** Parts of a rank's sequence. */
  readonly splits: number
}

export interface CacheShape {
  readonly batch: number
  readonly queryHeads: number
  readonly kvHeads: number
  readonly D: number
  readonly tokens: number
  readonly dtype: OperandDType
  /** Of the rank's GPU; those of a whole H200 if nothing is said. */
  readonly multiprocessors?: number
}

/** Of a GPU's shared memory, what tiles may take; some of it is for stores and barriers. */
const mostBytes = 212 * 1024

/** The most tokens whose keys and values fit; f32 is multiplied from shared memory, query and scores included. */
function tokensThatFit({ queryHeads, kvHeads, D, dtype }: CacheShape, stages: number): number {
  const G = queryHeads / kvHeads
  const { bytes } = dtypes[dtype]
  const bytesFor = (BN: number): number =>
    2 * stages * BN * D * bytes + (dtype === 'f32' ? G * (D + BN) * bytes : 0)
  // Scores of more heads and tokens do not fit the registers.
  let BN = G > 64 ? 64 : 128
  while (BN > 16 && bytesFor(BN) > mostBytes) BN /= 2
  return BN
}

/** On a GPU the cache streams through all multiprocessors: as many parts as keep each busy with one, none without a tile. */
export function decodeTiles(
  target: string,
  shape: CacheShape,
  given: Partial<DecodeTiles> = {},
): DecodeTiles {
  if (target !== 'cuda') return { BN: given.BN ?? 64, stages: given.stages ?? 2, splits: given.splits ?? 1 }
  const { batch, kvHeads, tokens, multiprocessors = 132 } = shape
  const stages = given.stages ?? 3
  const BN = given.BN ?? tokensThatFit(shape, stages)
  const parts = Math.floor(multiprocessors / (batch * kvHeads))
  return { BN, stages, splits: given.splits ?? Math.max(1, Math.min(parts, Math.ceil(tokens / BN))) }
}
