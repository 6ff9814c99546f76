/**
 * What the processors of a rank did, from what programs recorded on the tracks of its workers: programs are annotations,
 * waits at flags and copies between ranks lie inside them.
 *
 * Several workers may share a processor: the roles of a program, programs of several streams, the blocks on a GPU's
 * multiprocessor. Programs of a kernel that only moves data transfer as long as they do not wait. A worker of a role records no
 * programs: it takes part in those of its processor in which it recorded anything.
 */
import { difference, intersection, type Intervals, union, unionInOrder, unionOf } from './intervals.ts'
import { countBefore } from './search.ts'
import { end, type Events, Kind, type RankTimeline, type Track } from './timeline.ts'

/**
 * Who serves a queue on a CPU: leader `leader` of a stream runs programs, the others are roles of them. On a GPU a leader is a
 * multiprocessor, and its roles are those of all programs that run on it at once.
 */
export interface WorkerPlace {
  readonly stream: number
  readonly leader: number
  readonly role: number
}

const LEADERS = 256
const ROLES = 256

/** The number of a worker's track: distinct from streams, and from those of other workers of the rank. */
export const workerTrack = ({ stream, leader, role }: WorkerPlace): number =>
  (stream * LEADERS + leader) * ROLES + role

/** Whose track has that number. */
export const workerPlace = (id: number): WorkerPlace => ({
  stream: Math.floor(id / (LEADERS * ROLES)),
  leader: Math.floor(id / ROLES) % LEADERS,
  role: id % ROLES,
})

/** Leaders of the same number share a core, or are one multiprocessor, whatever their stream. */
export interface Processor {
  /** The leader's. */
  readonly number: number
  readonly tracks: readonly WorkerTrack[]
  /** When a program of it runs unblocked, when one transfers, and when one waits. */
  readonly compute: Intervals
  readonly transfer: Intervals
  readonly wait: Intervals
}

export interface WorkerTrack {
  readonly track: Track
  /** By event of the track, the last end so far: where to begin to look for those of a window. */
  readonly reach: Float64Array
  /** When it is in a program and neither waits nor transfers. */
  readonly unblocked: Intervals
}

const known = new WeakMap<RankTimeline, readonly Processor[]>()

/** In order of their numbers; none where nothing was recorded inside kernels. */
export function processorsOf(rank: RankTimeline): readonly Processor[] {
  let processors = known.get(rank)
  if (!processors) {
    const groups = new Map<number, Track[]>()
    for (const track of rank.tracks) {
      if (track.role !== 'worker') continue
      const number = workerPlace(track.id).leader
      const group = groups.get(number)
      if (group) group.push(track)
      else groups.set(number, [track])
    }
    processors = [...groups]
      .sort(([a], [b]) => a - b)
      .map(([number, tracks]) => processor(number, tracks, rank))
    known.set(rank, processors)
  }
  return processors
}

function processor(number: number, tracks: readonly Track[], rank: RankTimeline): Processor {
  const { events } = rank
  const { start, duration, kind } = events
  const of = ({ from, to }: Track, wanted: Kind): Intervals =>
    unionInOrder(start, duration, from, to, (event) => kind[event] === wanted)
  const programs = tracks.flatMap(({ from, to }) =>
    Array.from({ length: to - from }, (_, i) => from + i).filter((event) => kind[event] === Kind.annotation),
  )
  let [compute, transfer, wait] = [empty, empty, empty]
  const workers = tracks.map((track): WorkerTrack => {
    const waits = of(track, Kind.wait)
    const copies = of(track, Kind.transfer)
    const own = of(track, Kind.annotation)
    const inside = own.length > 0 ? own : sharedBy(union(waits, copies), events, programs)
    const { stream: number } = workerPlace(track.id)
    const stream = rank.tracks.find(({ role, id }) => role === 'stream' && id === number)
    const moving = stream ? intersection(inside, of(stream, Kind.communication)) : empty
    const transfers = difference(union(copies, moving), waits)
    const unblocked = difference(inside, union(waits, transfers))
    compute = union(compute, unblocked)
    transfer = union(transfer, transfers)
    wait = union(wait, waits)
    return { track, reach: reachOf(track, events), unblocked }
  })
  return { number, tracks: workers, compute, transfer, wait }
}

/** Whether the programs of the rank's kernels recorded what they did, as those of our own runs do. */
export const recordsInside = ({ tracks }: RankTimeline): boolean =>
  tracks.some(({ role }) => role === 'worker')

/** What all processors of a rank do, taken together; null where nothing was recorded inside kernels. */
export function recordedInside(rank: RankTimeline): Pick<Processor, 'compute' | 'transfer' | 'wait'> | null {
  const processors = processorsOf(rank)
  const all = (of: (one: Processor) => Intervals): Intervals =>
    processors.reduce((sum, one) => union(sum, of(one)), empty)
  return processors.length === 0
    ? null
    : {
        compute: all(({ compute }) => compute),
        transfer: all(({ transfer }) => transfer),
        wait: all(({ wait }) => wait),
      }
}

const empty: Intervals = new Float64Array(0)

function reachOf({ from, to }: Track, events: Events): Float64Array {
  const reach = new Float64Array(to - from)
  let last = -Infinity
  for (let event = from; event < to; event++) reach[event - from] = last = Math.max(last, end(events, event))
  return reach
}

/** The programs in which a worker without programs of its own recorded something. */
function sharedBy(recorded: Intervals, events: Events, programs: readonly number[]): Intervals {
  const shared = programs.filter((program) => {
    const next = countBefore(recorded.length / 2, (i) => recorded[2 * i + 1] <= events.start[program])
    return 2 * next < recorded.length && recorded[2 * next] < end(events, program)
  })
  return unionOf(shared.flatMap((program) => [events.start[program], end(events, program)]))
}
