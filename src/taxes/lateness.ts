/**
 * Divides the exposed waiting of each rank by the change in the job that would end the waiting. At a collective, the
 * last rank costs the other ranks the time from the arrival of the second-latest rank to its own arrival: if only the
 * last rank were faster, the other ranks would still wait for the second-latest rank. Waiting in the first collective
 * of a recording is counted separately, since it depends on when the ranks began recording. All remaining waiting would
 * end only if several ranks arrived sooner.
 *
 * No instant of a rank's exposed waiting counts twice, even if the rank waits in two collectives at once.
 */
import { Column, float64, int32 } from '../timeline/columns.ts'
import { sortBy } from '../timeline/sort.ts'
import { NONE, type Timeline } from '../timeline/timeline.ts'
import { fromCommon } from './clocks.ts'
import { type Clock, toCommon } from './collective.ts'
import { type Collectives, Unblamed } from './collectiveTable.ts'
import type { Partition } from './ledger.ts'
import { MeanMeasured } from './measured.ts'

/** Times are in nanoseconds, summed over the ranks that wait. */
export interface Lateness {
  /** For each rank of the timeline: the exposed waiting that would not occur if this rank alone never arrived last. */
  readonly saves: Float64Array
  /**
   * The exposed waiting that remains even if one rank alone arrives earlier, indexed by the rank that arrived last: the
   * waiting for the second-latest rank, and all waiting at ties. An instant at which a rank waits in two collectives
   * counts for each collective.
   */
  readonly others: Float64Array
  /** The exposed waiting of each rank in first collectives, and the longest such wait. */
  readonly first: Float64Array
  readonly longestFirst: { readonly rank: number; readonly from: number; readonly to: number } | null
}

/** Stands in place of the rank to blame for a wait in a first collective, because no rank is to blame. */
const FIRST = -2

export function latenessOf(
  { ranks }: Timeline,
  collectives: Collectives,
  clocks: readonly Clock[],
  partitions: readonly Partition[],
): Lateness {
  const claims = ranks.map(() => ({
    from: new Column(float64),
    to: new Column(float64),
    owner: new Column(int32),
  }))
  const others = new Float64Array(ranks.length)
  const exposed = partitions.map(
    ({ processors }) => new MeanMeasured(processors.map(({ parts }) => parts.wait)),
  )
  const { length, first: firstOf, rank: rankOf, event: eventOf, wait, last, unblamed } = collectives
  for (let i = 0; i < length; i++) {
    const isFirst = unblamed[i] === Unblamed.first
    if (!isFirst && last[i] === NONE) continue
    const isTie = unblamed[i] === Unblamed.tied
    let before = -Infinity
    if (!isFirst)
      for (let m = firstOf[i]; m < firstOf[i + 1]; m++)
        if (rankOf[m] !== last[i])
          before = Math.max(before, toCommon(clocks[rankOf[m]], ranks[rankOf[m]].events.start[eventOf[m]]))
    for (let m = firstOf[i]; m < firstOf[i + 1]; m++) {
      const rank = rankOf[m]
      if (!(wait[m] > 0)) continue
      const arrival = ranks[rank].events.start[eventOf[m]]
      const from = isFirst ? arrival : Math.max(arrival, Math.ceil(fromCommon(clocks[rank], before)))
      const until = arrival + wait[m]
      if (!isFirst) others[last[i]] += exposed[rank].within(arrival, isTie ? until : Math.min(from, until))
      if (isTie || from >= until) continue
      claims[rank].from.push(from)
      claims[rank].to.push(until)
      claims[rank].owner.push(isFirst ? FIRST : last[i])
    }
  }
  const saves = new Float64Array(ranks.length)
  const first = new Float64Array(ranks.length)
  let longestFirst: Lateness['longestFirst'] = null
  claims.forEach(({ from, to, owner }, rank) => {
    const order = Uint32Array.from({ length: from.length }, (_, i) => i)
    sortBy(order, (a, b) => from.get(a) - from.get(b) || to.get(b) - to.get(a))
    let at = -Infinity
    for (const i of order) {
      const start = Math.max(at, from.get(i))
      const stop = to.get(i)
      if (stop <= start) continue
      at = stop
      const time = exposed[rank].within(start, stop)
      if (time <= 0) continue
      if (owner.get(i) !== FIRST) saves[owner.get(i)] += time
      else {
        first[rank] += time
        if (longestFirst === null || stop - start > longestFirst.to - longestFirst.from)
          longestFirst = { rank, from: start, to: stop }
      }
    }
  })
  return { saves, others, first, longestFirst }
}
