/**
 * What the processors of one rank did in a window, nanosecond by nanosecond: spans that follow each other without a hole from its
 * beginning to its end.
 *
 * While a kernel of the rank runs, a processor is useful unless all of its programs are blocked (src/timeline/workers.ts): in a
 * copy with another rank (transfer), and all of a kernel that only moves data is one, or at a flag (wait); without a program it
 * is other. While no kernel runs, or none of its programs does, the next one is being launched; after the rank's last kernel it
 * waits for the last rank.
 */
import {
  clip,
  complement,
  difference,
  intersection,
  type Intervals,
  union,
  unionOf,
} from '../timeline/intervals.ts'
import { countBefore } from '../timeline/search.ts'
import { end, Kind, NONE, type RankTimeline } from '../timeline/timeline.ts'
import { type Processor, type ProcessorOf, processorsOf, type WorkerTrack } from '../timeline/workers.ts'
import type { Picture, RunPart, Span } from './results.ts'

type Tracks = Picture['ranks'][number]['tracks']

/** A part of one rank's timeline, in its own time. */
export interface RankWindow {
  readonly from: number
  readonly to: number
  /** The last end of a kernel on any rank. */
  readonly lastEnd: number
  /** Events of the rank: the kernels that belong to the window, in order of their start. */
  readonly kernels: readonly number[]
}

export function tracksOf(
  rank: RankTimeline,
  names: readonly string[],
  window: RankWindow,
  processorOf?: ProcessorOf,
): Tracks {
  const { events } = rank
  const { from, to, kernels } = window
  const running = clip(
    unionOf(kernels.flatMap((kernel) => [events.start[kernel], end(events, kernel)])),
    from,
    to,
  )
  const idle = idleSpans(rank, names, window, complement(running, from, to))
  const processors = processorsOf(rank, processorOf)
  if (processors.length === 0)
    return [{ name: 'all workers', spans: finished([...idle, ...plain(running, 'other', unrecorded)], from) }]
  const occupied = processors.reduce(
    (sum: Intervals, one) => union(sum, occupiedBy(one)),
    new Float64Array(0),
  )
  const starting = plain(difference(running, occupied), 'launch', 'a kernel starts or ends: no program runs')
  return processors.map((processor) => ({
    name: `worker ${processor.number}`,
    spans: finished(
      [...idle, ...starting, ...busySpans(rank, names, processor, intersection(running, occupied))],
      from,
    ),
  }))
}

const occupiedBy = ({ running, transferring, waiting }: Processor): Intervals =>
  union(union(running, transferring), waiting)

const unrecorded = 'what runs inside kernels was not recorded'

const plain = (set: Intervals, part: RunPart, label: string): Span[] =>
  Array.from({ length: set.length / 2 }, (_, i) => ({ from: set[2 * i], to: set[2 * i + 1], part, label }))

/** No kernel of the rank runs. */
function idleSpans(
  { events }: RankTimeline,
  names: readonly string[],
  { kernels, lastEnd }: RankWindow,
  idle: Intervals,
): Span[] {
  const spans: Span[] = []
  const add = (from: number, to: number, part: RunPart, label: string): void => {
    if (from < to) spans.push({ from, to, part, label })
  }
  let at = 0
  for (let i = 0; i < idle.length; i += 2) {
    const [begin, until] = [idle[i], idle[i + 1]]
    while (at < kernels.length && events.start[kernels[at]] < until) at++
    const next = kernels[at]
    if (next === undefined) {
      const done = Math.min(Math.max(lastEnd, begin), until)
      add(begin, done, 'wait', 'done, while the last rank is not')
      add(done, until, 'other', 'nothing is left to run on any rank')
      continue
    }
    const call = events.launch[next]
    const enqueued = call === NONE ? begin : Math.min(Math.max(end(events, call), begin), until)
    const name = names[events.name[next]]
    add(begin, enqueued, 'launch', `dispatch: the host has not launched ${name} yet`)
    add(enqueued, until, 'launch', `gap before ${name}`)
  }
  return spans
}

/** A kernel of the rank runs. */
function busySpans(
  rank: RankTimeline,
  names: readonly string[],
  { tracks, ...sets }: Processor,
  running: Intervals,
): Span[] {
  if (running.length === 0) return []
  const window = [running[0], running[running.length - 1]] as const
  const during = (set: Intervals): Intervals => intersection(clip(set, ...window), running)
  const [useful, transfer, wait] = [sets.running, sets.transferring, sets.waiting].map(during)
  const other = difference(running, union(union(useful, transfer), wait))
  const named = (worker: WorkerTrack, kind: Kind): Named[] => eventsIn(rank, names, worker, kind, window)
  // Of the programs of a processor, those that are not blocked are what it does.
  const programs = tracks.flatMap((worker) => named(worker, Kind.annotation))
  const unblocked = tracks.flatMap((worker) =>
    labelled(clip(worker.unblocked, ...window), named(worker, Kind.annotation), 'a role of the program'),
  )
  const inside = (kind: Kind): Named[] => tracks.flatMap((worker) => named(worker, kind))
  const spans = (part: RunPart, set: Intervals, events: Named[], otherwise: string): Span[] =>
    labelled(set, events, otherwise).map((span) => ({ ...span, part }))
  return [
    ...spans('useful', useful, unblocked, 'a program'),
    ...spans('transfer', transfer, [...programs, ...inside(Kind.transfer)], 'copy with another rank'),
    ...spans('wait', wait, inside(Kind.wait), 'wait for a flag'),
    ...plain(other, 'other', 'no program of the running kernel'),
  ]
}

type Named = Omit<Span, 'part'>

function eventsIn(
  { events }: RankTimeline,
  names: readonly string[],
  { track, reach }: WorkerTrack,
  wanted: Kind,
  [from, to]: readonly [number, number],
): Named[] {
  const { start, kind, name, bytes } = events
  const found: Named[] = []
  const first = track.from + countBefore(reach.length, (i) => reach[i] <= from)
  const stop = track.from + countBefore(reach.length, (i) => start[track.from + i] < to)
  for (let event = first; event < stop; event++) {
    if (kind[event] !== wanted || end(events, event) <= from) continue
    const moved = bytes.get(event)
    const label = names[name[event]] + (moved === undefined ? '' : `, ${moved} bytes`)
    found.push({ from: start[event], to: end(events, event), label })
  }
  return found
}

/** A set cut where other events are in it; of several at once, the one that started last. */
function labelled(set: Intervals, events: readonly Named[], otherwise: string): Named[] {
  const sorted = [...events].sort((a, b) => a.from - b.from || b.to - a.to)
  const spans: Named[] = []
  let active: Named[] = []
  let next = 0
  for (let i = 0; i < set.length; i += 2)
    for (let at = set[i]; at < set[i + 1];) {
      while (next < sorted.length && sorted[next].from <= at) active.push(sorted[next++])
      active = active.filter((event) => event.to > at)
      const to = active.reduce((least, event) => Math.min(least, event.to), set[i + 1])
      const until = next < sorted.length ? Math.min(to, sorted[next].from) : to
      spans.push({ from: at, to: until, label: active.at(-1)?.label ?? otherwise })
      at = until
    }
  return spans
}

/** In order, relative to the window, and those that say the same and touch made one. */
function finished(spans: readonly Span[], origin: number): Span[] {
  const joined: Span[] = []
  for (const { from, to, part, label } of [...spans].sort((a, b) => a.from - b.from)) {
    const last = joined.at(-1)
    if (last && last.to === from - origin && last.part === part && last.label === label)
      joined[joined.length - 1] = { ...last, to: to - origin }
    else joined.push({ from: from - origin, to: to - origin, part, label })
  }
  return joined
}
