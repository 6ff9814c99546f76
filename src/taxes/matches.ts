/**
 * Which calls of several ranks are the same, in columns: a rank may have hundreds of thousands of collectives, and as
 * objects of their own they would take more memory than its events.
 */
import { Column, int32, uint8 } from '../timeline/columns.ts'
import type { MatchedBy } from './collective.ts'

/** One collective: which ranks' calls are it. */
export interface Match {
  /** Null where only one rank is known. */
  readonly by: MatchedBy | null
  /** Indices into the timeline's ranks, ascending. */
  readonly members: readonly number[]
  /** The event of each. */
  readonly events: readonly number[]
}

const means: readonly (MatchedBy | null)[] = [
  null,
  'communicator and sequence',
  'group and order',
  'order on the stream',
]

export class Matches {
  private readonly by = new Column(uint8)
  /** Where the members of each end. */
  private readonly ends = new Column(int32)
  private readonly members = new Column(int32)
  private readonly events = new Column(int32)

  get length(): number {
    return this.ends.length
  }

  /** Adds a collective of one rank. */
  alone(member: number, event: number): void {
    this.member(member, event)
    this.close(null)
  }

  /** Adds a rank to the collective that the next `close` completes. */
  member(member: number, event: number): void {
    this.members.push(member)
    this.events.push(event)
  }

  /** `by` counts where there are several ranks. */
  close(by: MatchedBy | null): void {
    const count = this.members.length - this.start(this.ends.length)
    this.by.push(count > 1 ? means.indexOf(by) : 0)
    this.ends.push(this.members.length)
  }

  /** How many ranks are known of a collective. */
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
    return { by: means[this.by.get(index)], members, events }
  }

  *[Symbol.iterator](): Generator<Match> {
    for (let index = 0; index < this.length; index++) yield this.at(index)
  }

  /** Those of several ranks. */
  *shared(): Generator<Match> {
    for (let index = 0; index < this.length; index++) if (this.size(index) > 1) yield this.at(index)
  }

  private start(index: number): number {
    return index === 0 ? 0 : this.ends.get(index - 1)
  }
}
