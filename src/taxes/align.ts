/**
 * Pairs the communication calls of two ranks. The calls of each rank are in order, but a rank may lack some calls, and
 * the clocks of the two ranks may differ by any amount. All ranks leave a collective at nearly the same time. The
 * distance between the end times on two ranks is therefore nearly constant for true pairs of calls, and scattered for
 * false pairs. `align` searches for the constant distance among pairs of calls that result if one sequence of calls is
 * shifted against the other by a few calls. `align` then walks along both sequences of calls and adjusts the distance
 * as the clocks drift.
 */
import { lowerBound } from '../timeline/search.ts'

/** The communication calls of one rank, in order. The start and end times are on the rank's own clock. */
export interface Spans {
  readonly signatures: Int32Array
  readonly loose: Uint8Array
  readonly starts: Float64Array
  readonly ends: Float64Array
}

/**
 * The distance of two clocks that is known before the alignment: the nanoseconds to add to a time on the clock of rank
 * `b` to place it on the clock of rank `a`.
 */
export interface Hint {
  readonly distance: number
  /**
   * True if the distance was measured on calls that were matched reliably. False if the distance is only the difference
   * of the trace clocks.
   */
  readonly trusted: boolean
}

export interface Alignment {
  /** For each call of `b`: the matching call of `a`, or -1 if there is none. */
  readonly pairs: Int32Array
  /** For each call of rank `b`: the nanoseconds to add to its time to place it on the clock of rank `a`. */
  readonly distances: Float64Array
  matched: number
  /**
   * The number of paired calls whose end times agree. Calls of different process groups end together only by chance.
   */
  readonly together: number
  /** The median difference between the end times of paired calls on the common clock, in nanoseconds. */
  readonly skew: number
  /** The largest difference between the end times of paired calls, in nanoseconds. */
  readonly maximumSkew: number
}

/**
 * The maximum number of calls by which two sequences are shifted against each other, counted from their beginnings,
 * from their ends, and from the distance in the hint.
 */
const BAND = 16
/**
 * The maximum number of calls whose distances are counted as votes. More votes would not improve the choice of the
 * clock distance.
 */
const VOTERS = 256
/** The longest time span of the votes, in nanoseconds. Over a longer span, clock drift would scatter the votes. */
const VOTING_SPAN = 2e9
/**
 * By how much the end times of one collective may differ between ranks, in nanoseconds. Of these tolerances, the
 * smallest one at which the votes of the call pairs agree is used.
 */
const SCALES = [4e3, 4e4, 4e5] as const
/** The upper bound on clock drift, as a fraction of the elapsed time. */
const MAXIMUM_DRIFT = 1e-4
const MINIMUM_SLACK = 2e4
/** Two end times agree if they differ by at most this fraction of the transfer time, or by at most `MINIMUM_SLACK`. */
const TOGETHER = 0.1

/** By how much the end times of one collective may differ, in nanoseconds, given the duration of its transfer. */
export const endTolerance = (transfer: number): number => Math.max(MINIMUM_SLACK, TOGETHER * transfer)

export function align(a: Spans, b: Spans, hint: Hint | null): Alignment {
  const votes = hint?.trusted ? null : vote(a, b, hint)
  const distance = votes?.distance ?? hint?.distance ?? identity(a, b)
  const slack = Math.max(MINIMUM_SLACK, votes?.scale ?? 0)
  const walk = new Walk(a, b, slack)
  const [i, j] = seed(a, b, distance)
  walk.go(i, j, distance, 1)
  walk.go(i - 1, j - 1, distance, -1)
  walk.fillDistances(distance)
  return walk.result()
}

/**
 * The clock distance on which most pairs of calls agree. Two distances agree up to a tolerance, which is the smallest
 * one at which at least half of the calls agree.
 */
function vote(a: Spans, b: Spans, hint: Hint | null): { distance: number; scale: number } | null {
  const [na, nb] = [a.ends.length, b.ends.length]
  let from = Math.max(0, (nb - VOTERS) >> 1)
  let to = Math.min(nb, from + VOTERS)
  while (to - from > 8 && b.ends[to - 1] - b.ends[from] > VOTING_SPAN) {
    from++
    to--
  }
  const distances = new Float64Array((to - from) * 3 * (2 * BAND + 1))
  let count = 0
  let voters = 0
  for (let j = from; j < to; j++) {
    const before = count
    // The ranges of candidate calls usually overlap, but each pair of calls counts only once.
    let next = 0
    const centres = [j, j + na - nb]
    if (hint) centres.push(lowerBound(a.ends, b.ends[j] + hint.distance))
    centres.sort((one, other) => one - other)
    for (const centre of centres) {
      const last = Math.min(na - 1, centre + BAND)
      for (let i = Math.max(next, centre - BAND); i <= last; i++)
        if (a.signatures[i] === b.signatures[j]) distances[count++] = a.ends[i] - b.ends[j]
      next = Math.max(next, last + 1)
    }
    if (count > before) voters++
  }
  if (voters === 0) return null
  const sorted = distances.subarray(0, count).sort()
  for (const scale of SCALES) {
    const [best, middle] = densest(sorted, scale)
    if (best < Math.min(voters, na) / 2) continue
    // If several clock distances fit equally well, as in a strictly regular trace, the distance of the trace's clocks
    // is preferred. The second choice is the distance that the order of calls suggests.
    for (const preferred of [hint?.distance ?? null, na === nb ? identity(a, b) : null]) {
      if (preferred === null) continue
      const low = lowerBound(sorted, preferred - scale / 2)
      const high = lowerBound(sorted, preferred + scale / 2)
      if (high - low >= 0.9 * best) return { distance: sorted[(low + high) >> 1], scale }
    }
    return { distance: middle, scale }
  }
  return null
}

/** The largest number of values that lie within an interval of length `width`, and the middle one of these values. */
function densest(sorted: Float64Array, width: number): [count: number, middle: number] {
  let [best, middle] = [0, 0]
  for (let low = 0, high = 0; low < sorted.length; low++) {
    while (high < sorted.length && sorted[high] - sorted[low] <= width) high++
    if (high - low > best) {
      best = high - low
      middle = sorted[(low + high) >> 1]
    }
  }
  return [best, middle]
}

/** The clock distance if the k-th call of one rank corresponds to the k-th call of the other rank. */
function identity(a: Spans, b: Spans): number {
  const length = Math.min(a.ends.length, b.ends.length, VOTERS)
  const distances = new Float64Array(length)
  for (let i = 0; i < length; i++) distances[i] = a.ends[i] - b.ends[i]
  return median(distances)
}

/** The pair of calls, near the middle of the two sequences, whose end times agree best. */
function seed(a: Spans, b: Spans, distance: number): [number, number] {
  const [na, nb] = [a.ends.length, b.ends.length]
  const from = Math.max(0, (nb - VOTERS) >> 1)
  let [best, at, to] = [Infinity, 0, 0]
  for (let j = from; j < Math.min(nb, from + VOTERS); j++) {
    const near = lowerBound(a.ends, b.ends[j] + distance)
    for (let i = Math.max(0, near - 1); i <= Math.min(na - 1, near + 1); i++) {
      const skew = Math.abs(a.ends[i] - b.ends[j] - distance)
      if (skew < best && a.signatures[i] === b.signatures[j]) [best, at, to] = [skew, i, j]
    }
  }
  return [at, to]
}

class Walk {
  private readonly a: Spans
  private readonly b: Spans
  private readonly slack: number
  private readonly pairs: Int32Array
  private readonly distances: Float64Array

  constructor(a: Spans, b: Spans, slack: number) {
    this.a = a
    this.b = b
    this.slack = slack
    this.pairs = new Int32Array(b.ends.length).fill(-1)
    this.distances = new Float64Array(b.ends.length).fill(NaN)
  }

  /**
   * Pairs calls forwards or backwards from call `i` of one rank and call `j` of the other, starting with a known clock
   * distance.
   */
  go(i: number, j: number, distance: number, step: 1 | -1): void {
    const { a, b, pairs, distances } = this
    const [na, nb] = [a.ends.length, b.ends.length]
    let last = j >= 0 && j < nb ? b.ends[j] : 0
    while (i >= 0 && i < na && j >= 0 && j < nb) {
      const skew = a.ends[i] - b.ends[j] - distance
      const slack = this.slack + MAXIMUM_DRIFT * Math.abs(b.ends[j] - last)
      if (this.same(i, j, distance, slack) && !this.betterElsewhere(i, j, distance, step, skew, slack)) {
        pairs[j] = i
        distances[j] = distance
        distance += Math.max(-slack, Math.min(slack, skew)) / 2
        last = b.ends[j]
        i += step
        j += step
      } else if (skew * step < 0) i += step
      else j += step
    }
  }

  /**
   * True if the two calls can belong to one collective. No rank leaves a collective before the other rank has arrived.
   * The end times therefore differ at most by the duration of the transfer, which is at most the duration of the
   * shorter call.
   */
  private same(i: number, j: number, distance: number, slack: number): boolean {
    const { a, b } = this
    if (a.signatures[i] !== b.signatures[j]) return false
    const shorter = Math.min(a.ends[i] - a.starts[i], b.ends[j] - b.starts[j])
    return (
      b.ends[j] + distance >= a.starts[i] - slack &&
      a.ends[i] >= b.starts[j] + distance - slack &&
      Math.abs(a.ends[i] - b.ends[j] - distance) <= shorter + slack
    )
  }

  /**
   * True if the end of one rank's next call agrees much better with the end of the other rank's current call than the
   * end of the first rank's current call does.
   */
  private betterElsewhere(
    i: number,
    j: number,
    distance: number,
    step: number,
    skew: number,
    slack: number,
  ): boolean {
    const { a, b } = this
    const bound = Math.abs(skew) / 4
    if (4 * bound <= slack / 4) return false
    const skipA = i + step
    const skipB = j + step
    return (
      (skipA >= 0 &&
        skipA < a.ends.length &&
        Math.abs(a.ends[skipA] - b.ends[j] - distance) < bound &&
        this.same(skipA, j, distance, slack)) ||
      (skipB >= 0 &&
        skipB < b.ends.length &&
        Math.abs(a.ends[i] - b.ends[skipB] - distance) < bound &&
        this.same(i, skipB, distance, slack))
    )
  }

  /**
   * Gives each unpaired call the clock distance of the last paired call before it, or of the first paired call if no
   * call before it is paired.
   */
  fillDistances(distance: number): void {
    const { distances } = this
    let known = distances.find((one) => !Number.isNaN(one)) ?? distance
    for (let j = 0; j < distances.length; j++) {
      if (Number.isNaN(distances[j])) distances[j] = known
      else known = distances[j]
    }
  }

  result(): Alignment {
    const { a, b, pairs, distances } = this
    const skews = new Float64Array(pairs.length)
    let [matched, together] = [0, 0]
    for (let j = 0; j < pairs.length; j++) {
      const i = pairs[j]
      if (i < 0) continue
      const skew = Math.abs(a.ends[i] - b.ends[j] - distances[j])
      const shorter = Math.min(a.ends[i] - a.starts[i], b.ends[j] - b.starts[j])
      if (skew <= endTolerance(shorter)) together++
      skews[matched++] = skew
    }
    if (matched === 0) return { pairs, distances, matched, together, skew: Infinity, maximumSkew: Infinity }
    const skew = median(skews.subarray(0, matched))
    return { pairs, distances, matched, together, skew, maximumSkew: skews[matched - 1] }
  }
}

/**
 * Between two existing pairs, calls are paired by their order. Pairing by order requires that both ranks have the same
 * number of calls between the two pairs, that the signatures of these calls are equal, and that a rank can leave these
 * calls before all ranks have arrived. The end times of calls that a rank can leave early carry no information. Returns
 * the number of added pairs.
 */
export function pairByOrder(a: Spans, b: Spans, pairs: Int32Array): number {
  let added = 0
  let [i, j] = [0, 0]
  for (let k = 0; k <= pairs.length; k++) {
    if (k < pairs.length && pairs[k] < 0) continue
    const stop = k < pairs.length ? pairs[k] : a.ends.length
    if (k - j === stop - i && orderDecides(a, b, i, j, k - j)) for (; j < k; i++, j++, added++) pairs[j] = i
    i = stop + 1
    j = k + 1
  }
  return added
}

function orderDecides(a: Spans, b: Spans, i: number, j: number, length: number): boolean {
  for (let k = 0; k < length; k++)
    if (!b.loose[j + k] || a.signatures[i + k] !== b.signatures[j + k]) return false
  return true
}

/**
 * Sorts the values and returns their median. For an even number of values, the result is the lower of the two middle
 * values, so that integers stay integers.
 */
export function median(values: Float64Array): number {
  if (values.length === 0) return 0
  values.sort()
  return values[(values.length - 1) >> 1]
}
