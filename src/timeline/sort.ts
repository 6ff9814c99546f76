/**
 * Sorts numbers by a comparison function, stably and in place. The built-in sort of typed arrays allocates two arrays
 * of objects, each with 8 bytes per number. This sort allocates one array with 4 bytes per number, and returns at once
 * if the input is sorted.
 */
export function sortBy(values: Uint32Array, compare: (a: number, b: number) => number): void {
  const bounds = [0]
  for (let i = 1; i < values.length; i++) if (compare(values[i - 1], values[i]) > 0) bounds.push(i)
  if (bounds.length === 1) return
  bounds.push(values.length)
  let from = values
  let to: Uint32Array = new Uint32Array(values.length)
  let runs = bounds
  while (runs.length > 2) {
    const merged = [0]
    for (let i = 0; i + 1 < runs.length; i += 2) {
      const end = runs[Math.min(i + 2, runs.length - 1)]
      merge(from, to, runs[i], runs[i + 1], end, compare)
      merged.push(end)
    }
    ;[from, to] = [to, from]
    runs = merged
  }
  if (from !== values) values.set(from)
}

function merge(
  from: Uint32Array,
  to: Uint32Array,
  begin: number,
  middle: number,
  end: number,
  compare: (a: number, b: number) => number,
): void {
  let [left, right] = [begin, middle]
  for (let at = begin; at < end; at++)
    to[at] =
      left < middle && (right >= end || compare(from[left], from[right]) <= 0) ? from[left++] : from[right++]
}
