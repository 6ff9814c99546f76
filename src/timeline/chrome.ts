/**
 * Writes a timeline as a Chrome trace, which Perfetto and chrome://tracing can open. `src/audit/arkeTrace.ts` reads a
 * trace that this file has written back into the same timeline. In the trace, each rank is a process, and each track is
 * a thread.
 *
 *   { "arke": { version, ranks: [{ rank, process, thread, base, offset, drift, device, tracks }] },
 *     "traceEvents": [...] }
 *
 * `ts` is the time in decimal microseconds on the common clock, counted from the earliest base of all ranks. The time
 * `ts` is exact to the nanosecond. The field `base` of a rank is its time 0, expressed on the common clock. The field
 * `offset` is the difference between `base` and the rank's own base, in nanoseconds. The field `drift` is the fraction
 * by which the rank's times were stretched. The category of a trace event is the kind of the timeline event.
 *
 * Ids link events of the trace in the same way as in Kineto traces. A host call has its own `correlation`, and device
 * work has the `correlation` of its launch. An operator has its own `External id`, and all other events have the
 * `External id` of their operator. Communication records are written as metadata events, identified by their index. The
 * `traffic` of a kernel lists [tensor, name, size, written, read], with the last three in bytes.
 */
import { Kind, NONE, sequenceOf } from './timeline.ts'
import type { RankTimeline, TensorBytes, Timeline, Track } from './timeline.ts'
import { workerPlace } from './workers.ts'
import type { WorkerPlace } from './workers.ts'

export const CHROME_VERSION = 2
export const COMMUNICATION_EVENT = 'arke_communication'

export interface ChromeOptions {
  /**
   * The clock of each rank of the timeline, which is used to place all ranks on one clock. A time `t` of the rank
   * becomes `t + offset + drift * t`, relative to the base of the first rank. If no clocks are given, each rank keeps
   * the clock of its trace (its own base).
   */
  clocks?: readonly { readonly offset: number; readonly drift: number }[]
  /** True to draw arrows from launches to device work, which is the default. */
  flows?: boolean
  /**
   * The differences between the recorded kernels and the kernels that run without recording, apart from the code that
   * writes the log.
   */
  recordedUnlike?: readonly string[]
}

/** The description of a rank in the trace's `arke` metadata. */
export interface ChromeRank {
  readonly rank: number
  /**
   * The process number of the rank's events, and the thread number of its first track. The thread numbers of the rank's
   * other tracks follow in order.
   */
  readonly process: number
  readonly thread: number
  /** The time base is written as decimal text, because a double cannot hold nanoseconds since 1970 exactly. */
  readonly base: string
  readonly offset: string
  readonly drift: number
  readonly device: string | null
  readonly tracks: readonly (readonly [role: string, owner: number, id: number])[]
}

/** The trace category of each event kind, indexed by kind. */
export const categories: readonly string[] = Object.entries(Kind)
  .sort(([, a], [, b]) => a - b)
  .map(([name]) => name)

const PIECE = 1 << 16

/** Generates the trace as strings of some tens of kilobytes. */
export function* writeChrome(
  { ranks, names }: Timeline,
  { clocks, flows = true, recordedUnlike }: ChromeOptions = {},
): Generator<string> {
  let threads = 1
  const placed = ranks.map((rank, index) => {
    const { offset, drift } = clocks?.[index] ?? { offset: null, drift: 0 }
    const thread = threads
    threads += rank.tracks.length
    // The clocks of two machines may be centuries apart, so bases and their differences never become doubles.
    const base = offset === null ? rank.base : ranks[0].base + BigInt(Math.round(offset))
    return { rank, process: index + 1, thread, drift, base }
  })
  const origin = placed.reduce((least, { base }) => (base < least ? base : least), placed[0]?.base ?? 0n)
  const described = placed.map(({ rank, process, thread, base, drift }): ChromeRank => ({
    rank: rank.rank,
    process,
    thread,
    base: String(base),
    offset: String(base - rank.base),
    drift,
    device: rank.device,
    tracks: rank.tracks.map(({ role, owner, id }) => [role, owner, id]),
  }))
  const arke = { version: CHROME_VERSION, origin: String(origin), ranks: described, recordedUnlike }
  yield `{"arke":${JSON.stringify(arke)},\n"displayTimeUnit":"ns","traceEvents":[`

  const texts = names.map((name) => JSON.stringify(name))
  let piece = ''
  let separator = '\n'
  for (const { rank, process, thread, base, drift } of placed) {
    for (const line of describe(rank, process, thread)) {
      piece += separator + line
      separator = ',\n'
    }
    const place = { process, thread, drift, shift: base - origin }
    for (let event = 0; event < rank.events.length; event++) {
      piece += separator + eventText(rank, event, texts, place)
      separator = ',\n'
      if (flows && rank.events.launch[event] !== NONE) piece += flowText(rank, event, place)
      if (piece.length > PIECE) {
        yield piece
        piece = ''
      }
    }
  }
  yield `${piece}\n]}\n`
}

/** The position of a rank's events in the trace. */
interface Place {
  readonly process: number
  readonly thread: number
  readonly drift: number
  /** The time from the trace's time 0 to the rank's time 0, in nanoseconds. */
  readonly shift: bigint
}

/** Applies the clock drift to a time. Both ends of an event are converted, so that adjacent events stay adjacent. */
const stretched = (time: number, drift: number): number =>
  drift === 0 ? time : Math.round(time + drift * time)

const trackNames: Readonly<Record<Track['role'], (owner: number, id: number) => string>> = {
  stream: (owner, id) => `stream ${id} of device ${owner}`,
  annotations: (owner, id) => `annotations of stream ${id} of device ${owner}`,
  worker: (_, id) => calledWorker(workerPlace(id)),
  thread: (owner, id) => `thread ${id} of process ${owner}`,
}

export const isRole = (role: string): role is Track['role'] => Object.hasOwn(trackNames, role)

const calledWorker = ({ stream, leader, role }: WorkerPlace): string =>
  `worker ${leader} of stream ${stream}${role === 0 ? '' : `, role ${role}`}`

function* describe(rank: RankTimeline, process: number, thread: number): Generator<string> {
  const metadata = (name: string, at: string, args: object): string =>
    `{"ph":"M","name":"${name}","pid":${process}${at},"args":${JSON.stringify(args)}}`
  const device = rank.device === null ? '' : ` (${rank.device})`
  yield metadata('process_name', '', { name: `rank ${rank.rank}${device}` })
  yield metadata('process_sort_index', '', { sort_index: rank.rank })
  for (const [index, { role, owner, id }] of rank.tracks.entries()) {
    const at = `,"tid":${thread + index}`
    yield metadata('thread_name', at, { name: trackNames[role](owner, id) })
    yield metadata('thread_sort_index', at, { sort_index: index })
  }
  for (const [index, one] of rank.communications.entries())
    yield metadata(COMMUNICATION_EVENT, '', {
      communication: index,
      'Collective name': one.collective,
      library: one.library,
      'Process Group Name': one.group,
      'Process Group Description': one.groupDescription,
      'Process Group Ranks': one.groupRanks,
      'Group size': one.groupSize,
      'Comms Id': one.communicator,
      dtype: one.dtype,
      'In msg nelems': one.elementsIn,
      'Out msg nelems': one.elementsOut,
      'Src Rank': one.source,
      'Dst Rank': one.destination,
    })
}

function eventText(
  rank: RankTimeline,
  event: number,
  texts: readonly string[],
  { process, thread, drift, shift }: Place,
): string {
  const { events } = rank
  const start = stretched(events.start[event], drift)
  const duration = stretched(events.start[event] + events.duration[event], drift) - start
  const kind = events.kind[event]
  const isCall = kind >= Kind.launch && kind <= Kind.runtime
  const launch = isCall ? event : events.launch[event]
  const operator = kind === Kind.operator ? event : events.operator[event]
  let args = ''
  if (launch !== NONE) args += `,"correlation":${launch + 1}`
  if (operator !== NONE) args += `,"External id":${operator + 1}`
  const bytes = events.bytes.get(event)
  if (bytes !== undefined) args += `,"bytes":${bytes}`
  const communication = events.communication[event]
  if (communication !== NONE) {
    args += `,"communication":${communication}`
    const { collective, group } = rank.communications[communication]
    if (collective !== null) args += `,"Collective name":${JSON.stringify(collective)}`
    if (group !== null) args += `,"Process Group Name":${JSON.stringify(group)}`
  }
  const sequence = sequenceOf(events, event)
  if (sequence !== NONE) args += `,"Seq":${sequence}`
  if (events.operands[event] !== NONE) {
    const { shapes, types } = rank.operands[events.operands[event]]
    args += `,"Input Dims":${JSON.stringify(shapes)},"Input type":${JSON.stringify(types)}`
  }
  const traffic = events.traffic.get(event)
  if (traffic) args += `,"traffic":${trafficText(traffic)}`
  return (
    `{"ph":"X","cat":"${categories[kind]}","name":${texts[events.name[event]]},"pid":${process},` +
    `"tid":${thread + events.track[event]},"ts":${microseconds(start, shift)},` +
    `"dur":${microseconds(duration, 0n)}${args === '' ? '' : `,"args":{${args.slice(1)}}`}}`
  )
}

const trafficText = (traffic: readonly TensorBytes[]): string =>
  JSON.stringify(traffic.map(({ tensor, name, size, written, read }) => [tensor, name, size, written, read]))

function flowText(rank: RankTimeline, event: number, { process, thread, drift, shift }: Place): string {
  const { start, track, launch } = rank.events
  const end = (phase: string, at: number): string =>
    `,\n{"ph":${phase},"cat":"launches","name":"launch","id":"${process}.${event}","pid":${process},` +
    `"tid":${thread + track[at]},"ts":${microseconds(stretched(start[at], drift), shift)}}`
  return end('"s"', launch[event]) + end('"f","bp":"e"', event)
}

/** Formats `nanoseconds` plus `shift` as decimal microseconds, exactly. */
function microseconds(nanoseconds: number, shift: bigint): string {
  const sum = nanoseconds + Number(shift)
  if (Number.isSafeInteger(sum)) {
    const rest = sum % 1000
    return `${(sum - rest) / 1000}${fraction(rest)}`
  }
  const exact = BigInt(nanoseconds) + shift
  return `${exact / 1000n}${fraction(Number(exact % 1000n))}`
}

const fraction = (nanoseconds: number): string =>
  nanoseconds === 0 ? '' : `.${String(nanoseconds).padStart(3, '0')}`
