/**
 * Sorts communication calls into lanes, one per communicator, process group or stream. A lane (the calls of one
 * communicator, process group or stream) holds calls of all ranks, in the order of each rank. A call can match only
 * calls of its own lane (communicator, process group or stream). A lane is a communicator or a process group if the
 * trace names one. If the trace names no group, a lane is a stream with communication kernels.
 */
import {
  type Communication,
  Kind,
  NONE,
  type RankTimeline,
  sequenceOf,
  type Timeline,
  unverifiedLibraries,
} from '../timeline/timeline.ts'
import type { MatchedBy } from './collective.ts'

/** The calls of one rank in a lane (communicator or stream), in order, with times on the rank's own clock. */
export interface Calls {
  /** The index of the rank in the timeline. */
  readonly rank: number
  readonly events: Int32Array
  /** The signature of each call. Calls with different signatures cannot belong to one collective. */
  readonly signatures: Int32Array
  /** For each call: 1 if a rank can leave the call before all ranks have arrived. */
  readonly loose: Uint8Array
  readonly starts: Float64Array
  readonly ends: Float64Array
}

export interface Lane {
  readonly by: MatchedBy
  /** True if calls with equal sequence numbers belong together, so that no alignment is needed. */
  readonly numbered: boolean
  /**
   * True if the lane's key identifies a single process group. If the key identifies no single group, the lane may hold
   * several groups that look alike.
   */
  readonly oneGroup: boolean
  /** The number of ranks in a group, or null if it is unknown. */
  readonly size: number | null
  readonly ranks: readonly Calls[]
}

/**
 * The kinds of collectives that no rank completes before all ranks have arrived. In collectives of other kinds, a
 * sender or a root rank can leave before others arrive.
 */
const synchronisingKinds: ReadonlySet<string> = new Set([
  'allReduce',
  'allGather',
  'reduceScatter',
  'allToAll',
  'barrier',
])

/** False if a rank can leave the call before all ranks have arrived. */
export const isSynchronising = (call: Communication | null): boolean =>
  call !== null &&
  call.collective !== null &&
  synchronisingKinds.has(call.collective) &&
  !unverifiedLibraries.has(call.library ?? '')

export const communicationOf = (rank: RankTimeline, event: number): Communication | null =>
  rank.events.communication[event] === NONE ? null : rank.communications[rank.events.communication[event]]

/** The rank numbers of a point-to-point message, or null if the trace does not state them. */
function peersOf(call: Communication, self: number): readonly [source: number, destination: number] | null {
  if (call.source === null && call.destination === null) return null
  // Some profilers state the ranks of a message by their positions in the process group.
  const numbered = (rank: number | null): number =>
    rank === null
      ? self
      : call.groupRanks !== null && !call.groupRanks.includes(rank)
        ? (call.groupRanks[rank] ?? rank)
        : rank
  const [source, destination] = [numbered(call.source), numbered(call.destination)]
  return source !== destination && (source === self || destination === self) ? [source, destination] : null
}

/** The numbers of the ranks that take part in a call, or null if the trace does not list them. */
export function participantsOf(call: Communication | null, self: number): readonly number[] | null {
  if (call === null) return null
  const peers = peersOf(call, self)
  return peers === null ? call.groupRanks : peers[0] < peers[1] ? peers : [peers[1], peers[0]]
}

interface Draft {
  readonly by: MatchedBy
  readonly numbered: boolean
  readonly oneGroup: boolean
  readonly size: number | null
  readonly events: number[][]
}

/** Sorts all communication on the streams of all ranks into lanes, one per communicator, process group or stream. */
export function lanesOf(timeline: Timeline): Lane[] {
  const { ranks } = timeline
  const drafts = new Map<string, Draft>()
  const trustCommunicators = communicatorsAreShared(timeline)
  const streamName = streamNames(timeline)
  const signatures = new Signatures()

  const draftOf = (key: string, draft: Omit<Draft, 'events'>): Draft => {
    let known = drafts.get(key)
    if (known === undefined) drafts.set(key, (known = { ...draft, events: ranks.map(() => []) }))
    return known
  }

  ranks.forEach((rank, index) => {
    const { kind, communication } = rank.events
    /**
     * A cache with two lanes (lists of calls) per communication record: one for calls with a sequence number and one
     * for calls without. An entry is null if the communication record names no group.
     */
    const byRecord: (Draft | null | undefined)[] = []
    rank.tracks.forEach((track, trackIndex) => {
      if (track.role !== 'stream') return
      let ofStream: Draft | undefined
      for (let event = track.from; event < track.to; event++) {
        if (kind[event] !== Kind.communication) continue
        const record = communication[event]
        const isNumbered = sequenceOf(rank.events, event) !== NONE
        const slot = 2 * record + Number(isNumbered)
        let draft = record === NONE ? null : byRecord[slot]
        if (draft === undefined) {
          const named = describe(rank.communications[record], rank.rank, isNumbered, trustCommunicators)
          draft = byRecord[slot] = named && draftOf(named.key, named.draft)
        }
        draft ??= ofStream ??= draftOf(`stream ${streamName(index, trackIndex)}`, {
          by: 'order on the stream',
          numbered: false,
          oneGroup: false,
          size: null,
        })
        draft.events[index].push(event)
      }
    })
  })

  return [...drafts.values()].map(({ events, ...draft }) => ({
    ...draft,
    ranks: events
      .map((calls, rank) => ({ calls, rank }))
      .filter(({ calls }) => calls.length > 0)
      .map(({ calls, rank }) => columns(timeline, rank, calls, signatures)),
  }))
}

/** The lane of a call according to its metadata, or null if the metadata names no communicator and no group. */
function describe(
  call: Communication,
  self: number,
  hasSequence: boolean,
  trustCommunicators: boolean,
): { key: string; draft: Omit<Draft, 'events'> } | null {
  const communicator = trustCommunicators ? call.communicator : null
  const peers = peersOf(call, self)
  const between = peers === null ? '' : `${peers[0]} to ${peers[1]}`
  const size = peers !== null ? 2 : (call.groupRanks?.length ?? call.groupSize)
  if (communicator !== null && hasSequence)
    return {
      key: JSON.stringify(['communicator', communicator, call.collective, between]),
      draft: { by: 'communicator and sequence', numbered: true, oneGroup: true, size },
    }
  if (communicator === null && call.group === null && call.groupRanks === null && peers === null) return null
  const oneGroup = communicator !== null || call.groupRanks !== null || peers !== null
  const numbered = oneGroup && hasSequence
  return {
    key: JSON.stringify([
      numbered ? 'sequence' : 'order',
      communicator,
      call.group,
      call.groupDescription,
      call.groupRanks ?? call.groupSize,
      between,
      numbered ? call.collective : null,
    ]),
    draft: { by: 'group and order', numbered, oneGroup, size },
  }
}

/**
 * True if the same communicator id occurs on several ranks. In some traces the communicator id is a pointer, which
 * means nothing in the processes of other ranks.
 */
function communicatorsAreShared({ ranks }: Timeline): boolean {
  const seen = new Set<string>()
  for (const { communications } of ranks) {
    const own = new Set<string>()
    for (const { communicator } of communications) if (communicator !== null) own.add(communicator)
    for (const communicator of own) {
      if (seen.has(communicator)) return true
      seen.add(communicator)
    }
  }
  return ranks.length < 2
}

/**
 * Names streams such that corresponding streams of all ranks have equal names. The name is the stream id, or the
 * position among the rank's streams with communication.
 */
function streamNames({ ranks }: Timeline): (rank: number, track: number) => string {
  const communicating = ranks.map(({ tracks, events }) =>
    tracks
      .map((track, index) => ({ ...track, index }))
      .filter(({ role, from, to }) => role === 'stream' && holdsCommunication(events.kind, from, to))
      .sort((a, b) => a.owner - b.owner || a.id - b.id),
  )
  // Stream ids of different ranks are comparable if every rank has at least one stream id in common with another rank.
  const uses = new Map<number, number>()
  for (const tracks of communicating)
    for (const id of new Set(tracks.map((track) => track.id))) uses.set(id, (uses.get(id) ?? 0) + 1)
  const numbersAgree = communicating.every(
    (tracks) => tracks.length === 0 || tracks.some(({ id }) => (uses.get(id) ?? 0) > 1),
  )
  return (rank, track) => {
    const tracks = communicating[rank]
    const place = tracks.findIndex(({ index }) => index === track)
    return numbersAgree ? `number ${tracks[place].id}` : `place ${place}`
  }
}

function holdsCommunication(kind: Uint8Array, from: number, to: number): boolean {
  for (let event = from; event < to; event++) if (kind[event] === Kind.communication) return true
  return false
}

/**
 * Assigns ids to call signatures. Calls of one collective have equal signatures: kind, type and counts, or the kernel's
 * name.
 */
class Signatures {
  private readonly numbers = new Map<string, number>()

  number(text: string): number {
    let number = this.numbers.get(text)
    if (number === undefined) this.numbers.set(text, (number = this.numbers.size))
    return number
  }
}

function signatureOf(call: Communication): string {
  // In all-to-all and send/receive, the message sizes may differ between ranks.
  const pieces = call.collective === 'allToAll' || call.collective === 'sendRecv'
  const counts = pieces ? [] : [call.elementsIn, call.elementsOut]
  return JSON.stringify([call.collective, call.dtype, ...counts])
}

function columns(timeline: Timeline, index: number, calls: readonly number[], signatures: Signatures): Calls {
  const rank = timeline.ranks[index]
  const { start, duration, communication, name } = rank.events
  const events = inOrder(rank, calls)
  const byRecord: (number | undefined)[] = []
  const byName: (number | undefined)[] = []
  const out = {
    rank: index,
    events,
    signatures: new Int32Array(events.length),
    loose: new Uint8Array(events.length),
    starts: new Float64Array(events.length),
    ends: new Float64Array(events.length),
  }
  for (let i = 0; i < events.length; i++) {
    const event = events[i]
    const record = communication[event]
    const collective = record === NONE ? null : rank.communications[record].collective
    out.signatures[i] =
      collective === null
        ? (byName[name[event]] ??= signatures.number(timeline.names[name[event]]))
        : (byRecord[record] ??= signatures.number(signatureOf(rank.communications[record])))
    out.loose[i] = isSynchronising(record === NONE ? null : rank.communications[record]) ? 0 : 1
    out.starts[i] = start[event]
    out.ends[i] = start[event] + duration[event]
  }
  return out
}

/**
 * Sorts communication calls by their start times. Calls on several streams are sorted by the order of their host calls,
 * if all host calls are known.
 */
function inOrder({ events: { start, launch, track } }: RankTimeline, calls: readonly number[]): Int32Array {
  const order = Int32Array.from(calls)
  const severalStreams = calls.some((event) => track[event] !== track[calls[0]])
  if (!severalStreams) return order
  if (calls.every((event) => launch[event] !== NONE))
    return order.sort((a, b) => start[launch[a]] - start[launch[b]] || start[a] - start[b] || a - b)
  return order.sort((a, b) => start[a] - start[b] || a - b)
}
