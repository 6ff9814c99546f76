/** Formats a list of ranks, such as `rank 3` or `ranks 0-3, 5`. */
export const rankNames = (numbers: readonly number[]): string =>
  `${numbers.length === 1 ? 'rank' : 'ranks'} ${ranges(numbers)}`

/** Formats numbers as ranges, such as `0-3, 5, 7`. */
export function ranges(numbers: readonly number[]): string {
  const sorted = [...numbers].sort((a, b) => a - b)
  const parts: string[] = []
  for (let at = 0; at < sorted.length;) {
    let to = at
    while (to + 1 < sorted.length && sorted[to + 1] <= sorted[to] + 1) to++
    parts.push(sorted[to] > sorted[at] ? `${sorted[at]}-${sorted[to]}` : `${sorted[at]}`)
    at = to + 1
  }
  return parts.join(', ')
}
