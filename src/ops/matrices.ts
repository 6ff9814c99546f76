/** Functions that cut a window, such as the shard of a rank, out of a matrix in host memory. */

/**
 * Copies a window of `height` x `width` elements whose first element is at row `top` and column `left`. Elements of the
 * window outside the matrix are 0.
 */
export function windowOf(
  matrix: ArrayLike<number>,
  [rows, columns]: readonly [number, number],
  [top, left]: readonly [number, number],
  [height, width]: readonly [number, number],
): ArrayLike<number> {
  if (top === 0 && left === 0 && height === rows && width === columns) return matrix
  const window = new (matrix instanceof Float32Array ? Float32Array : Float64Array)(height * width)
  for (let i = 0; i < height && top + i < rows; i++)
    for (let j = 0; j < width && left + j < columns; j++)
      window[i * width + j] = matrix[(top + i) * columns + left + j]
  return window
}
