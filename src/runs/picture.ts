/**
 * What the processors of one rank do in a window. The spans of a processor follow each other without gaps from the
 * beginning of the window to its end. They are divided as in src/taxes/attribution.ts. After its last kernel, a rank
 * waits for the last rank to end.
 */
import { attribute, type Claims } from '../taxes/attribution.ts'
import { IdleTime } from '../taxes/idle.ts'
import type { IdlePart, ProcessorPart } from '../taxes/ledger.ts'
import { clip, complement, intersection, type Intervals, union, unionOf } from '../timeline/intervals.ts'
import { countBefore } from '../timeline/search.ts'
import { end, Kind, NONE, type RankTimeline } from '../timeline/timeline.ts'
import { processorsOf, type WorkerTrack } from '../timeline/workers.ts'
import type { Picture, RunPart, Span } from './results.ts'

type Tracks = Picture['ranks'][number]['tracks']

/** An interval on one rank's timeline, in the time of that rank. */
export interface RankWindow {
  readonly from: number
  readonly to: number
  /** The latest end of a kernel on any rank. */
  readonly lastEnd: number
  /** The kernels of the window as events of the rank, ordered by their start. */
  readonly kernels: readonly number[]
}

export function tracksOf(rank: RankTimeline, names: readonly string[], window: RankWindow): Tracks {
  const { events } = rank
  const { from, to, lastEnd, kernels } = window
  const running = clip(
    unionOf(kernels.flatMap((kernel) => [events.start[kernel], end(events, kernel)])),
    from,
    to,
  )
  const done = running.length > 0 ? running[running.length - 1] : from
  const [waiting, vacant] = [interval(done, lastEnd), interval(Math.max(done, lastEnd), to)]
  const during = (set: Intervals): Intervals => intersection(clip(set, from, to), running)
  const processors = processorsOf(rank)
  const claims = processors.map(({ compute, transfer, wait }): Claims => ({
    compute: during(compute),
    transfer: during(transfer),
    wait: union(during(wait), waiting),
    vacant,
  }))
  const isRecorded = claims.length > 0
  const next = (time: number): number =>
    kernels[countBefore(kernels.length, (i) => events.start[kernels[i]] < time)] ?? NONE
  const attributed = attribute({
    from,
    to,
    processors: isRecorded ? claims : [{ wait: waiting, vacant: union(running, vacant) }],
    running,
    idle: (set) => idleTimeOf(rank, names).divide(set, next),
  })
  const pauses = named(complement(running, from, done), (until) => names[events.name[next(until)]])
  const ofRank = labelsOfRank(
    pauses,
    named(vacant, () => 'nothing is left to run on any rank'),
    isRecorded,
  )
  const finish = named(waiting, () => 'finished, waiting for the last rank')
  return attributed.map((parts, n) => {
    const processor = isRecorded ? processors[n] : undefined
    const labels = { ...ofRank, ...labelsInside(rank, names, processor?.tracks ?? [], window, finish) }
    const spans = (Object.keys(parts) as ProcessorPart[]).flatMap((part) =>
      labelled(parts[part], ...labels[part]).map((span) => ({ ...span, part: runPart[part] })),
    )
    return { name: processor ? `worker ${processor.number}` : 'all workers', spans: finished(spans, from) }
  })
}

/** Maps the parts of a processor's time to the parts of a run's ledger. */
const runPart: Readonly<Record<ProcessorPart, RunPart>> = {
  compute: 'useful',
  transfer: 'transfer',
  communication: 'transfer',
  wait: 'wait',
  copy: 'other',
  vacant: 'other',
  dispatch: 'launch',
  gap: 'launch',
  hostBlocked: 'launch',
  hostAbsent: 'launch',
  dependency: 'launch',
  unattributed: 'launch',
}

const known = new WeakMap<RankTimeline, IdleTime>()
function idleTimeOf(rank: RankTimeline, names: readonly string[]): IdleTime {
  let idle = known.get(rank)
  if (!idle) known.set(rank, (idle = new IdleTime(rank, names)))
  return idle
}

type Named = Omit<Span, 'part'>
/** The events that label a part of the time, and the label for times without such an event. */
type Labels = readonly [events: readonly Named[], otherwise: string]

const interval = (from: number, to: number): Intervals => Float64Array.from(from < to ? [from, to] : [])
const named = (set: Intervals, label: (to: number) => string): Named[] =>
  Array.from({ length: set.length / 2 }, (_, i) => ({
    from: set[2 * i],
    to: set[2 * i + 1],
    label: label(set[2 * i + 1]),
  }))

/**
 * Labels for the times in which no program reports anything. Each of the `pauses` is named after the kernel that ends
 * it.
 */
function labelsOfRank(
  pauses: readonly Named[],
  vacant: readonly Named[],
  isRecorded: boolean,
): Readonly<Record<IdlePart | 'vacant', Labels>> {
  const paused = (label: (next: string) => string): Named[] =>
    pauses.map((pause) => ({ ...pause, label: label(pause.label) }))
  const dispatch: Labels = [paused((name) => `dispatch: the host has not launched ${name} yet`), '']
  const gap: Labels = [paused((name) => `gap before ${name}`), 'a kernel starts or ends: no program runs']
  return {
    dispatch,
    hostBlocked: dispatch,
    hostAbsent: dispatch,
    gap,
    dependency: gap,
    unattributed: gap,
    vacant: [
      vacant,
      isRecorded ? 'no program of the running kernel' : 'what runs inside kernels was not recorded',
    ],
  }
}

/** Labels that come from the recorded events of a processor's programs. */
function labelsInside(
  rank: RankTimeline,
  names: readonly string[],
  tracks: readonly WorkerTrack[],
  { from, to }: RankWindow,
  finish: readonly Named[],
): Readonly<Record<'compute' | 'transfer' | 'communication' | 'wait' | 'copy', Labels>> {
  const inside = (worker: WorkerTrack, kind: Kind): Named[] => eventsIn(rank, names, worker, kind, [from, to])
  const all = (kind: Kind): Named[] => tracks.flatMap((worker) => inside(worker, kind))
  // A processor does what those of its programs do that are not blocked.
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
 * Splits a set of intervals at the events that lie in it. If several events overlap, the event that started last gives
 * the label.
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

/** Sorts spans, makes their times relative to the window, and joins adjacent spans with the same part and label. */
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
