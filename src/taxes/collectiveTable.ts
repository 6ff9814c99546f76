/**
 * Stores collectives in columns. A job may have hundreds of thousands of collectives. Objects for all collectives would
 * take more memory than the events themselves. The members of collective `i` have the indices from `first[i]` up to but
 * excluding `first[i + 1]`.
 */
import { NONE } from '../timeline/timeline.ts'
import type { Collective, MatchedBy } from './collective.ts'

/** The properties that all calls with one communication record share. */
export type CollectiveCall = Pick<Collective, 'kind' | 'library' | 'group' | 'groupDescription' | 'groupSize'>

const means: readonly (MatchedBy | null)[] = [
  null,
  'communicator and sequence',
  'group and order',
  'order on the stream',
]
/** Two functions that convert a matching method to a number, and a number to a matching method. */
export const numberOfMeans = (by: MatchedBy | null): number => means.indexOf(by)
export const meansOfNumber = (number: number): MatchedBy | null => means[number]

/** Whether a rank is blamed for the waiting at a collective of several ranks, and if not, why not. */
export const Unblamed = {
  /** The waiting is charged to the last rank, or only one rank of the collective is known. */
  no: 0,
  /** The trace does not list the ranks of the group, and the calls may belong to different groups. */
  doubtful: 1,
  /** Two ranks arrived last, and their arrivals differ by less than the residual of their clocks. */
  tied: 2,
  /**
   * No rank is to blame, because no earlier collective links the ranks of this collective. The ranks may have begun
   * recording at different times, so the order of arrivals says nothing about their work.
   */
  first: 3,
} as const

export class Collectives implements Iterable<Collective> {
  readonly length: number
  readonly calls: readonly CollectiveCall[]
  /** The columns from `call` to `first` have one entry per collective. */
  readonly call: Uint32Array
  readonly matchedBy: Uint8Array
  readonly complete: Uint8Array
  /** The rank that arrived last, or `NONE` if it is unknown. */
  readonly last: Int32Array
  /** A value of `Unblamed`. If the value is `doubtful`, the rank that arrived last is `NONE`. */
  readonly unblamed: Uint8Array
  readonly endSkew: Float64Array
  readonly first: Uint32Array
  /** The columns from `rank` to `transfer` have one entry per member of a collective. */
  readonly rank: Int32Array
  readonly event: Int32Array
  /** The waiting and transfer times in nanoseconds, or NaN if they are unknown. */
  readonly wait: Float64Array
  readonly transfer: Float64Array

  /** Allocates the columns, which the caller fills. */
  constructor(calls: readonly CollectiveCall[], length: number, members: number) {
    this.length = length
    this.calls = calls
    this.call = new Uint32Array(length)
    this.matchedBy = new Uint8Array(length)
    this.complete = new Uint8Array(length)
    this.last = new Int32Array(length)
    this.unblamed = new Uint8Array(length)
    this.endSkew = new Float64Array(length)
    this.first = new Uint32Array(length + 1)
    this.rank = new Int32Array(members)
    this.event = new Int32Array(members)
    this.wait = new Float64Array(members)
    this.transfer = new Float64Array(members)
  }

  static from(list: readonly Collective[]): Collectives {
    const members = list.reduce((sum, one) => sum + one.members.length, 0)
    const made = new Collectives(list, list.length, members)
    let at = 0
    list.forEach((one, i) => {
      made.call[i] = i
      made.matchedBy[i] = numberOfMeans(one.matchedBy)
      made.complete[i] = Number(one.complete)
      made.last[i] = one.last ?? NONE
      made.unblamed[i] = one.last === null && one.members.length > 1 ? Unblamed.doubtful : Unblamed.no
      made.endSkew[i] = one.endSkew
      for (const { rank, event, wait, transfer } of one.members) {
        made.rank[at] = rank
        made.event[at] = event
        made.wait[at] = wait ?? NaN
        made.transfer[at++] = transfer ?? NaN
      }
      made.first[i + 1] = at
    })
    return made
  }

  /** Returns the collectives with the indices `chosen`, in the order of `chosen`. */
  select(chosen: Uint32Array): Collectives {
    let members = 0
    for (const i of chosen) members += this.first[i + 1] - this.first[i]
    const made = new Collectives(this.calls, chosen.length, members)
    let at = 0
    for (let to = 0; to < chosen.length; to++) {
      const i = chosen[to]
      made.call[to] = this.call[i]
      made.matchedBy[to] = this.matchedBy[i]
      made.complete[to] = this.complete[i]
      made.last[to] = this.last[i]
      made.unblamed[to] = this.unblamed[i]
      made.endSkew[to] = this.endSkew[i]
      for (let m = this.first[i]; m < this.first[i + 1]; m++, at++) {
        made.rank[at] = this.rank[m]
        made.event[at] = this.event[m]
        made.wait[at] = this.wait[m]
        made.transfer[at] = this.transfer[m]
      }
      made.first[to + 1] = at
    }
    return made
  }

  callOf(index: number): CollectiveCall {
    return this.calls[this.call[index]]
  }

  /** Returns one collective as an object, for callers that need only a few collectives. */
  at(index: number): Collective {
    const { kind, library, group, groupDescription, groupSize } = this.callOf(index)
    const from = this.first[index]
    return {
      kind,
      library,
      group,
      groupDescription,
      groupSize,
      matchedBy: meansOfNumber(this.matchedBy[index]),
      complete: this.complete[index] === 1,
      members: Array.from({ length: this.first[index + 1] - from }, (_, k) => ({
        rank: this.rank[from + k],
        event: this.event[from + k],
        wait: orNull(this.wait[from + k]),
        transfer: orNull(this.transfer[from + k]),
      })),
      last: this.last[index] === NONE ? null : this.last[index],
      endSkew: this.endSkew[index],
    }
  }

  *[Symbol.iterator](): Generator<Collective> {
    for (let index = 0; index < this.length; index++) yield this.at(index)
  }
}

const orNull = (time: number): number | null => (Number.isNaN(time) ? null : time)
