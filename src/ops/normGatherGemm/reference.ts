/**
 * The contents of the inputs, and the reference result: LayerNorm of some rows of a matrix, computed in float64 from
 * the definition.
 */
export interface NormGatherGemmContents {
  /** The whole activation, with M x K elements. */
  readonly x: ArrayLike<number>
  /** The scale (gamma) and the shift (beta), with K elements each, which are the same on every rank. */
  readonly gamma: ArrayLike<number>
  readonly beta: ArrayLike<number>
  /** The matrix B of each rank, with K x N elements. */
  readonly b: readonly ArrayLike<number>[]
}

export function layerNorm(
  { x, gamma, beta }: Omit<NormGatherGemmContents, 'b'>,
  K: number,
  eps: number,
  rows: readonly number[],
): Float64Array {
  const out = new Float64Array(rows.length * K)
  rows.forEach((row, at) => {
    const values = Float64Array.from({ length: K }, (_, k) => x[row * K + k])
    const mean = values.reduce((sum, value) => sum + value, 0) / K
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / K
    for (let k = 0; k < K; k++)
      out[at * K + k] = ((values[k] - mean) / Math.sqrt(variance + eps)) * gamma[k] + beta[k]
  })
  return out
}
