/**
 * The fastest of many, by successive halving: all take turns for a few rounds, the faster half goes on for more, until one is left.
 * That one meets the first of all, the default, and takes its place only where the whole interval of their ratio says that it is
 * faster.
 */
import { medianOf, quantityOf } from '../runs/quantity.ts'
import type { Quantity } from '../runs/results.ts'

/** How long to go on, in seconds, with at least and at most so many rounds. */
export interface Effort {
  readonly seconds: number
  readonly leastRounds: number
  readonly mostRounds: number
}

/** Times of contenders that took turns, round by round: as many of each. After an interrupt, of the rounds that were complete. */
export type TimeInTurns = (
  contenders: readonly number[],
  effort: Effort,
) => Promise<readonly (readonly number[])[]>

export interface Halved {
  /** 0, the default, unless another is faster beyond doubt. */
  readonly best: number
  readonly time: Quantity
  readonly fallback: Quantity
  /** How many times as fast as the default. */
  readonly speedup: Quantity
  /** Interrupted: `best` is the fastest so far, which may be by chance. */
  readonly interrupted?: true
}

/** Of the seconds, what goes into the last meeting. */
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
    // All that are left were in the same rounds.
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

/** Of those that are left, by the rounds so far; throws the reason of the interrupt where there was none. */
function fastestSoFar(
  samples: readonly (readonly number[])[],
  left: readonly number[],
  interrupt: AbortSignal,
): Halved {
  const [usual] = samples
  if (usual.length === 0) throw interrupt.reason
  const fallback = quantityOf(usual)
  const best = left.reduce((a, b) => (medianOf(samples[b]) < medianOf(samples[a]) ? b : a))
  // The first rounds were everybody's.
  const speedup = quantityOf(usual.map((taken, round) => taken / samples[best][round]))
  return { best, time: quantityOf(samples[best]), fallback, speedup, interrupted: true }
}
