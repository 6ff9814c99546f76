/** Attention in float64, from the definition: softmax over all tokens of all ranks at once. */
export interface DecodeContents {
  /** [batch, kv heads, G, D], the same on every rank. */
  readonly q: ArrayLike<number>
  /** Of each rank: [batch, kv heads, tokens, D]. */
  readonly k: readonly ArrayLike<number>[]
  readonly v: readonly ArrayLike<number>[]
  /** Of each rank: how many tokens of each batch entry it holds. */
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

/** The same on every rank, so it is computed once for the same contents. */
const known = new WeakMap<DecodeContents, Float64Array>()

export function attentionOf(contents: DecodeContents, extents: DecodeExtents): Float64Array {
  const found = known.get(contents)
  if (found) return found
  const { q, k, v, lengths } = contents
  const { batch, heads, G, D, tokens, scale } = extents
  const out = new Float64Array(batch * heads * G * D)
  const scores = new Float64Array(k.length * tokens)
  for (let b = 0; b < batch; b++)
    for (let h = 0; h < heads; h++)
      for (let g = 0; g < G; g++) {
        const query = ((b * heads + h) * G + g) * D
        const first = (b * heads + h) * tokens * D
        let [count, largest, total] = [0, -Infinity, 0]
        for (let rank = 0; rank < k.length; rank++)
          for (let token = 0; token < lengths[rank][b]; token++) {
            let score = 0
            for (let d = 0; d < D; d++) score += q[query + d] * k[rank][first + token * D + d]
            scores[count++] = score * scale
            largest = Math.max(largest, score * scale)
          }
        for (let at = 0; at < count; at++) total += Math.exp(scores[at] - largest)
        let at = 0
        for (let rank = 0; rank < k.length; rank++)
          for (let token = 0; token < lengths[rank][b]; token++) {
            const weight = Math.exp(scores[at++] - largest) / total
            for (let d = 0; d < D; d++) out[query + d] += weight * v[rank][first + token * D + d]
          }
      }
  known.set(contents, out)
  return out
}
