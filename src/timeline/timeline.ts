/**
 * The one timeline model, for traces of other programs and for our own runs: a world of ranks; a rank has tracks
 * (device streams, host threads, device annotations), a track has events in order of their start.
 *
 * Times are integer nanoseconds. An event's `start` is relative to its rank's `base`, a bigint, because profilers
 * write nanoseconds since 1970, which a double cannot hold; relative to the rank's first event they are exact, sums of a
 * few included, for 26 days (2^51 ns), and readers leave out what lies further away. Ranks have different bases: compare times of two ranks through `offsetBetween`.
 *
 * Events are columns, 26 bytes each as a rule: they are as wide as their numbers need. An event is named by its index in its rank; the events of a track are
 * neighbours. A timeline is made by a `TimelineBuilder` and does not change afterwards.
 */

import type { Signed, Unsigned } from './columns.ts'
import { lowerBound } from './search.ts'

/** What an event is. Below `wait` a device works; a wait or a transfer is time inside or beside that work. */
export const Kind = {
  kernel: 0,
  memcpy: 1,
  memset: 2,
  /** A kernel that moves data between ranks, or waits for them. */
  communication: 3,
  /** A stream or a program waits for an event or a flag. */
  wait: 4,
  /** A copy between ranks from inside a kernel. */
  transfer: 5,
  /** A host call that enqueues device work and returns. */
  launch: 6,
  /** A host call that blocks until device work is done, blocking copies included. */
  synchronize: 7,
  /** Any other call of the runtime or the driver. */
  runtime: 8,
  operator: 9,
  annotation: 10,
  /** An annotation that delimits one step of the program. */
  step: 11,
} as const
export type Kind = (typeof Kind)[keyof typeof Kind]

/** Whether events of this kind keep the device busy. */
export const isDeviceWork = (kind: number): boolean => kind <= Kind.communication

/** Whether a call or a device event of this name makes a stream wait for an event of another. */
export const isStreamWait = (name: string): boolean => /stream\s?wait/i.test(name)

/** What to call an event in a sentence. */
export const calledEvent = (name: string): string => name.trim().slice(0, 60) || 'an event without a name'

/** No event, no communication, no sequence number. */
export const NONE = -1

export interface Track {
  /**
   * Device annotations span the events of a stream, so they have a track of their own beside it. A worker is what runs the
   * programs of our own kernels (workers.ts).
   */
  readonly role: 'stream' | 'thread' | 'annotations' | 'worker'
  /** The device of a stream, the process of a thread. */
  readonly owner: number
  /** The stream's or thread's number. */
  readonly id: number
  /** Its events are those from `from` up to, without, `to`. */
  readonly from: number
  readonly to: number
}

/** What is known of a communication, shared by all events of which the same is known. */
export interface Communication {
  /** allReduce, allGather, reduceScatter, allToAll, broadcast, reduce, sendRecv, barrier; null where unknown. */
  readonly collective: string | null
  /** The library whose kernel it is. */
  readonly library: string | null
  readonly group: string | null
  readonly groupDescription: string | null
  /** Ranks of the group, where the trace lists them all. */
  readonly groupRanks: readonly number[] | null
  readonly groupSize: number | null
  readonly communicator: string | null
  readonly dtype: string | null
  readonly elementsIn: number | null
  readonly elementsOut: number | null
  /** The ranks of a point-to-point message. */
  readonly source: number | null
  readonly destination: number | null
}

/** A communication of which nothing is known. */
export const unknownCommunication: Communication = {
  collective: null,
  library: null,
  group: null,
  groupDescription: null,
  groupRanks: null,
  groupSize: null,
  communicator: null,
  dtype: null,
  elementsIn: null,
  elementsOut: null,
  source: null,
  destination: null,
}

/** What an operator was called with, shared by all calls with the same. */
export interface Operands {
  /** The extents of each, in order; empty for a scalar or an absent one. */
  readonly shapes: readonly (readonly number[])[]
  /** As the trace writes them: `c10::BFloat16`, `float`, `Scalar`; empty where it does not. */
  readonly types: readonly string[]
}

/** What a kernel of our own does to its rank's copy of a tensor, in bytes; a place that is accessed twice counts twice. */
export interface TensorBytes {
  /** The same number for the same allocation, on all ranks. */
  readonly tensor: number
  readonly name: string
  /** Of the rank's copy. */
  readonly size: number
  /** By the launch on all ranks: what its programs store here, and what peers put here. */
  readonly written: number
  /** By the rank's own programs. */
  readonly read: number
}

/** Numbers of some events, which ascend. */
export interface Sequence {
  readonly events: Uint32Array
  readonly numbers: Int32Array
}

/** The columns of a rank's events. */
export interface Events {
  readonly length: number
  /** Nanoseconds after the rank's base. */
  readonly start: Float64Array
  readonly duration: Float64Array | Uint32Array
  /** Bytes that a copy, a fill or a transfer moves, of the few events where it is known. */
  readonly bytes: ReadonlyMap<number, number>
  /** One of `Kind`. */
  readonly kind: Uint8Array
  /** Index into the timeline's names. */
  readonly name: Unsigned
  /** Index into the rank's tracks. */
  readonly track: Unsigned
  /** The host call that enqueued a device event, or `NONE`. */
  readonly launch: Int32Array
  /** The host operator that a device event or a host call belongs to, or `NONE`. */
  readonly operator: Int32Array
  /** Index into the rank's communications, or `NONE`. */
  readonly communication: Signed
  /** The communication's number on its communicator, of those that have one; `sequenceOf` looks it up. */
  readonly sequence: Sequence
  /** Index into the rank's operands, or `NONE`; of operators. */
  readonly operands: Signed
  /** Of kernels of our own; events of the same launch plan share one list. */
  readonly traffic: ReadonlyMap<number, readonly TensorBytes[]>
}

export interface RankTimeline {
  readonly rank: number
  /** What `start` 0 is on the clock of the rank's machine, in nanoseconds. */
  readonly base: bigint
  readonly tracks: readonly Track[]
  readonly events: Events
  readonly communications: readonly Communication[]
  readonly operands: readonly Operands[]
  /** The name of the device that the streams are on, where the trace tells. */
  readonly device: string | null
  /** From the first start to the last end of device work, relative to the base; null without device work. */
  readonly deviceSpan: readonly [from: number, to: number] | null
}

export interface Timeline {
  /** In order of their number; numbers may be missing. */
  readonly ranks: readonly RankTimeline[]
  readonly names: readonly string[]
}

export const end = (events: Events, event: number): number => events.start[event] + events.duration[event]

/** A communication's number on its communicator, or `NONE`. */
export function sequenceOf({ sequence: { events, numbers } }: Events, event: number): number {
  const at = lowerBound(events, event)
  return at < events.length && events[at] === event ? numbers[at] : NONE
}

export const streams = (rank: RankTimeline): readonly Track[] =>
  rank.tracks.filter(({ role }) => role === 'stream')

export const threads = (rank: RankTimeline): readonly Track[] =>
  rank.tracks.filter(({ role }) => role === 'thread')

/** The events of a track in order of their start; of two that start at once, the longer first. */
export function* eventsOf(track: Track): Generator<number> {
  for (let event = track.from; event < track.to; event++) yield event
}

/** 26 days: sums of a few times that are no further from the base are exact integers. */
const furthest = 2 ** 51

/** Whether an event lies where times are exact. */
export const isInReach = (start: number, duration: number): boolean =>
  Number.isInteger(start) && start >= -furthest && Number.isInteger(duration) && start + duration <= furthest

/** What to add to a time of `from` to have it relative to the base of `to`. */
export function offsetBetween(from: RankTimeline, to: RankTimeline): number {
  const offset = from.base - to.base
  const exact = Number(offset)
  if (!Number.isSafeInteger(exact))
    throw new RangeError(`ranks ${from.rank} and ${to.rank} are ${offset} ns apart, more than 104 days`)
  return exact
}
