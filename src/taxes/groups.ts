/**
 * Computes the time that each process group costs each of its ranks. A process group is charged only with waits and
 * transfers in its own collectives, and only as far as the rank's ledger counts their time as wait or transfer. For
 * example, the ledger does not count a wait that is hidden by another group's transfer. If a rank waits in two groups
 * at the same instant, or transfers in two groups, the instant counts for each group.
 */
import { Column, float64 } from '../timeline/columns.ts'
import { clip, total, unionOf } from '../timeline/intervals.ts'
import type { RankTimeline, Timeline } from '../timeline/timeline.ts'
import { recordsInside } from '../timeline/workers.ts'
import { communicationOf } from './calls.ts'
import type { CollectiveCall, Collectives } from './collectiveTable.ts'
import type { Partition } from './ledger.ts'
import { MeanMeasured } from './measured.ts'

/** The times of one process group, in nanoseconds. */
export interface GroupTime {
  readonly group: string
  readonly description: string | null
  readonly collectives: number
  /** The ranks of the group that have a trace, in ascending order. */
  readonly perRank: readonly GroupRankTime[]
}

export interface GroupRankTime {
  /** The index of the rank in the timeline. */
  readonly rank: number
  readonly collectives: number
  readonly communication: number
  /** The exposed waiting and transfer time, or null if no time can be split into wait and transfer. */
  readonly wait: number | null
  readonly transfer: number | null
}

/** The process groups, in order of their first collective. `partitions` has one entry per rank of the timeline. */
export function groupTimes(
  { ranks }: Timeline,
  collectives: Collectives,
  partitions: readonly Partition[],
): GroupTime[] {
  const identify = identities(ranks, collectives)
  // If a rank recorded events inside kernels, its ledger separates wait and transfer within a kernel.
  const recorded = ranks.map(recordsInside)
  const groups = new Map<Identity, { call: CollectiveCall; collectives: number; own: Map<number, Own> }>()
  for (let i = 0; i < collectives.length; i++) {
    const key = identify(i)
    let known = groups.get(key)
    if (!known)
      groups.set(key, (known = { call: collectives.callOf(i), collectives: 0, own: new Map<number, Own>() }))
    known.collectives++
    for (let member = collectives.first[i]; member < collectives.first[i + 1]; member++) {
      const rank = collectives.rank[member]
      const event = collectives.event[member]
      const wait = collectives.wait[member]
      let own = known.own.get(rank)
      if (!own) known.own.set(rank, (own = new Own()))
      const { start, duration } = ranks[rank].events
      const [from, to] = [start[event], start[event] + duration[event]]
      own.collectives++
      own.time.push(from)
      own.time.push(to)
      const isInside = recorded[rank]
      if (Number.isNaN(wait) && !isInside) continue
      own.split = true
      own.waits.push(from)
      own.waits.push(isInside ? to : from + wait)
      own.transfers.push(isInside ? from : from + wait)
      own.transfers.push(to)
    }
  }
  const exposed = partitions.map(({ processors }) => ({
    wait: new MeanMeasured(processors.map(({ parts }) => parts.wait)),
    transfer: new MeanMeasured(processors.map(({ parts }) => parts.transfer)),
  }))
  return [...groups.values()].map(({ call, collectives: count, own }) => ({
    group: nameOf(call),
    description: call.groupDescription,
    collectives: count,
    perRank: [...own]
      .sort(([a], [b]) => a - b)
      .map(([rank, { collectives: calls, split, time, waits, transfers }]) => ({
        rank,
        collectives: calls,
        communication: total(clip(unionOf(time.all()), partitions[rank].from, partitions[rank].to)),
        wait: split ? exposed[rank].wait.of(unionOf(waits.all())) : null,
        transfer: split ? exposed[rank].transfer.of(unionOf(transfers.all())) : null,
      })),
  }))
}

/** The collectives of one rank in a group. Times are stored as pairs of start and end. */
class Own {
  collectives = 0
  split = false
  readonly time = new Column(float64)
  readonly waits = new Column(float64)
  readonly transfers = new Column(float64)
}

const nameOf = ({ group, groupDescription, library }: CollectiveCall): string =>
  group || groupDescription || library || 'unknown'

/**
 * The identity of a group is a text, or a number if the group is defined by the ranks that communicate under its name.
 */
type Identity = string | number

/**
 * Identifies the group of a collective. Ranks that never communicate with each other may use one name for different
 * groups, so a group is identified by its name and its ranks. If the trace does not list the ranks of a group, its
 * ranks are those that communicate under its name. If a collective has neither a list of ranks nor a group name, its
 * group consists of the ranks that take part in it.
 */
function identities(
  ranks: readonly RankTimeline[],
  { length, calls, call, first, rank, event }: Collectives,
): (collective: number) => Identity {
  const numbers = new Map<string, number>()
  const labels = calls.map((one) => {
    const text = JSON.stringify([nameOf(one), one.groupDescription])
    let number = numbers.get(text)
    if (number === undefined) numbers.set(text, (number = numbers.size))
    return { text, number, named: (one.group ?? one.groupDescription) !== null }
  })
  const listed = (collective: number): readonly number[] | null => {
    const member = first[collective]
    return communicationOf(ranks[rank[member]], event[member])?.groupRanks ?? null
  }

  /**
   * A union-find forest, keyed by group name and rank. Each entry points to another rank of the same group, and finally
   * to the group's representative.
   */
  const above = new Map<number, number>()
  const top = (place: number): number => {
    let at = place
    for (let next = above.get(at); next !== undefined; next = above.get(at)) at = next
    if (at !== place) above.set(place, at)
    return at
  }
  const placeOf = (collective: number, member: number): number =>
    labels[call[collective]].number * ranks.length + rank[member]
  for (let i = 0; i < length; i++) {
    if (!labels[call[i]].named || listed(i) !== null) continue
    const met = top(placeOf(i, first[i]))
    for (let member = first[i] + 1; member < first[i + 1]; member++) {
      const other = top(placeOf(i, member))
      if (other !== met) above.set(other, met)
    }
  }

  /** Calls that share one communication record also share the same list object. */
  const lists = new Map<readonly number[], string>()
  return (collective) => {
    const { text, named } = labels[call[collective]]
    const list = listed(collective)
    if (list) {
      let known = lists.get(list)
      if (known === undefined) lists.set(list, (known = [...list].sort((a, b) => a - b).join(' ')))
      return `${text} of ${known}`
    }
    if (named) return top(placeOf(collective, first[collective]))
    return `${text} between ${rank.subarray(first[collective], first[collective + 1]).join(' ')}`
  }
}
