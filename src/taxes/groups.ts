/**
 * What each process group costs each of its ranks. A group is charged with its own waits and transfers only, as far as
 * the rank's ledger has them as such: a wait beside a transfer of another group is no wait in the ledger, so it is none
 * here. An instant at which two groups both wait, or both transfer, counts for each of them.
 */
import { Column, float64 } from '../timeline/columns.ts'
import { clip, total, unionOf } from '../timeline/intervals.ts'
import { NONE, type RankTimeline, type Timeline } from '../timeline/timeline.ts'
import type { Collective } from './collective.ts'
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
  collectives: readonly Collective[],
  partitions: readonly Partition[],
): GroupTime[] {
  const identify = identities(ranks, collectives)
  const groups = new Map<string, { first: Collective; collectives: number; own: Map<number, Own> }>()
  for (const collective of collectives) {
    const key = identify(collective)
    let known = groups.get(key)
    if (!known) groups.set(key, (known = { first: collective, collectives: 0, own: new Map() }))
    known.collectives++
    for (const { rank, event, wait } of collective.members) {
      let own = known.own.get(rank)
      if (!own) known.own.set(rank, (own = new Own()))
      const { start, duration } = ranks[rank].events
      const [from, to] = [start[event], start[event] + duration[event]]
      own.collectives++
      own.time.push(from)
      own.time.push(to)
      if (wait === null) continue
      own.split = true
      own.waits.push(from)
      own.waits.push(from + wait)
      own.transfers.push(from + wait)
      own.transfers.push(to)
    }
  }
  const exposed = partitions.map(({ parts }) => ({
    wait: new Measured(parts.wait),
    transfer: new Measured(parts.transfer),
  }))
  return [...groups.values()].map(({ first, collectives: count, own }) => ({
    group: nameOf(first),
    description: first.groupDescription,
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

const nameOf = ({ group, groupDescription, library }: Collective): string =>
  group ?? groupDescription ?? library ?? 'unknown'

/**
 * Which group a collective is of. Ranks that do not meet use one name for different groups, so the name is not enough:
 * a group is its name and its ranks. Where the trace does not list them, they are those that meet under that name;
 * where there is no name either, those that meet in the collective.
 */
function identities(
  ranks: readonly RankTimeline[],
  collectives: readonly Collective[],
): (collective: Collective) => string {
  const above = new Map<string, string>()
  const top = (key: string): string => {
    let at = key
    for (let next = above.get(at); next !== undefined; next = above.get(at)) at = next
    if (at !== key) above.set(key, at)
    return at
  }
  const label = (one: Collective): string => JSON.stringify([nameOf(one), one.groupDescription])
  const isNamed = ({ group, groupDescription }: Collective): boolean => (group ?? groupDescription) !== null
  for (const one of collectives) {
    if (!isNamed(one) || listedRanks(ranks, one) !== null) continue
    const [first, ...rest] = one.members.map(({ rank }) => top(`${label(one)} ${rank}`))
    for (const other of rest) if (top(other) !== top(first)) above.set(top(other), top(first))
  }
  /** Calls of one record share the list. */
  const lists = new Map<readonly number[], string>()
  return (one) => {
    const listed = listedRanks(ranks, one)
    if (listed) {
      let text = lists.get(listed)
      if (text === undefined) lists.set(listed, (text = [...listed].sort((a, b) => a - b).join(' ')))
      return `${label(one)} of ${text}`
    }
    if (isNamed(one)) return top(`${label(one)} ${one.members[0].rank}`)
    return `${label(one)} between ${one.members.map(({ rank }) => rank).join(' ')}`
  }
}

function listedRanks(
  ranks: readonly RankTimeline[],
  { members: [{ rank, event }] }: Collective,
): readonly number[] | null {
  const { communications, events } = ranks[rank]
  const communication = events.communication[event]
  return communication === NONE ? null : communications[communication].groupRanks
}
