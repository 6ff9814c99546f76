/** The reference result, which is C = A x B or some rows of C, computed in float64 from the definition. */
export function matrixProduct(
  a: ArrayLike<number>,
  b: ArrayLike<number>,
  { M, N, K }: { readonly M: number; readonly N: number; readonly K: number },
  rows: readonly number[] = Array.from({ length: M }, (_, row) => row),
): Float64Array {
  const c = new Float64Array(rows.length * N)
  for (let i = 0; i < rows.length; i++)
    for (let k = 0; k < K; k++) {
      const factor = a[rows[i] * K + k]
      for (let j = 0; j < N; j++) c[i * N + j] += factor * b[k * N + j]
    }
  return c
}
