/**
 * Stores the matches of calls across ranks in columns. A rank may have hundreds of thousands of collectives. If each
 * collective were an object, the collectives would take more memory than the rank's events.
 */
import { Column, int32, uint8 } from '../timeline/columns.ts'
import { NONE } from '../timeline/timeline.ts'
import type { MatchedBy } from './collective.ts'
import { meansOfNumber, numberOfMeans } from './collectiveTable.ts'

/**
 * The way in which the ranks of a collective were found. `listed`: the trace lists the ranks. `guessed`: the ranks
 * follow from the order and the end times of single calls. `estimated`: by the trace's clocks, the ranks end all of
 * their calls together. `corrected`: by estimated clocks, the ranks end all of their calls together, and the trace's
 * clocks do not explain the calls. `doubtful`: the ranks are probably several groups.
 */
export const groupSources = ['listed', 'guessed', 'estimated', 'corrected', 'doubtful'] as const
export type GroupSource = (typeof groupSources)[number]

/** One collective, with the calls of the ranks that take part in it. */
export interface Match {
  /** The matching method, or null if only one rank is known. */
  readonly by: MatchedBy | null
  /** The indices of the ranks in the timeline, in ascending order. */
  readonly members: readonly number[]
  /** The event of each member. */
  readonly events: readonly number[]
  /** If the trace does not list the ranks of the group, the match may be wrong. */
  readonly source: GroupSource
  /**
   * True if the ranks are certainly one group. If the value is false, the ranks may be several groups that end all of
   * their calls at the same time.
   */
  readonly single: boolean
}

export class Matches {
  private readonly by = new Column(uint8)
  private readonly sources = new Column(uint8)
  /** For each collective: the index after its last member in the columns of members. */
  private readonly ends = new Column(int32)
  private readonly members = new Column(int32)
  private readonly events = new Column(int32)

  get length(): number {
    return this.ends.length
  }

  /** Adds a collective of one rank. */
  alone(member: number, event: number): void {
    this.member(member, event)
    this.close(null, 'listed')
  }

  /** Adds a rank to the collective that the next `close` completes. */
  member(member: number, event: number): void {
    this.members.push(member)
    this.events.push(event)
  }

  /** Completes the collective. The matching method `by` is ignored if the collective has only one rank. */
  close(by: MatchedBy | null, source: GroupSource, single = source === 'listed'): void {
    const count = this.members.length - this.start(this.ends.length)
    this.by.push(numberOfMeans(count > 1 ? by : null))
    this.sources.push(count > 1 ? 2 * groupSources.indexOf(source) + Number(single) : 1)
    this.ends.push(this.members.length)
  }

  /** The number of members of all collectives. */
  get memberCount(): number {
    return this.members.length
  }

  /** The number of known ranks of a collective. */
  size(index: number): number {
    return this.ends.get(index) - this.start(index)
  }

  at(index: number): Match {
    const from = this.start(index)
    const count = this.ends.get(index) - from
    const members = new Array<number>(count)
    const events = new Array<number>(count)
    for (let i = 0; i < count; i++) {
      members[i] = this.members.get(from + i)
      events[i] = this.events.get(from + i)
    }
    const code = this.sources.get(index)
    const by = meansOfNumber(this.by.get(index))
    return { by, members, events, source: groupSources[code >> 1], single: (code & 1) === 1 }
  }

  *[Symbol.iterator](): Generator<Match> {
    for (let index = 0; index < this.length; index++) yield this.at(index)
  }

  /** The collectives that have several ranks. */
  *shared(): Generator<Match> {
    for (let index = 0; index < this.length; index++) if (this.size(index) > 1) yield this.at(index)
  }

  private start(index: number): number {
    return index === 0 ? 0 : this.ends.get(index - 1)
  }
}

/**
 * Collectives to which ranks are still being added. All members are in one list, and each member links to the next
 * member of its collective.
 */
export class GrowingMatches {
  /** For each collective: its first member and its latest member. */
  private readonly first = new Column(int32)
  private readonly last = new Column(int32)
  private readonly members = new Column(int32)
  private readonly events = new Column(int32)
  private readonly next = new Column(int32)

  get length(): number {
    return this.first.length
  }

  /** Begins a collective and returns its index. */
  begin(member: number, event: number): number {
    this.first.push(this.push(member, event))
    this.last.push(this.members.length - 1)
    return this.first.length - 1
  }

  add(match: number, member: number, event: number): void {
    const place = this.push(member, event)
    this.next.set(this.last.get(match), place)
    this.last.set(match, place)
  }

  /** Appends a completed collective to `matches`. */
  finish(match: number, by: MatchedBy, source: GroupSource, matches: Matches): void {
    for (let i = this.first.get(match); i !== NONE; i = this.next.get(i))
      matches.member(this.members.get(i), this.events.get(i))
    matches.close(by, source)
  }

  private push(member: number, event: number): number {
    this.members.push(member)
    this.events.push(event)
    this.next.push(NONE)
    return this.members.length - 1
  }
}
