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

export function attentionOf(contents: DecodeContents, extents: DecodeExtents): Float64Array {
  const { q, k, v, lengths } = contents
  const { batch, heads, G, D, tokens, scale } = extents
  const out = new Float64Array(batch * heads * G * D)
  for (let b = 0; b < batch; b++)
    for (let h = 0; h < heads; h++)
      for (let g = 0; g < G; g++) {
        const query = ((b * heads + h) * G + g) * D
        const scores: { readonly score: number; readonly rank: number; readonly at: number }[] = []
        for (let rank = 0; rank < k.length; rank++)
          for (let token = 0; token < lengths[rank][b]; token++) {
            const at = ((b * heads + h) * tokens + token) * D
            let score = 0
            for (let d = 0; d < D; d++) score += q[query + d] * k[rank][at + d]
            scores.push({ score: score * scale, rank, at })
          }
        const largest = scores.reduce((most, { score }) => Math.max(most, score), -Infinity)
        const total = scores.reduce((sum, { score }) => sum + Math.exp(score - largest), 0)
        for (const { score, rank, at } of scores) {
          const weight = Math.exp(score - largest) / total
          for (let d = 0; d < D; d++) out[query + d] += weight * v[rank][at + d]
        }
      }
  return out
}
