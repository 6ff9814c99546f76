/**
 * What each process group costs each of its ranks. A group is charged with its own waits and transfers only, as far as
 * the rank's ledger has them as such: a wait beside a transfer of another group is no wait in the ledger, so it is none
 * here. An instant at which two groups both wait, or both transfer, counts for each of them.
 */
import { Column, float64 } from '../timeline/columns.ts'
import { clip, total, unionOf } from '../timeline/intervals.ts'
import type { RankTimeline, Timeline } from '../timeline/timeline.ts'
import { recordsInside } from '../timeline/workers.ts'
import { communicationOf } from './calls.ts'
import type { CollectiveCall, Collectives } from './collectiveTable.ts'
import type { Partition } from './ledger.ts'
import { Measured } from './measured.ts'

/** One process group, in nanoseconds. */
export interface GroupTime {
  readonly group: string
  readonly description: string | null
  readonly collectives: number
  /** In order of the rank; those that have a trace. */
  readonly perRank: readonly GroupRankTime[]
}

export interface GroupRankTime {
  /** Index into the timeline's ranks. */
  readonly rank: number
  readonly collectives: number
  readonly communication: number
  /** Exposed; null where nothing of it can be split. */
  readonly wait: number | null
  readonly transfer: number | null
}

/** In order of their first collective. `partitions` are by rank, as the timeline's. */
export function groupTimes(
  { ranks }: Timeline,
  collectives: Collectives,
  partitions: readonly Partition[],
): GroupTime[] {
  const identify = identities(ranks, collectives)
  // Then the rank's ledger tells waiting from transfer within the kernel.
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
  const exposed = partitions.map(({ parts }) => ({
    wait: new Measured(parts.wait),
    transfer: new Measured(parts.transfer),
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

/** A rank's part in a group; times as pairs. */
class Own {
  collectives = 0
  split = false
  readonly time = new Column(float64)
  readonly waits = new Column(float64)
  readonly transfers = new Column(float64)
}

const nameOf = ({ group, groupDescription, library }: CollectiveCall): string =>
  group || groupDescription || library || 'unknown'

/** Of a group: a text, or where the ranks that meet under a name are the group, a number. */
type Identity = string | number

/**
 * Which group a collective is of. Ranks that do not meet use one name for different groups, so the name is not enough:
 * a group is its name and its ranks. Where the trace does not list them, they are those that meet under that name;
 * where there is no name either, those that meet in the collective.
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

  /** By name and rank: another of the same group, up to the one that stands for it. */
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

  /** Calls of one record share the list. */
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
