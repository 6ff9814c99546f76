/**
 * Finds the two ranks of each message in streams whose ranks run different programs, such as the stages of a pipeline.
 * Two ranks that exchange a message leave it together, so the distance between their end times is the same for all
 * their messages. Ranks that do not exchange messages may end a call at the same time by chance, or end all calls
 * together if they run in lockstep. The search first chooses pairs of ranks in which, for each message, the second of
 * the two ranks to arrive does not wait: its call lasts only as long as the transfer.
 */
import { lowerBound } from '../timeline/search.ts'
import type { Calls, Lane } from './calls.ts'
import { type Clock, toCommon } from './collective.ts'
import { EXPLAINED } from './ties.ts'

export interface Messages {
  readonly a: Calls
  readonly b: Calls
  /** For each message: the index of its call on rank `a` and on rank `b`. */
  readonly calls: readonly (readonly [number, number])[]
  /** True if, for nearly every message, the call of the second rank to arrive lasts only as long as the transfer. */
  readonly isExplained: boolean
}

export interface MessageOptions {
  /** The clocks of the ranks, as far as they are known. */
  readonly clocks: readonly Clock[]
  /** True if the clocks of the two ranks agree to within `AGREEMENT`. */
  readonly isTrusted: (a: number, b: number) => boolean
  /** The largest difference between clocks that are trusted, in nanoseconds. */
  readonly agreement: number
}

/** The width of the window in which distances between end times count as the same, in nanoseconds. */
const WINDOW = 6_000
/**
 * Two ranks are paired only if they exchange at least this share of the calls of the rank with fewer calls, and at
 * least `FEWEST` messages.
 */
const SHARE = 0.15
const FEWEST = 4
/**
 * A rank counts as waiting in a message if its call takes longer than the shortest message by more than this fraction.
 */
const UNEVEN = 0.25
/** If there are more pairs of calls than this number, no search for messages takes place. */
const MOST_LOOKUPS = 1e8

interface Times {
  readonly calls: Calls
  /** The end times on the common clock, in ascending order, and for each end time the index of its call. */
  readonly ends: Float64Array
  readonly order: Uint32Array
  readonly free: Uint8Array
}

interface Candidate {
  readonly a: Times
  readonly b: Times
  readonly calls: [number, number][]
  readonly explained: number
}

export function messagesOf({ ranks }: Lane, options: MessageOptions): Messages[] {
  const calls = ranks.reduce((sum, { ends }) => sum + ends.length, 0)
  if (ranks.length < 2 || (calls * ranks.length) / 2 > MOST_LOOKUPS) return []
  const times = ranks.map((calls): Times => {
    const common = calls.ends.map((end) => toCommon(options.clocks[calls.rank], end))
    const order = Uint32Array.from(common, (_, i) => i).sort((i, j) => common[i] - common[j])
    return {
      calls,
      ends: Float64Array.from(order, (i) => common[i]),
      order,
      free: new Uint8Array(common.length).fill(1),
    }
  })
  let transfer = Infinity
  for (const { starts, ends } of ranks)
    for (let i = 0; i < ends.length; i++) transfer = Math.min(transfer, ends[i] - starts[i])
  const candidates: Candidate[] = []
  for (let i = 0; i < times.length; i++)
    for (let j = i + 1; j < times.length; j++) {
      const found = candidateOf(times[i], times[j], transfer, options)
      if (found) candidates.push(found)
    }
  candidates.sort((one, other) => other.explained - one.explained || other.calls.length - one.calls.length)
  return candidates.flatMap(({ a, b, calls, explained }) => {
    const own = calls.filter(([x, y]) => a.free[x] === 1 && b.free[y] === 1)
    if (own.length < FEWEST && own.length < calls.length) return []
    for (const [x, y] of own) a.free[x] = b.free[y] = 0
    return own.length > 0 ? [{ a: a.calls, b: b.calls, calls: own, isExplained: explained >= EXPLAINED }] : []
  })
}

function candidateOf(a: Times, b: Times, transfer: number, options: MessageOptions): Candidate | null {
  const trusted = options.isTrusted(a.calls.rank, b.calls.rank)
  const reach = trusted ? options.agreement : 2 * transfer
  const pairs: [number, number][] = []
  const distances: number[] = []
  for (let i = 0; i < a.ends.length; i++) {
    const x = a.order[i]
    for (
      let j = lowerBound(b.ends, a.ends[i] - reach);
      j < b.ends.length && b.ends[j] <= a.ends[i] + reach;
      j++
    ) {
      const y = b.order[j]
      if (a.calls.signatures[x] !== b.calls.signatures[y]) continue
      pairs.push([x, y])
      distances.push(a.ends[i] - b.ends[j])
    }
  }
  const fewest = Math.max(trusted ? 1 : FEWEST, SHARE * Math.min(a.ends.length, b.ends.length))
  if (pairs.length < fewest) return null
  const centre = mostCommon(distances)
  const near = pairs
    .map((pair, i) => ({ pair, off: Math.abs(distances[i] - centre) }))
    .filter(({ off }) => off <= WINDOW)
    .sort((one, other) => one.off - other.off)
  const [usedA, usedB] = [new Set<number>(), new Set<number>()]
  const calls: [number, number][] = []
  let explained = 0
  for (const { pair } of near) {
    if (usedA.has(pair[0]) || usedB.has(pair[1])) continue
    usedA.add(pair[0])
    usedB.add(pair[1])
    calls.push(pair)
    const duration = ({ calls: { starts, ends } }: Times, call: number): number => ends[call] - starts[call]
    const least = Math.min(duration(a, pair[0]), duration(b, pair[1]))
    if (least <= transfer * (1 + UNEVEN) + 2 * WINDOW) explained++
  }
  if (calls.length < fewest) return null
  return { a, b, calls, explained: explained / calls.length }
}

/** The middle of the window, of width `WINDOW`, that contains the most values. */
function mostCommon(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort()
  let [best, middle] = [0, sorted[0]]
  for (let low = 0, high = 0; low < sorted.length; low++) {
    while (high < sorted.length && sorted[high] - sorted[low] <= WINDOW) high++
    if (high - low > best) [best, middle] = [high - low, sorted[(low + high) >> 1]]
  }
  return middle
}
