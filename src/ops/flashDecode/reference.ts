/**
 * The reference result, which is attention computed in float64 from the definition, with one softmax over all tokens of
 * all ranks.
 */
export interface DecodeContents {
  /** The queries have the shape [batch, kv heads, G, D] and are the same on every rank. */
  readonly q: ArrayLike<number>
  /** The keys and values of each rank have the shape [batch, kv heads, tokens, D]. */
  readonly k: readonly ArrayLike<number>[]
  readonly v: readonly ArrayLike<number>[]
  /** The number of tokens that each rank holds of each batch entry. */
  readonly lengths: readonly ArrayLike<number>[]
}

export interface DecodeExtents {
  readonly batch: number
  readonly heads: number
  readonly G: number
  readonly D: number
  readonly tokens: number
  readonly scale: number
}

/**
 * Reference results, keyed by contents and rows. All ranks have the same result, so the reference is computed only
 * once.
 */
const known = new WeakMap<DecodeContents, Map<string, Float64Array>>()

/**
 * Returns the given rows of the result, or all rows by default. There is one row per query head of each batch entry.
 */
export function attentionOf(
  contents: DecodeContents,
  extents: DecodeExtents,
  rows: readonly number[] = Array.from(
    { length: extents.batch * extents.heads * extents.G },
    (_, row) => row,
  ),
): Float64Array {
  let ofContents = known.get(contents)
  if (!ofContents) known.set(contents, (ofContents = new Map()))
  const key = rows.join(' ')
  let out = ofContents.get(key)
  if (!out) {
    out = new Float64Array(rows.length * extents.D)
    for (const [at, row] of rows.entries())
      attend(contents, extents, row, out.subarray(at * extents.D, (at + 1) * extents.D))
    ofContents.set(key, out)
  }
  return out
}

function attend(
  { q, k, v, lengths }: DecodeContents,
  { heads, G, D, tokens, scale }: DecodeExtents,
  row: number,
  out: Float64Array,
): void {
  const scores = new Float64Array(k.length * tokens)
  const [query, head] = [row * D, Math.floor(row / G)]
  const [entry, first] = [Math.floor(head / heads), head * tokens * D]
  let [count, largest, total] = [0, -Infinity, 0]
  for (let rank = 0; rank < k.length; rank++)
    for (let token = 0; token < lengths[rank][entry]; token++) {
      let score = 0
      for (let d = 0; d < D; d++) score += q[query + d] * k[rank][first + token * D + d]
      scores[count++] = score * scale
      largest = Math.max(largest, score * scale)
    }
  for (let at = 0; at < count; at++) total += Math.exp(scores[at] - largest)
  let at = 0
  for (let rank = 0; rank < k.length; rank++)
    for (let token = 0; token < lengths[rank][entry]; token++) {
      const weight = Math.exp(scores[at++] - largest) / total
      for (let d = 0; d < D; d++) out[d] += weight * v[rank][first + token * D + d]
    }
}
