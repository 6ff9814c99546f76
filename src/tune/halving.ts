/**
 * Finds the fastest of many contenders, such as choices of tiles, by successive halving. All contenders run interleaved
 * for a few rounds. After the first rounds, the faster half of the contenders continues with more rounds, until only
 * one contender is left. The last contender left is finally compared with contender 0, which is the default. The last
 * contender replaces the default only if the whole confidence interval of their time ratio shows that it is faster.
 */
import { medianOf, quantityOf } from '../runs/quantity.ts'
import type { Quantity } from '../runs/results.ts'

/** The duration of the measurement in seconds, with limits on the number of rounds. */
export interface Effort {
  readonly seconds: number
  readonly leastRounds: number
  readonly mostRounds: number
}

/**
 * Measures contenders in interleaved rounds. The function returns the times of each contender round by round, with the
 * same number of rounds for all contenders. After an interrupt, only complete rounds are returned.
 */
export type TimeInTurns = (
  contenders: readonly number[],
  effort: Effort,
) => Promise<readonly (readonly number[])[]>

export interface Halved {
  /** The index of the winner, which is 0 (the default) unless another contender is significantly faster. */
  readonly best: number
  readonly time: Quantity
  readonly fallback: Quantity
  /** The speed-up of the winner over the default. */
  readonly speedup: Quantity
  /**
   * The field `interrupted` is present only after an interrupt. After an interrupt, `best` is the fastest contender so
   * far, and may not be significantly faster than the default.
   */
  readonly interrupted?: true
}

/** The share of the time that is spent on the final comparison with the default. */
const lastShare = 0.4

export async function halve(
  count: number,
  seconds: number,
  time: TimeInTurns,
  onProgress: (done: number) => void = () => {},
  interrupt?: AbortSignal,
): Promise<Halved> {
  const levels = Math.ceil(Math.log2(count))
  const samples = Array.from({ length: count }, (): number[] => [])
  let left = samples.map((_, contender) => contender)
  for (let level = 0; left.length > 1; level++) {
    onProgress(level / (levels + 1))
    const share = ((1 - lastShare) * seconds) / levels
    const found = await time(left, { seconds: share, leastRounds: 3, mostRounds: 5 * 2 ** level })
    left.forEach((contender, place) => samples[contender].push(...found[place]))
    if (interrupt?.aborted) return fastestSoFar(samples, left, interrupt)
    // All remaining contenders ran in the same rounds, so their medians are comparable.
    const medians = new Map(left.map((contender) => [contender, medianOf(samples[contender])]))
    left = [...left].sort((a, b) => medians.get(a)! - medians.get(b)!).slice(0, Math.ceil(left.length / 2))
  }
  onProgress(levels / (levels + 1))
  const last = { seconds: lastShare * seconds, leastRounds: 9, mostRounds: 101 }
  const [own, usual] = await time([left[0], 0], last)
  if (interrupt?.aborted) return fastestSoFar(samples, left, interrupt)
  const fallback = quantityOf(usual)
  const speedup = quantityOf(own.map((taken, round) => usual[round] / taken))
  if (left[0] !== 0 && speedup.interval[0] > 1)
    return { best: left[0], time: quantityOf(own), fallback, speedup }
  return { best: 0, time: fallback, fallback, speedup: quantityOf(usual.map(() => 1)) }
}

/**
 * The contender that is fastest in the rounds so far. If no round was complete, the reason of the interrupt is thrown.
 */
function fastestSoFar(
  samples: readonly (readonly number[])[],
  left: readonly number[],
  interrupt: AbortSignal,
): Halved {
  const [usual] = samples
  if (usual.length === 0) throw interrupt.reason
  const fallback = quantityOf(usual)
  const best = left.reduce((a, b) => (medianOf(samples[b]) < medianOf(samples[a]) ? b : a))
  // All contenders took part in the first rounds, so the two lists of times begin with the same rounds.
  const speedup = quantityOf(usual.map((taken, round) => taken / samples[best][round]))
  return { best, time: quantityOf(samples[best]), fallback, speedup, interrupted: true }
}
