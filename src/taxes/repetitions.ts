/** What comes several times without a break in a sequence, found from left to right. */

export interface Repetition {
  readonly from: number
  readonly period: number
  /** At least two. */
  readonly times: number
}

/**
 * Of what repeats from a position on, the period that covers most counts, of several the shortest; then it goes on
 * behind. Periods are at most `longest`, and what repeats covers at least `fewest` positions.
 */
export function repetitions(sequence: Int32Array, longest: number, fewest: number): Repetition[] {
  const found: Repetition[] = []
  const next = nextSame(sequence)
  let at = 0
  while (at < sequence.length) {
    let [best, covered] = [0, 0]
    for (let again = next[at]; again < sequence.length && again - at <= longest; again = next[again]) {
      const period = again - at
      // A multiple of a period that repeats ends no later than it does.
      if (at + 2 * period > sequence.length || (best > 0 && period % best === 0)) continue
      let same = 1
      while (again + same < sequence.length && sequence[at + same] === sequence[again + same]) same++
      const covers = period + same - (same % period)
      if (same >= period && covers > covered) [best, covered] = [period, covers]
    }
    if (covered >= fewest) {
      found.push({ from: at, period: best, times: covered / best })
      at += covered
    } else at++
  }
  return found
}

/** For each position the next with the same value, or the length. */
function nextSame(sequence: Int32Array): Int32Array {
  const next = new Int32Array(sequence.length)
  const last = new Map<number, number>()
  for (let i = sequence.length - 1; i >= 0; i--) {
    next[i] = last.get(sequence[i]) ?? sequence.length
    last.set(sequence[i], i)
  }
  return next
}
