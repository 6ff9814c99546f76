/** C = A x B in float64, from the definition. */
export function matrixProduct(
  a: ArrayLike<number>,
  b: ArrayLike<number>,
  { M, N, K }: { readonly M: number; readonly N: number; readonly K: number },
): Float64Array {
  const c = new Float64Array(M * N)
  for (let i = 0; i < M; i++)
    for (let k = 0; k < K; k++) {
      const factor = a[i * K + k]
      for (let j = 0; j < N; j++) c[i * N + j] += factor * b[k * N + j]
    }
  return c
}
