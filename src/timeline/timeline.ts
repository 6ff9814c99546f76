/**
 * The timeline model, for traces of other programs and for Arke's own runs. A timeline consists of ranks. The events of
 * a rank are on tracks (device streams, host threads, device annotations, workers). The events of a track are sorted by
 * start.
 *
 * All times of a timeline are integer nanoseconds. The `start` of an event is relative to the `base` of its rank. The
 * `base` is a bigint, because profilers write nanoseconds since 1970, which a double cannot hold exactly. Times within
 * 26 days (2^51 ns) of the base are exact, and sums of a few of these times are exact, too. Trace readers omit events
 * that are further than 26 days from the base. Different ranks have different bases, so times of two ranks are compared
 * by means of `offsetBetween`.
 *
 * Events are stored in columns, which are only as wide as their numbers need. An event usually takes 26 bytes in total.
 * An event is identified by its index within its rank. The events of one track are contiguous in the columns. A
 * timeline is built by a `TimelineBuilder` and does not change after that.
 */

import type { Signed, Unsigned } from './columns.ts'
import { lowerBound } from './search.ts'

/**
 * The kind of an event. Kinds with a value below `wait` are work of the device. Events of the kinds `wait` and
 * `transfer` may lie inside other device work.
 */
export const Kind = {
  kernel: 0,
  memcpy: 1,
  memset: 2,
  /** A kernel that moves data between ranks or waits for other ranks. */
  communication: 3,
  /** An interval in which a stream waits for an event, or a program waits for a flag. */
  wait: 4,
  /** A copy between ranks that a program makes inside a kernel. */
  transfer: 5,
  /** A host call that enqueues device work and returns. */
  launch: 6,
  /** A host call that blocks until device work is done, such as a blocking copy. */
  synchronize: 7,
  /** A call of the CUDA runtime or driver that is neither a `launch` nor a `synchronize`. */
  runtime: 8,
  operator: 9,
  annotation: 10,
  /** An annotation that delimits one step of the program. */
  step: 11,
  /**
   * A call of a function of the program (Python), as traces with stacks record it. Only long calls of Python functions
   * are kept.
   */
  frame: 12,
} as const
export type Kind = (typeof Kind)[keyof typeof Kind]

/** True if an event of this kind keeps the device busy. */
export const isDeviceWork = (kind: number): boolean => kind <= Kind.communication

/** True if a host call or device event with this name makes a stream wait for an event of another stream. */
export const isStreamWait = (name: string): boolean => /stream\s?wait/i.test(name)

/** The display name of an event, for use in a sentence. */
export const calledEvent = (name: string): string => name.trim().slice(0, 60) || 'an event without a name'

/** The value of an index or number if there is no event, no communication or no sequence number. */
export const NONE = -1

export interface Track {
  /**
   * What the track shows: a device stream, a host thread, device annotations, or a worker. Device annotations span
   * several events of a stream, so they have a separate track. A worker runs the programs of Arke's own kernels (see
   * workers.ts).
   */
  readonly role: 'stream' | 'thread' | 'annotations' | 'worker'
  /** The number of the device (for a stream), or the id of the process (for a thread). */
  readonly owner: number
  /** The number of the stream or of the thread. */
  readonly id: number
  /** The events of the track have the indices from `from` up to, but excluding, `to`. */
  readonly from: number
  readonly to: number
}

/**
 * A communication record, which all events with the same metadata share. Fields of a communication record whose value
 * is unknown are null.
 */
export interface Communication {
  /**
   * The kind of the collective: one of allReduce, allGather, reduceScatter, allToAll, broadcast, reduce, sendRecv and
   * barrier, or null if it is unknown.
   */
  readonly collective: string | null
  /** The library to which the communication kernel belongs, such as NCCL. */
  readonly library: string | null
  readonly group: string | null
  readonly groupDescription: string | null
  /** The ranks of the process group, or null if the trace does not list all of them. */
  readonly groupRanks: readonly number[] | null
  readonly groupSize: number | null
  readonly communicator: string | null
  readonly dtype: string | null
  readonly elementsIn: number | null
  readonly elementsOut: number | null
  /** The sending and the receiving rank of a point-to-point message. */
  readonly source: number | null
  readonly destination: number | null
}

/**
 * Libraries of communication kernels that Arke recognises by the name of the kernel only. For a library that is
 * recognised only by kernel names, it is unknown whether a rank may leave a kernel before all ranks have arrived.
 */
export const unverifiedLibraries: ReadonlySet<string> = new Set(['custom', 'named by --comm'])

/** A communication record in which every field is unknown. */
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

/** The operands of an operator call, which all calls with equal operands share. */
export interface Operands {
  /** The extents of each operand, in order. The list of extents is empty for a scalar or an absent operand. */
  readonly shapes: readonly (readonly number[])[]
  /**
   * The type of each operand as the trace writes it (`c10::BFloat16`, `float`, `Scalar`), or an empty text if the trace
   * has none.
   */
  readonly types: readonly string[]
}

/**
 * The bytes of one tensor that a kernel of Arke accesses on its rank. An element that is accessed twice adds its bytes
 * twice.
 */
export interface TensorBytes {
  /** The id of the tensor's allocation, which is equal on all ranks. */
  readonly tensor: number
  readonly name: string
  /** The size of the rank's copy of the tensor in bytes. */
  readonly size: number
  /**
   * The bytes that the programs of a launch, on this rank and on its peers, write to the rank's copy of a tensor.
   */
  readonly written: number
  /** The bytes of a tensor that the rank's own programs read. */
  readonly read: number
}

/**
 * The sequence numbers of the communication events that have a sequence number. The array `events` is in ascending
 * order.
 */
export interface Sequence {
  readonly events: Uint32Array
  readonly numbers: Int32Array
}

/** The columns of a rank's events. */
export interface Events {
  readonly length: number
  /** The start time of the event, in nanoseconds after the rank's base. */
  readonly start: Float64Array
  readonly duration: Float64Array | Uint32Array
  /**
   * The bytes that a copy, fill or transfer moves, keyed by event. Only events with a known number of bytes have an
   * entry.
   */
  readonly bytes: ReadonlyMap<number, number>
  /** The kind of the event, a value of `Kind`. */
  readonly kind: Uint8Array
  /** The index of the event's name in the timeline's names. */
  readonly name: Unsigned
  /** The index of the event's track in the rank's tracks. */
  readonly track: Unsigned
  /** The host call that enqueued a device event, or `NONE`. */
  readonly launch: Int32Array
  /** The host operator to which a device event or a host call belongs, or `NONE`. */
  readonly operator: Int32Array
  /** The index of the event's communication record in the rank's communications, or `NONE`. */
  readonly communication: Signed
  /**
   * The sequence number of each communication on its communicator, for the events that have a sequence number. The
   * function `sequenceOf` looks up the sequence number of an event.
   */
  readonly sequence: Sequence
  /** The index of an operator's operand record in the rank's operands, or `NONE`. */
  readonly operands: Signed
  /**
   * The memory traffic of Arke's own kernels, keyed by event. Events with the same launch plan share one list of
   * traffic.
   */
  readonly traffic: ReadonlyMap<number, readonly TensorBytes[]>
}

export interface RankTimeline {
  readonly rank: number
  /** The time on the machine's clock, in nanoseconds, that corresponds to `start` 0. */
  readonly base: bigint
  readonly tracks: readonly Track[]
  readonly events: Events
  readonly communications: readonly Communication[]
  readonly operands: readonly Operands[]
  /** The name of the device to which the streams belong, or null if the trace does not state it. */
  readonly device: string | null
  /**
   * The interval from the first start to the last end of device work, relative to the base, or null if there is no
   * device work.
   */
  readonly deviceSpan: readonly [from: number, to: number] | null
}

export interface Timeline {
  /** The ranks, sorted by rank number; some numbers may be missing. */
  readonly ranks: readonly RankTimeline[]
  readonly names: readonly string[]
}

export const end = (events: Events, event: number): number => events.start[event] + events.duration[event]

/** The sequence number of a communication on its communicator, or `NONE`. */
export function sequenceOf({ sequence: { events, numbers } }: Events, event: number): number {
  const at = lowerBound(events, event)
  return at < events.length && events[at] === event ? numbers[at] : NONE
}

export const streams = (rank: RankTimeline): readonly Track[] =>
  rank.tracks.filter(({ role }) => role === 'stream')

export const threads = (rank: RankTimeline): readonly Track[] =>
  rank.tracks.filter(({ role }) => role === 'thread')

/** Returns the events of a track, sorted by start. If two events start at the same time, the longer one comes first. */
export function* eventsOf(track: Track): Generator<number> {
  for (let event = track.from; event < track.to; event++) yield event
}

/** The number of nanoseconds in 26 days. Sums of a few times within this distance of the base are exact integers. */
const furthest = 2 ** 51

/** True if an event lies in the range of times that are exact. */
export const isInReach = (start: number, duration: number): boolean =>
  Number.isInteger(start) && start >= -furthest && Number.isInteger(duration) && start + duration <= furthest

/**
 * The nanoseconds to add to a time of rank `from`, relative to its own base, to get the time relative to the base of
 * rank `to`.
 */
export function offsetBetween(from: RankTimeline, to: RankTimeline): number {
  const offset = from.base - to.base
  const exact = Number(offset)
  if (!Number.isSafeInteger(exact))
    throw new RangeError(
      `the clocks of ranks ${from.rank} and ${to.rank} are ${offset} ns apart; at most 104 days (2^53 ns) are supported`,
    )
  return exact
}
