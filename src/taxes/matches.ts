/**
 * Stores the matches of calls across ranks in columns. A rank may have hundreds of thousands of collectives. As
 * separate objects, they would take more memory than the rank's events.
 */
import { Column, int32, uint8 } from '../timeline/columns.ts'
import { NONE } from '../timeline/timeline.ts'
import type { MatchedBy } from './collective.ts'
import { meansOfNumber, numberOfMeans } from './collectiveTable.ts'

/** One collective, with the calls of the ranks that take part in it. */
export interface Match {
  /** The matching method, or null if only one rank is known. */
  readonly by: MatchedBy | null
  /** The indices of the ranks in the timeline, in ascending order. */
  readonly members: readonly number[]
  /** The event of each member. */
  readonly events: readonly number[]
  /** True if the trace does not list the ranks of the group, so that the match may be wrong. */
  readonly guessed: boolean
}

export class Matches {
  private readonly by = new Column(uint8)
  private readonly guesses = new Column(uint8)
  /** The index after the last member of each collective in the columns below. */
  private readonly ends = new Column(int32)
  private readonly members = new Column(int32)
  private readonly events = new Column(int32)

  get length(): number {
    return this.ends.length
  }

  /** Adds a collective of one rank. */
  alone(member: number, event: number): void {
    this.member(member, event)
    this.close(null, false)
  }

  /** Adds a rank to the collective that the next `close` completes. */
  member(member: number, event: number): void {
    this.members.push(member)
    this.events.push(event)
  }

  /** Completes the collective. `by` is ignored if the collective has only one rank. */
  close(by: MatchedBy | null, guessed: boolean): void {
    const count = this.members.length - this.start(this.ends.length)
    this.by.push(numberOfMeans(count > 1 ? by : null))
    this.guesses.push(Number(guessed && count > 1))
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
    const guessed = this.guesses.get(index) === 1
    return { by: meansOfNumber(this.by.get(index)), members, events, guessed }
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
  finish(match: number, by: MatchedBy, guessed: boolean, matches: Matches): void {
    for (let i = this.first.get(match); i !== NONE; i = this.next.get(i))
      matches.member(this.members.get(i), this.events.get(i))
    matches.close(by, guessed)
  }

  private push(member: number, event: number): number {
    this.members.push(member)
    this.events.push(event)
    this.next.push(NONE)
    return this.members.length - 1
  }
}
