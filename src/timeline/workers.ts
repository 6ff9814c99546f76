/**
 * Derives the activity of a rank's processors from the events that programs recorded on the tracks of workers. Each
 * execution of a program is recorded as an annotation. Waits for flags and copies between ranks are recorded as events
 * inside the program's annotation.
 *
 * Several workers may share one processor. The workers of a processor may be the roles of a program, the programs of
 * several streams, or the blocks on a GPU's multiprocessor. If a kernel only moves data, its programs count as
 * transferring whenever they do not wait. A worker that runs a role other than the leader records no programs. A worker
 * that recorded no programs counts as part of every program of its processor during which it recorded an event.
 */
import { difference, intersection, type Intervals, union, unionInOrder, unionOf } from './intervals.ts'
import { countBefore } from './search.ts'
import { end, type Events, Kind, type RankTimeline, type Track } from './timeline.ts'

/**
 * The identity of a worker. On a CPU, the worker `leader` of a stream runs programs, and the other workers run the
 * roles of these programs. On a GPU, a leader is a multiprocessor, and its roles are the roles of all programs that are
 * resident on that multiprocessor.
 */
export interface WorkerPlace {
  readonly stream: number
  readonly leader: number
  readonly role: number
}

const LEADERS = 256
const ROLES = 256

/**
 * The id of a worker's track. The track id of a worker differs from the ids of streams and of the rank's other workers.
 */
export const workerTrack = ({ stream, leader, role }: WorkerPlace): number =>
  (stream * LEADERS + leader) * ROLES + role

/** The worker to which a track id belongs. */
export const workerPlace = (id: number): WorkerPlace => ({
  stream: Math.floor(id / (LEADERS * ROLES)),
  leader: Math.floor(id / ROLES) % LEADERS,
  role: id % ROLES,
})

/**
 * One processor of a rank, with its workers. Leaders (workers that run programs) with the same number share a core or
 * are one multiprocessor, whatever their stream.
 */
export interface Processor {
  /** The number of the processor's leader, the worker that runs programs. */
  readonly number: number
  readonly tracks: readonly WorkerTrack[]
  /** The times at which one of the processor's programs runs unblocked, transfers, or waits. */
  readonly compute: Intervals
  readonly transfer: Intervals
  readonly wait: Intervals
}

export interface WorkerTrack {
  readonly track: Track
  /**
   * The latest end of all events up to each event of the track. The latest end shows from which event on the search for
   * the events of a window must start.
   */
  readonly reach: Float64Array
  /** The times at which the worker is in a program and neither waits nor transfers. */
  readonly unblocked: Intervals
}

const known = new WeakMap<RankTimeline, readonly Processor[]>()

/**
 * The processors of a rank, sorted by number. The list of processors is empty if no events inside kernels were
 * recorded.
 */
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

/** True if the programs of the rank's kernels recorded events, as in Arke's own runs. */
export const recordsInside = ({ tracks }: RankTimeline): boolean =>
  tracks.some(({ role }) => role === 'worker')

const empty: Intervals = new Float64Array(0)

function reachOf({ from, to }: Track, events: Events): Float64Array {
  const reach = new Float64Array(to - from)
  let last = -Infinity
  for (let event = from; event < to; event++) reach[event - from] = last = Math.max(last, end(events, event))
  return reach
}

/** The time of the programs in which a worker that runs no programs itself (a role) recorded an event. */
function sharedBy(recorded: Intervals, events: Events, programs: readonly number[]): Intervals {
  const shared = programs.filter((program) => {
    const next = countBefore(recorded.length / 2, (i) => recorded[2 * i + 1] <= events.start[program])
    return 2 * next < recorded.length && recorded[2 * next] < end(events, program)
  })
  return unionOf(shared.flatMap((program) => [events.start[program], end(events, program)]))
}
