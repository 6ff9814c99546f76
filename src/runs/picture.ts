/**
 * Computes what the processors of one rank do in a time window. The time spans of a processor follow each other without
 * gaps from the beginning of the window to its end. Each time span has one category of src/taxes/processors.ts. After
 * its last kernel, a rank waits for the last rank that shares launches with it. A rank without kernels has the category
 * `vacant`.
 */
import { type BusyPart, type IdlePart, type Part, partNames } from '../taxes/ledger.ts'
import { chosenWork, type Ending, windowTime } from '../taxes/processors.ts'
import { clip, complement, type Intervals } from '../timeline/intervals.ts'
import { countBefore } from '../timeline/search.ts'
import { end, Kind, type RankTimeline } from '../timeline/timeline.ts'
import { processorsOf, type WorkerTrack } from '../timeline/workers.ts'
import type { Picture, RunPart, Span } from './results.ts'

type Tracks = Picture['ranks'][number]['tracks']

/** A time window of one rank, in times of that rank's clock. */
export interface RankWindow {
  readonly from: number
  readonly to: number
  /** The latest end of a kernel on this rank or on a rank that shares launches with it. */
  readonly lastEnd: number
  /** The kernels of the window as events of the rank, ordered by their start. */
  readonly kernels: readonly number[]
}

export function tracksOf(rank: RankTimeline, names: readonly string[], window: RankWindow): Tracks {
  const { events } = rank
  const { from, to, lastEnd, kernels } = window
  const doneAt = (running: Intervals): number => (running.length > 0 ? running[running.length - 1] : from)
  const endingAt = (done: number): Required<Ending> =>
    kernels.length === 0
      ? { wait: interval(0, 0), vacant: interval(from, to) }
      : { wait: interval(done, lastEnd), vacant: interval(Math.max(done, lastEnd), to) }
  const work = chosenWork(rank, kernels)
  const { running, processors } = windowTime(rank, names, [from, to], work, undefined, (running) =>
    endingAt(doneAt(running)),
  )
  const ending = endingAt(doneAt(running))
  const next = work.starts()
  const pauses = named(complement(running, from, doneAt(running)), (until) => names[events.name[next(until)]])
  const ofRank = labelsOfRank(
    pauses,
    named(ending.vacant, () =>
      kernels.length === 0 ? 'no kernel runs on this rank' : 'no more work to run',
    ),
  )
  const finish = named(ending.wait, () => 'finished, waiting for the last rank')
  const recorded = processorsOf(rank)
  return processors.map(({ parts }, n) => {
    const processor = recorded.length > 0 ? recorded[n] : undefined
    const labels = {
      ...ofRank,
      ...(processor
        ? labelsInside(rank, names, processor.tracks, window, finish)
        : labelsOutside(rank, names, window, finish)),
    }
    const spans = partNames.flatMap((part) =>
      labelled(parts[part], ...labels[part]).map((span) => ({ ...span, part: runPart[part] })),
    )
    return { name: processor ? `worker ${processor.number}` : 'all workers', spans: finished(spans, from) }
  })
}

/** Maps the categories of time in the audit to the coarser categories in the ledger of a run. */
export const runPart: Readonly<Record<Part, RunPart>> = {
  compute: 'useful',
  transfer: 'transfer',
  wait: 'wait',
  dispatch: 'launch',
  gap: 'launch',
  communication: 'other',
  copy: 'other',
  vacant: 'other',
  hostBlocked: 'other',
  hostAbsent: 'other',
  dependency: 'other',
  unattributed: 'other',
}

type Named = Omit<Span, 'part'>
/** The events that label a category of time, and the label for times without a labelling event. */
type Labels = readonly [events: readonly Named[], otherwise: string]

const interval = (from: number, to: number): Intervals => Float64Array.from(from < to ? [from, to] : [])
const named = (set: Intervals, label: (to: number) => string): Named[] =>
  Array.from({ length: set.length / 2 }, (_, i) => ({
    from: set[2 * i],
    to: set[2 * i + 1],
    label: label(set[2 * i + 1]),
  }))

/**
 * Labels for the times in which no program has recorded an event. Each idle interval in `pauses` is named after the
 * kernel that ends it.
 */
function labelsOfRank(
  pauses: readonly Named[],
  vacant: readonly Named[],
): Readonly<Record<IdlePart | 'vacant', Labels>> {
  const paused = (label: (next: string) => string): Labels => [
    pauses.map((pause) => ({ ...pause, label: label(pause.label) })),
    '',
  ]
  return {
    dispatch: paused((name) => `dispatch: the host is launching ${name}`),
    hostBlocked: paused((name) => `the host waits for the device before it launches ${name}`),
    hostAbsent: paused((name) => `the host does other work before it launches ${name}`),
    gap: [paused((name) => `gap before ${name}`)[0], 'a kernel starts or ends: no program runs'],
    dependency: paused((name) => `${name} waits for an event of another stream`),
    unattributed: paused((name) => `idle before ${name}, whose launch was not recorded`),
    vacant: [vacant, 'no program of the running kernel runs here'],
  }
}

type BusyLabels = Readonly<Record<Exclude<BusyPart, 'vacant'>, Labels>>

/** Labels for a rank whose programs recorded no events. */
function labelsOutside(
  { events }: RankTimeline,
  names: readonly string[],
  { kernels }: RankWindow,
  finish: readonly Named[],
): BusyLabels {
  const work: Labels = [
    kernels.map((event) => ({
      from: events.start[event],
      to: end(events, event),
      label: `${names[events.name[event]]}, inside which no event was recorded`,
    })),
    '',
  ]
  return { compute: work, transfer: work, communication: work, wait: [finish, ''], copy: work }
}

/** Labels that come from the recorded events of a processor's programs. */
function labelsInside(
  rank: RankTimeline,
  names: readonly string[],
  tracks: readonly WorkerTrack[],
  { from, to }: RankWindow,
  finish: readonly Named[],
): BusyLabels {
  const inside = (worker: WorkerTrack, kind: Kind): Named[] => eventsIn(rank, names, worker, kind, [from, to])
  const all = (kind: Kind): Named[] => tracks.flatMap((worker) => inside(worker, kind))
  // The activity of a processor is that of its programs that are not blocked.
  const unblocked = tracks.flatMap((worker) =>
    labelled(clip(worker.unblocked, from, to), inside(worker, Kind.annotation), 'a role of the program'),
  )
  const transfer: Labels = [[...all(Kind.annotation), ...all(Kind.transfer)], 'copy with another rank']
  return {
    compute: [unblocked, 'a program'],
    transfer,
    communication: transfer,
    wait: [[...all(Kind.wait), ...finish], 'wait for a flag'],
    copy: [[], 'a copy'],
  }
}

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

/**
 * Splits a set of time intervals at the events inside these intervals. If several events overlap, the event that
 * started last gives the label.
 */
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

/** Sorts spans, makes their times relative to the window, and joins adjacent spans with the same category and label. */
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
