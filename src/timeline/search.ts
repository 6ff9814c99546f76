/** Binary search, once for all. */

/** How many of `length` things come `before`, which holds of the first ones and of no other. */
export function countBefore(length: number, before: (index: number) => boolean): number {
  let [low, high] = [0, length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (before(middle)) low = middle + 1
    else high = middle
  }
  return low
}

/** The first place in ascending values that is not below `value`. */
export const lowerBound = (values: ArrayLike<number>, value: number): number =>
  countBefore(values.length, (i) => values[i] < value)
