/** Unpacks the embedded blocks of a report into typed arrays (see ../packed.ts). */
import { Boundaries } from '../boundaries.ts'
import { categoryOfKind, categoryOfPartCode, TRANSFER, WAIT } from '../categories.ts'
import { IntegerReader, unfold } from '../integers.ts'
import { UNCLAIMED, type PackedHeader, type PackedLane, type PackedRank } from '../packed.ts'
import { Segments } from './segments.ts'

export interface Collectives {
  readonly length: number
  /** For each collective: the index of its label in the header, or 0 if the label is unknown. */
  readonly kind: Uint32Array
  readonly group: Uint32Array
  readonly library: Uint32Array
  readonly matchedBy: Uint32Array
  readonly complete: Uint8Array
  /** The index of the rank that arrived last, or −1 if it is unknown. */
  readonly last: Int32Array
  readonly endSkew: Float64Array
  /** The members of collective i have the indices from `first[i]` up to `first[i + 1]` (excluded). */
  readonly first: Uint32Array
  /**
   * The arrays from `collective` to `transfer` have one entry per member of a collective. An unknown wait or transfer
   * is −1.
   */
  readonly collective: Uint32Array
  readonly rank: Uint32Array
  readonly start: Float64Array
  readonly duration: Float64Array
  readonly wait: Float64Array
  readonly transfer: Float64Array
}

export interface Lane extends PackedLane {
  /** True if the timeline row (lane) shows a host thread. */
  readonly isHost: boolean
  readonly start: Float64Array
  readonly end: Float64Array
  readonly kind: Uint8Array
  readonly name: Uint32Array
  /** The index of the operator's name plus 1, or 0 if there is no operator. */
  readonly operator: Uint32Array
  /** The time from the launch call to the start of the event, or NaN if the launch is unknown. */
  readonly delay: Float64Array
  /** The index of each event among the members of collectives, or −1; the array is null for a lane without members. */
  readonly member: Int32Array | null
  /**
   * The coloured segments that the page paints in the timeline row. Events of collectives are split into two segments
   * at the arrival of the last rank.
   */
  readonly segments: Segments
}

export interface Rank {
  readonly rank: number
  readonly device: string | null
  readonly lanes: readonly Lane[]
  /** The timeline rows (lanes) of the host threads, and the rows of streams and host threads together. */
  readonly hosts: readonly Lane[]
  readonly all: readonly Lane[]
  readonly leftOut: PackedRank['leftOut']
  /** The partition of the rank's time. */
  readonly partition: Segments
  readonly part: Uint8Array
}

export function unpackCollectives(header: PackedHeader, bytes: Uint8Array): Collectives {
  const reader = new IntegerReader(bytes)
  const column = (length: number): Uint32Array => {
    const values = new Uint32Array(length)
    for (let i = 0; i < length; i++) values[i] = reader.next()
    return values
  }
  const times = (length: number, offset: number): Float64Array => {
    const values = new Float64Array(length)
    for (let i = 0; i < length; i++) values[i] = reader.next() + offset
    return values
  }
  const n = header.collectives
  const [kind, group, library, matchedBy] = [column(n), column(n), column(n), column(n)]
  const complete = Uint8Array.from(column(n))
  const last = Int32Array.from(column(n), (place) => place - 1)
  const endSkew = times(n, 0)
  const first = new Uint32Array(n + 1)
  const collective = new Uint32Array(header.members)
  for (let i = 0; i < n; i++) {
    first[i + 1] = first[i] + reader.next()
    collective.fill(i, first[i], first[i + 1])
  }
  const rank = column(header.members)
  const start = new Float64Array(header.members)
  for (let i = 0, at = 0; i < header.members; i++) start[i] = at += unfold(reader.next())
  const duration = times(header.members, 0)
  const wait = times(header.members, -1)
  const transfer = times(header.members, -1)
  return {
    length: n,
    kind,
    group,
    library,
    matchedBy,
    complete,
    last,
    endSkew,
    first,
    collective,
    rank,
    start,
    duration,
    wait,
    transfer,
  }
}

export function unpackRank(packed: PackedRank, collectives: Collectives, bytes: Uint8Array): Rank {
  const reader = new IntegerReader(bytes)
  const lanes = packed.lanes.map((lane) => unpackLane(lane, collectives, reader, false))
  const { from, length } = packed.partition
  const start = new Float64Array(length)
  const end = new Float64Array(length)
  const boundaries = new Boundaries(lanes)
  for (let i = 0, at = from; i < length; i++) {
    start[i] = at
    const steps = reader.next()
    if (steps === 0) at += reader.next()
    else for (let step = 0; step < steps; step++) at = boundaries.after(at)
    end[i] = at
  }
  const part = new Uint8Array(length)
  const category = new Uint8Array(length)
  for (let i = 0; i < length; i++) {
    part[i] = reader.next()
    category[i] = part[i] === UNCLAIMED ? UNCLAIMED : categoryOfPartCode[part[i]]
  }
  const hosts = packed.hosts.map((lane) => unpackLane(lane, collectives, reader, true))
  return {
    rank: packed.rank,
    device: packed.device,
    lanes,
    hosts,
    all: [...lanes, ...hosts],
    leftOut: packed.leftOut,
    partition: new Segments(start, end, category),
    part,
  }
}

function unpackLane(
  packed: PackedLane,
  collectives: Collectives,
  reader: IntegerReader,
  isHost: boolean,
): Lane {
  const n = packed.events
  const start = new Float64Array(n)
  const end = new Float64Array(n)
  for (let i = 0; i < n; i++) start[i] = reader.next()
  for (let i = 0, at = packed.from; i < n; i++) {
    start[i] = at += start[i]
    end[i] = at += reader.next()
  }
  const kind = new Uint8Array(n)
  for (let i = 0; i < n; i++) kind[i] = reader.next()
  const name = new Uint32Array(n)
  for (let i = 0; i < n; i++) name[i] = reader.next()
  const operator = new Uint32Array(n)
  for (let i = 0; i < n; i++) operator[i] = reader.next()
  const delay = new Float64Array(n)
  for (let i = 0; i < n; i++) {
    const folded = reader.next()
    delay[i] = folded === 0 ? NaN : unfold(folded - 1)
  }
  const member = packed.members > 0 ? new Int32Array(n).fill(-1) : null
  if (member) {
    const events = new Uint32Array(packed.members)
    for (let i = 0, at = 0; i < packed.members; i++) events[i] = at += reader.next()
    for (let i = 0, at = 0; i < packed.members; i++) member[events[i]] = at += unfold(reader.next())
  }
  return {
    ...packed,
    isHost,
    start,
    end,
    kind,
    name,
    operator,
    delay,
    member,
    segments: cut(start, end, kind, member, collectives),
  }
}

/** Converts events to coloured segments. An event of a collective becomes a wait followed by a transfer. */
function cut(
  start: Float64Array,
  end: Float64Array,
  kind: Uint8Array,
  member: Int32Array | null,
  { wait }: Collectives,
): Segments {
  const category = new Uint8Array(kind.length)
  for (let i = 0; i < kind.length; i++) category[i] = categoryOfKind(kind[i])
  if (member === null) return new Segments(start, end, category)

  let length = start.length
  for (const one of member) if (one >= 0 && wait[one] >= 0) length++
  const [starts, ends, of] = [new Float64Array(length), new Float64Array(length), new Uint8Array(length)]
  let n = 0
  for (let i = 0; i < start.length; i++) {
    starts[n] = start[i]
    ends[n] = end[i]
    of[n] = category[i]
    if (member[i] >= 0 && wait[member[i]] >= 0) {
      const arrival = Math.min(end[i], start[i] + wait[member[i]])
      ends[n] = starts[n + 1] = arrival
      ends[n + 1] = end[i]
      of[n++] = WAIT
      of[n] = TRANSFER
    }
    n++
  }
  return new Segments(starts, ends, of)
}
