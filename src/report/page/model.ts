/**
 * Defines the data that the tracks show, and the functions that describe events, categories of time and collectives.
 */
import { partNames, parts } from '../../taxes/ledger.ts'
import { Kind } from '../../timeline/timeline.ts'
import { percent } from '../format.ts'
import { UNCLAIMED, type PackedHeader } from '../packed.ts'
import { count, time } from '../units.ts'
import type { Description } from './dom.ts'
import type { Collectives, Lane, Rank } from './unpack.ts'

export interface Place {
  readonly rank: number
  readonly lane: Lane
  readonly event: number
}

export class Model {
  readonly header: PackedHeader
  readonly ranks: readonly Rank[]
  readonly collectives: Collectives
  /** For each member of a collective: its location on the tracks. */
  readonly places: (Place | undefined)[]
  /** The collectives, in order of their first arrival. */
  readonly order: readonly number[]
  /** For each rank: the start times of its steps. */
  readonly steps: readonly (readonly { readonly name: string; readonly start: number }[])[]
  /** The earliest and the latest time of all events and partitions. */
  readonly first: number
  readonly last: number

  constructor(header: PackedHeader, ranks: readonly Rank[], collectives: Collectives) {
    this.header = header
    this.ranks = ranks
    this.collectives = collectives
    this.places = new Array<Place | undefined>(header.members)
    let [first, last] = header.window
    for (const [rank, { lanes }] of ranks.entries())
      for (const lane of lanes) {
        first = Math.min(first, lane.start[0])
        last = Math.max(last, lane.end[lane.end.length - 1])
        lane.member?.forEach((member, event) => {
          if (member >= 0) this.places[member] = { rank, lane, event }
        })
      }
    const places = new Map(ranks.map(({ rank }, i) => [rank, i]))
    const steps = ranks.map((): { name: string; start: number }[] => [])
    for (const { name, ranks: own } of header.steps)
      for (const { rank, startUs } of own)
        steps[places.get(rank) ?? -1]?.push({ name, start: 1000 * startUs })
    this.steps = steps
    this.first = first
    this.last = last
    const arrival = (collective: number): number => this.span(collective)[0]
    this.order = [...Array(collectives.length).keys()].sort((a, b) => arrival(a) - arrival(b) || a - b)
  }

  *members(collective: number): Generator<number> {
    const { first } = this.collectives
    for (let member = first[collective]; member < first[collective + 1]; member++) yield member
  }

  /** The interval from the first arrival at the collective to the last end of the collective on any rank. */
  span(collective: number): [from: number, to: number] {
    const { start, duration } = this.collectives
    let [from, to] = [Infinity, -Infinity]
    for (const member of this.members(collective)) {
      from = Math.min(from, start[member])
      to = Math.max(to, start[member] + duration[member])
    }
    return [from, to]
  }

  /** The arrival time of the last rank, or null if it is unknown. */
  lastArrival(collective: number): number | null {
    if (this.collectives.last[collective] < 0) return null
    let last = -Infinity
    for (const member of this.members(collective)) last = Math.max(last, this.collectives.start[member])
    return last
  }

  title(collective: number): string {
    const { kind, group } = this.collectives
    const { labels } = this.header
    return [
      labels[kind[collective]] || 'collective',
      labels[group[collective]] && `group ${labels[group[collective]]}`,
    ]
      .filter(Boolean)
      .join(' · ')
  }

  describeEvent({ rank, lane, event }: Place): Description {
    const { names, labels } = this.header
    const lines: [string, string][] = [
      ['duration', time(lane.end[event] - lane.start[event])],
      ['start', time(lane.start[event])],
      ['where', `rank ${this.ranks[rank].rank}, ${trackName(lane)}`],
      ['kind', kindName(lane.kind[event])],
    ]
    if (lane.operator[event] > 0) lines.push(['operator', names[lane.operator[event] - 1]])
    if (!Number.isNaN(lane.delay[event])) lines.push(['launch delay', time(lane.delay[event])])
    const member = lane.member ? lane.member[event] : -1
    if (member >= 0) {
      const { wait, transfer, collective, kind } = this.collectives
      lines.push(['collective', labels[kind[collective[member]]] || 'unknown'])
      lines.push(['waiting', wait[member] < 0 ? 'unknown' : time(wait[member])])
      lines.push(['transfer', transfer[member] < 0 ? 'unknown' : time(transfer[member])])
    }
    return { title: names[lane.name[event]], lines }
  }

  describePart(rank: number, at: number): Description {
    const { partition, part, rank: number } = this.ranks[rank]
    const name = part[at] === UNCLAIMED ? null : partNames[part[at]]
    return {
      title: name ?? 'unclaimed',
      lines: [
        ['duration', time(partition.end[at] - partition.start[at])],
        ['start', time(partition.start[at])],
        ['where', `rank ${number}`],
        ['meaning', name === null ? 'the audit attributes this time to no category' : parts[name]],
      ],
    }
  }

  /** Describes many events under one pixel by their number and by the longest event of the first few thousand. */
  describeMany(rank: number, lane: Lane, from: number, to: number, left: number, right: number): Description {
    let [longest, busy] = [from, 0]
    const stop = Math.min(to, from + 4096)
    for (let event = from; event < stop; event++) {
      busy += Math.min(lane.end[event], right) - Math.max(lane.start[event], left)
      if (lane.end[event] - lane.start[event] > lane.end[longest] - lane.start[longest]) longest = event
    }
    const lines: [string, string][] = [
      [
        'longest',
        `${this.header.names[lane.name[longest]]}, ${time(lane.end[longest] - lane.start[longest])}`,
      ],
      ['where', `rank ${this.ranks[rank].rank}, ${trackName(lane)}, at ${time(left)}`],
    ]
    if (stop === to) lines.unshift(['busy', percent(busy, right - left)])
    return { title: `${count(to - from)} events within ${time(right - left)}`, lines }
  }
}

const trackName = ({ isHost, stream }: Lane): string => `${isHost ? 'thread' : 'stream'} ${stream}`

function kindName(kind: number): string {
  for (const [name, code] of Object.entries(Kind)) if (code === kind) return name
  return 'unknown'
}

/**
 * Shortens a kernel name such as `void at::native::add<4>(…)` to `add`, and a Python frame such as `lib/model.py(7): f` to
 * `f (model.py:7)`, so that it fits into a box.
 */
export function shortName(name: string): string {
  const frame = /([^/\\]+)\.py\((\d+)\): (.+)$/.exec(name)
  if (frame) return `${frame[3]} (${frame[1]}.py:${frame[2]})`
  const bare = name.replace(/^void /, '').replaceAll('(anonymous namespace)::', '')
  const end = bare.search(/[<(]/)
  const head = end > 0 ? bare.slice(0, end) : bare
  return head.slice(head.lastIndexOf('::') + 1).replace(/^:/, '') || bare
}
