/** Finds sections of a sequence that consist of immediate repetitions of a shorter sequence, from left to right. */

export interface Repetition {
  readonly from: number
  readonly period: number
  /** The number of repetitions, at least two. */
  readonly times: number
}

/**
 * At each position, the search chooses the period whose repetition covers the most positions, or the shortest of
 * several such periods. The search then continues after the repetition. Periods have at most `longest` positions, and a
 * repetition covers at least `fewest` positions.
 */
export function repetitions(sequence: Int32Array, longest: number, fewest: number): Repetition[] {
  const found: Repetition[] = []
  const next = nextSame(sequence)
  let at = 0
  while (at < sequence.length) {
    let [best, covered] = [0, 0]
    for (let again = next[at]; again < sequence.length && again - at <= longest; again = next[again]) {
      const period = again - at
      // A multiple of a repeating period covers no more positions than the period itself does.
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

/** For each position, the next position with the same value, or the length of the sequence. */
function nextSame(sequence: Int32Array): Int32Array {
  const next = new Int32Array(sequence.length)
  const last = new Map<number, number>()
  for (let i = sequence.length - 1; i >= 0; i--) {
    next[i] = last.get(sequence[i]) ?? sequence.length
    last.set(sequence[i], i)
  }
  return next
}
