/**
 * Binary search for the number of leading items for which `before` is true. `before` must be false for all items after
 * the leading items.
 */
export function countBefore(length: number, before: (index: number) => boolean): number {
  let [low, high] = [0, length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (before(middle)) low = middle + 1
    else high = middle
  }
  return low
}

/** Returns the index of the first element of the ascending array `values` that is not below `value`. */
export const lowerBound = (values: ArrayLike<number>, value: number): number =>
  countBefore(values.length, (i) => values[i] < value)
