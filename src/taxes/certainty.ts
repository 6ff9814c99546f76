/**
 * Decides whether the worst straggler may be named if the traces do not list process groups. If groups are not listed,
 * the last rank of some calls is unknown, and any rank of these calls may have caused the waiting. The worst straggler
 * is named only if it has caused more waiting than any other rank may have caused. Waiting with an unknown cause counts
 * for every rank that may have caused it.
 */
import { NONE, type Timeline } from '../timeline/timeline.ts'
import { endTolerance } from './align.ts'
import { communicationOf, participantsOf } from './calls.ts'
import { tieIn } from './collectives.ts'
import type { Collectives } from './collectiveTable.ts'
import type { Straggler } from './stragglers.ts'

/**
 * Returns the stragglers, or none if the worst straggler is uncertain. If the worst straggler is uncertain, the last
 * rank of every collective whose ranks the trace does not list becomes unknown. The argument `missing` is true if some
 * ranks of the job have no trace.
 */
export function certainStragglers(
  timeline: Timeline,
  collectives: Collectives,
  stragglers: readonly Straggler[],
  missing: boolean,
): readonly Straggler[] {
  const [worst] = stragglers
  if (!worst || timeline.ranks.length < 3) return stragglers
  const known = new Float64Array(timeline.ranks.length)
  for (const { rank, exposed } of stragglers) known[rank] = exposed
  const { byRank, byAnyone } = unknownWaiting(timeline, collectives, missing)
  const caused = known.map((exposed, rank) => exposed + byRank[rank])
  const isCertain = caused.every((time, rank) => rank === worst.rank || time + byAnyone < caused[worst.rank])
  if (isCertain || byAnyone + Math.max(...byRank) === 0) return stragglers
  for (let i = 0; i < collectives.length; i++)
    if (isUnlisted(timeline, collectives, i)) collectives.last[i] = NONE
  return []
}

function isUnlisted({ ranks }: Timeline, { first, rank, event }: Collectives, index: number): boolean {
  const member = rank[first[index]]
  return participantsOf(communicationOf(ranks[member], event[first[index]]), ranks[member].rank) === null
}

/**
 * Returns the waiting time in calls whose last rank is unknown, in nanoseconds: for each rank the waiting that this
 * rank may have caused, and the waiting that any rank may have caused. If several ranks arrived last at the same time,
 * an equal share of the waiting is charged to each of them.
 */
function unknownWaiting(
  timeline: Timeline,
  collectives: Collectives,
  missing: boolean,
): { byRank: Float64Array; byAnyone: number } {
  const { ranks } = timeline
  const { length, first, rank, event, last, endSkew, call } = collectives
  const byRank = new Float64Array(ranks.length)
  let byAnyone = 0
  const durationOf = (member: number): number => ranks[rank[member]].events.duration[event[member]]
  const shortest = new Map<number, number>()
  for (let i = 0; i < length; i++)
    for (let member = first[i]; member < first[i + 1]; member++)
      shortest.set(call[i], Math.min(shortest.get(call[i]) ?? Infinity, durationOf(member)))
  for (let i = 0; i < length; i++) {
    if (last[i] !== NONE || !isUnlisted(timeline, collectives, i)) continue
    const [from, to] = [first[i], first[i + 1]]
    let [least, sum] = [Infinity, 0]
    for (let member = from; member < to; member++) {
      least = Math.min(least, durationOf(member))
      sum += durationOf(member)
    }
    const isAlone = to - from < 2
    if (isAlone || endSkew[i] > endTolerance(least)) {
      if (!isAlone || !missing) byAnyone += sum - (to - from) * (shortest.get(call[i]) ?? least)
      continue
    }
    const late: number[] = []
    for (let member = from; member < to; member++)
      if (durationOf(member) <= least + tieIn(least)) late.push(rank[member])
    for (const one of late) byRank[one] += (sum - (to - from) * least) / late.length
  }
  return { byRank, byAnyone }
}
