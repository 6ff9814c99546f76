/** Contents of a cache whose sequences are shorter than its capacity. */
import type { DecodeContents, FlashDecodeShape } from '../../../src/ops/flashDecode/index.ts'

/** Sets tokens beyond the end of a sequence to NaN, so that reading one shows up in the result. */
export function withLengths(
  contents: DecodeContents,
  lengthOf: (rank: number, entry: number) => number,
  { batch, kvHeads, D, tokens }: FlashDecodeShape,
): DecodeContents {
  const lengths = contents.k.map((_, rank) =>
    Array.from({ length: batch }, (_, entry) => lengthOf(rank, entry)),
  )
  const cut = (of: ArrayLike<number>, rank: number): number[] =>
    Array.from(of, (x, at) => {
      const token = Math.floor(at / D) % tokens
      return token < lengths[rank][Math.floor(at / (D * tokens * kvHeads))] ? x : NaN
    })
  return { ...contents, lengths, k: contents.k.map(cut), v: contents.v.map(cut) }
}

/** Fills the given fractions of a rank's capacity, assigned to ranks and batch entries in rotation. */
export const partlyFilled =
  (filled: readonly number[], tokens: number) =>
  (rank: number, entry: number): number =>
    Math.ceil(filled[(3 * rank + entry) % filled.length] * tokens)
