/**
 * Runs the whole audit of a timeline, in nanoseconds. The audit first matches collectives across ranks and aligns
 * clocks, since waiting times are only known from all ranks together. The audit then divides the time of each rank into
 * categories, in total and per step. Finally, the audit finds the stragglers and the candidates for fusion. Warnings
 * state the assumptions that the audit made.
 */
import { Column, float64 } from '../timeline/columns.ts'
import { duration, percent, plural } from '../timeline/figures.ts'
import { difference, intersection, type Intervals, totalWithin, union } from '../timeline/intervals.ts'
import { rankNames } from '../timeline/ranges.ts'
import { lowerBound } from '../timeline/search.ts'
import {
  calledEvent,
  isDeviceWork,
  Kind,
  NONE,
  type RankTimeline,
  type Timeline,
} from '../timeline/timeline.ts'
import type { Warnings } from '../timeline/warnings.ts'
import { bandwidthsOf, type CollectiveRow } from './bandwidth.ts'
import { type Candidate, Candidates } from './candidates.ts'
import { certainStragglers } from './certainty.ts'
import type { Clock } from './collective.ts'
import type { Collectives } from './collectiveTable.ts'
import { collectivesOf, doubtfulOf } from './collectives.ts'
import { type Slowness, slownessOf } from './equalWork.ts'
import type { Fix } from './fix.ts'
import { Fixes } from './fixes.ts'
import { type HostTime, hostTimes } from './hostActivity.ts'
import type { Estimate, Hypothesis } from './estimate.ts'
import { type GroupTime, groupTimes } from './groups.ts'
import { idleParts, type Part, partNames, type Partition } from './ledger.ts'
import { type Locality, localityIn, localityOf, type LocalityTime } from './locality.ts'
import { type Lateness, latenessOf } from './lateness.ts'
import { communicationTimes, partitionOf, recordedSpan } from './partition.ts'
import type { Recogniser } from './recognition.ts'
import { type Step, stepsOf } from './steps.ts'
import { type Straggler, stragglersOf } from './stragglers.ts'
import { WorkTable } from './workTable.ts'

export interface AuditOptions {
  /** The first and the last step to audit, both included; by default, all steps are audited. */
  readonly steps?: readonly [first: number, last: number]
  /**
   * The memory bandwidth of the devices in bytes per second, used instead of the datasheet bandwidth of the device.
   */
  readonly bandwidth?: number
  /**
   * `launched`: the window of a rank begins with the first device work whose launch was recorded. `all`: the window of
   * a rank begins with the first device work. The default is `launched`.
   */
  readonly window?: 'launched' | 'all'
  /** The number of ranks in the job, if the traces state this number. */
  readonly world?: number
  /** Recognisers of Arke operations that can replace a chain of kernels; by default there are none. */
  readonly recognisers?: readonly Recogniser[]
}

export interface Audit {
  /** The ranks that have device work in the window. `index` is the index of the rank in the timeline. */
  readonly ranks: readonly AuditedRank[]
  readonly collectives: Collectives
  /** The clock of each rank of the timeline. */
  readonly clocks: readonly Clock[]
  readonly partitions: readonly Partition[]
  readonly groups: readonly GroupTime[]
  readonly stragglers: readonly Straggler[]
  readonly candidates: readonly Candidate[]
  /**
   * Why the worst stragglers were late, in the order of `stragglers`. Only the first entries of `stragglers` are
   * explained.
   */
  readonly slowness: readonly (Slowness | null)[]
  /**
   * The host activities of the worst stragglers while other ranks waited for the stragglers and the devices of the
   * stragglers were idle.
   */
  readonly hostMeanwhile: readonly (readonly HostTime[])[]
  /**
   * The causes of lost time that can be fixed, over all categories of the ledger, with the largest possible saving
   * first.
   */
  readonly fixes: readonly Fix[]
  /**
   * For each rank of the timeline: the waiting that would not occur if this rank alone never arrived last at a
   * collective.
   */
  readonly lateness: Lateness
  /** The host activities of each rank in its idle time. */
  readonly host: Fixes['host']
  /** The device work of all ranks, by kernel and by operator. */
  readonly work: ReturnType<WorkTable['list']>
  readonly bandwidths: readonly CollectiveRow[]
}

export interface AuditedRank {
  readonly index: number
  readonly ledger: Ledger
  readonly steps: readonly { readonly step: Step; readonly ledger: Ledger }[]
}

/** The times of one window of one rank in nanoseconds, which are means over the processors of the rank. */
export interface Ledger {
  readonly from: number
  readonly to: number
  readonly wall: number
  readonly busy: number
  readonly idle: number
  readonly compute: number
  readonly communication: number
  readonly copy: number
  /** The time of communication that runs at the same time as compute. */
  readonly overlap: number
  /** Waiting time during which the same processor computes or transfers data. */
  readonly hiddenWait: number
  /** The times of the disjoint categories, which add up to `wall`. */
  readonly parts: Readonly<Record<Part, number>>
  /** True if the window has communication, but none of it can be split into wait and transfer. */
  readonly unsplit: boolean
  /** The estimated locality tax, or null if the trace has no shapes. */
  readonly locality: LocalityTime | null
  readonly launches: number
}

/** The number of stragglers for which the audit explains why they were late. */
const EXPLAINED = 8

export function audit(timeline: Timeline, warnings: Warnings, options: AuditOptions = {}): Audit {
  const pieces = auditing(timeline, warnings, options)
  for (;;) {
    const piece = pieces.next()
    if (piece.done) return piece.value
  }
}

/**
 * Runs the audit as a generator that yields every few milliseconds, so that callers can do other work during a long
 * audit.
 */
export function* auditing(
  timeline: Timeline,
  warnings: Warnings,
  options: AuditOptions = {},
): Generator<void, Audit> {
  const { ranks, names } = timeline
  const {
    collectives: all,
    clocks,
    guessed,
    estimate,
  } = collectivesOf(timeline, warnings, options.world ?? null)
  warnOfNoCommunication(timeline, options.world ?? null, warnings)
  yield
  const steps = allSteps(timeline, warnings)
  const spans = ranks.map((rank, i) => chosenSpan(rank, steps[i], options, warnings))
  const collectives = within(timeline, all, spans)
  const times = communicationTimes(timeline, collectives)
  const partitions: Partition[] = []
  for (const [i, rank] of ranks.entries()) {
    yield
    partitions.push(partitionOf(rank, names, spans[i], times[i]))
  }
  yield
  const groups = groupTimes(timeline, collectives, partitions)
  const isMissing = (options.world ?? 0) > ranks.length
  const found = stragglersOf(timeline, collectives, clocks, partitions)
  const stragglers = certainStragglers(timeline, collectives, found, isMissing)
  const candidates = new Candidates(timeline, collectives, partitions, options.recognisers ?? [])
  // The ranks are handled one after the other, since a rank's locality data has as many entries as the rank has
  // kernels.
  const audited: AuditedRank[] = []
  const work = new WorkTable()
  const fixes = new Fixes(timeline, collectives, clocks, partitions)
  for (const [index, rank] of ranks.entries()) {
    yield
    const locality = localityOf(rank, names, warnings, { bandwidth: options.bandwidth })
    yield
    yield* candidates.addRank(index, locality)
    const { from, to } = partitions[index]
    if (to <= from) continue
    const inWindow = steps[index].filter((step) => step.from >= from && step.to <= to)
    const ledgers = yield* ledgersOf(rank, partitions[index], locality, [{ from, to }, ...inWindow])
    audited.push({
      index,
      ledger: ledgers[0],
      steps: inWindow.map((step, i) => ({ step, ledger: ledgers[i + 1] })),
    })
    yield
    fixes.addRank(index, inWindow.length, ledgers[0].locality)
    work.addRank(rank, partitions[index])
  }
  yield
  const lateness = latenessOf(timeline, collectives, clocks, partitions)
  // If a job has only two ranks, both ranks are in every process group, so no group need be guessed.
  if (guessed > 0 && Math.max(ranks.length, options.world ?? 0) > 2)
    warnOfGroups(timeline, collectives, audited, estimate, warnings)
  return {
    ranks: audited,
    collectives,
    clocks,
    partitions,
    groups,
    stragglers,
    candidates: candidates.list(),
    slowness: stragglers
      .slice(0, EXPLAINED)
      .map(({ rank }) => slownessOf(timeline, collectives, clocks, rank)),
    hostMeanwhile: stragglers
      .slice(0, EXPLAINED)
      .map(({ rank, windows }) =>
        hostTimes(ranks[rank], names, partitions[rank], windows).filter(({ apart }) => apart >= 0),
      ),
    fixes: fixes.list(lateness, stragglers),
    lateness,
    host: fixes.host,
    work: work.list(names),
    bandwidths: bandwidthsOf(timeline, collectives),
  }
}

/** The maximum number of kernels that a warning lists as examples. */
const EXAMPLES = 3

/** Warns if no kernel of a job with several ranks is recognised as communication. */
function warnOfNoCommunication({ ranks, names }: Timeline, world: number | null, warnings: Warnings): void {
  const count = Math.max(ranks.length, world ?? 0)
  if (count < 2 || ranks.some(({ events }) => events.kind.includes(Kind.communication))) return
  const times = new Map<number, number>()
  for (const { events } of ranks)
    for (let event = 0; event < events.length; event++)
      if (events.kind[event] === Kind.kernel)
        times.set(events.name[event], (times.get(events.name[event]) ?? 0) + events.duration[event])
  if (times.size === 0) return
  const longest = [...times].sort((a, b) => b[1] - a[1]).slice(0, EXAMPLES)
  warnings.add(
    'communication',
    () =>
      `no kernel of this job of ${count} ranks is recognised as communication; if its ranks communicate, name the kernels by ` +
      `--comm REGEX. The kernels that take the most time: ${longest.map(([name]) => calledEvent(names[name])).join(', ')}`,
  )
}

/** Warns that the traces do not state which ranks take part in a collective. */
function warnOfGroups(
  timeline: Timeline,
  collectives: Collectives,
  audited: readonly AuditedRank[],
  estimate: Estimate | null,
  warnings: Warnings,
): void {
  warnings.add(
    'groups',
    () =>
      'the traces do not list the ranks of process groups; calls are matched to collectives by their order ' +
      `and by their end times, which is a guess (PyTorch 2.2 and later record the groups)${describeEstimate(estimate)}`,
    1,
    'guessed',
  )
  const doubtful = doubtfulOf(timeline, collectives)
  const wall = audited.reduce((sum, { ledger }) => sum + ledger.wall, 0)
  if (doubtful.collectives > 0)
    warnings.add(
      'groups',
      () =>
        `at ${doubtful.collectives} of ${plural(collectives.length, 'collective')} the last rank is unknown: ` +
        'the matched ranks do not end together, or two of them arrive last at the same time, so they may be in different groups; ' +
        `no rank is named as late at a collective whose last rank is unknown, which affects ${duration(doubtful.time / 1000)} of communication ` +
        `(${percent(doubtful.time, wall)} of wall time, over all ranks)`,
      doubtful.collectives,
      'doubtful',
    )
}

/** States how well the estimated process groups fit the trace, and how well the second-best estimate fits. */
function describeEstimate(estimate: Estimate | null): string {
  if (estimate === null || estimate.sections.length === 0) return ''
  const fit = ({ clocks, explained, residual }: Hypothesis): string =>
    `${clocks === 'trace' ? "the trace's clocks" : 'estimated clocks'} explain ${percent(explained, 1)} of the time in calls` +
    (residual === null ? '' : ` (the ends of a call are ${duration(residual / 1000)} apart, as a median)`)
  const other = estimate.runnerUp ? `; the runner-up: ${fit(estimate.runnerUp)}` : ''
  return `; ${fit(estimate.chosen)}${other}`
}

/** The collectives in which a rank takes part during its window. */
function within(
  { ranks }: Timeline,
  collectives: Collectives,
  spans: readonly (readonly [from: number, to: number])[],
): Collectives {
  const { length, first, rank, event } = collectives
  const isInside = (member: number): boolean => {
    const { start, duration } = ranks[rank[member]].events
    const [from, to] = spans[rank[member]]
    return start[event[member]] < to && start[event[member]] + duration[event[member]] > from
  }
  const chosen = new Uint32Array(length)
  let count = 0
  for (let i = 0; i < length; i++)
    for (let member = first[i]; member < first[i + 1]; member++)
      if (isInside(member)) {
        chosen[count++] = i
        break
      }
  return count === length ? collectives : collectives.select(chosen.subarray(0, count))
}

function allSteps({ ranks, names }: Timeline, warnings: Warnings): readonly (readonly Step[])[] {
  const found = ranks.map((rank) => stepsOf(rank, names, warnings))
  const detected = found.find(({ period }) => period !== null)
  if (detected)
    warnings.add(
      'steps',
      () =>
        `the trace has no step annotations; a repeating sequence of ${detected.period} kernels is treated as a step ` +
        '(torch.profiler annotates steps if you call its step())',
      1,
      'detected',
    )
  const numbers = found.map(({ steps }) => steps.map(({ number }) => number).join(' '))
  const different = numbers.findIndex((one) => one !== numbers[0])
  if (different > 0)
    warnings.add(
      'steps',
      () => `ranks ${ranks[0].rank} and ${ranks[different].rank} have recorded different steps`,
      1,
      'different',
    )
  return found.map(({ steps }) => steps)
}

/**
 * Returns the window of a rank that is audited: the chosen steps, or the whole recording. The window is empty if the
 * rank has no device work in the chosen steps.
 */
function chosenSpan(
  rank: RankTimeline,
  steps: readonly Step[],
  { steps: chosen, window = 'launched' }: AuditOptions,
  warnings: Warnings,
): readonly [number, number] {
  const span = recordedSpan(rank)
  if (!span) {
    warnings.tally(
      'no-events',
      rank.rank,
      ({ ranks }) => `${rankNames(ranks)} ${ranks.length === 1 ? 'has' : 'have'} no device work`,
      { count: 0 },
    )
    return [0, 0]
  }
  if (chosen) {
    const [first, last] = chosen
    const inside = steps.filter(({ number }) => number >= first && number <= last)
    if (inside.length > 0) return [inside[0].from, inside[inside.length - 1].to]
    warnings.tally(
      'steps',
      rank.rank,
      ({ ranks }) =>
        `${rankNames(ranks)} ${ranks.length === 1 ? 'has' : 'have'} no ` +
        `${first === last ? `step ${first}` : `steps ${first} to ${last}`}; ` +
        `${ranks.length === 1 ? 'it is' : 'they are'} left out`,
      { count: 0 },
      'absent',
    )
    return [0, 0]
  }
  if (window === 'all' && rank.deviceSpan) return rank.deviceSpan
  const { start, kind } = rank.events
  let before = 0
  for (const { role, from, to } of rank.tracks)
    if (role === 'stream')
      for (let event = from; event < to && start[event] < span[0]; event++)
        if (isDeviceWork(kind[event])) before++
  const [from, to] = rank.deviceSpan ?? span
  if (before > 0)
    warnings.tally(
      'before-recording',
      rank.rank,
      ({ ranks, count, amount, of }) =>
        `${rankNames(ranks)}: ${count} ${count === 1 ? 'kernel or copy that was' : 'kernels and copies that were'} ` +
        `enqueued before the recording began ${count === 1 ? 'is' : 'are'} left out: ${duration(amount / 1000)}, ` +
        `${percent(amount, of)} of the recorded time of ${ranks.length === 1 ? 'this rank' : 'these ranks'} (--window all keeps them)`,
      { count: before, amount: span[0] - from, of: to - from },
    )
  return span
}

function* ledgersOf(
  rank: RankTimeline,
  partition: Partition,
  locality: Locality | null,
  windows: readonly { readonly from: number; readonly to: number }[],
): Generator<void, Ledger[]> {
  const { communicating, copying } = partition
  const processors = partition.processors.map(({ parts, waiting, transferring }) => ({
    parts,
    overlapping: intersection(parts.compute, communicating),
    hidden: difference(waiting, parts.wait),
    split: union(waiting, transferring),
  }))
  const started = launchTimes(rank)
  const ledgers: Ledger[] = []
  for (const { from, to } of windows) {
    yield
    const within = (set: Intervals): number => totalWithin(set, from, to)
    const mean = (of: (processor: (typeof processors)[number]) => Intervals): number =>
      processors.reduce((sum, processor) => sum + within(of(processor)), 0) / processors.length
    const parts = Object.fromEntries(
      partNames.map((name) => [name, mean((processor) => processor.parts[name])]),
    ) as Record<Part, number>
    const idle = idleParts.reduce((sum, part) => sum + parts[part], 0)
    const communication = within(communicating)
    ledgers.push({
      from,
      to,
      wall: to - from,
      busy: to - from - idle,
      idle,
      compute: parts.compute,
      communication,
      copy: within(copying),
      overlap: mean(({ overlapping }) => overlapping),
      hiddenWait: mean(({ hidden }) => hidden),
      parts,
      unsplit: communication > 0 && mean(({ split }) => split) === 0,
      locality: locality && localityIn(locality, from, to),
      launches: lowerBound(started, to) - lowerBound(started, from),
    })
  }
  return ledgers
}

/**
 * The start times of the device work of each launch, sorted. If a launch has work on several streams, only the work on
 * the first stream counts.
 */
function launchTimes(rank: RankTimeline): Float64Array {
  const { start, kind, launch, length } = rank.events
  const seen = new Uint8Array(length)
  const times = new Column(float64)
  for (const { role, from, to } of rank.tracks)
    if (role === 'stream')
      for (let event = from; event < to; event++) {
        const call = launch[event]
        if (!isDeviceWork(kind[event]) || call === NONE || seen[call]) continue
        seen[call] = 1
        times.push(start[event])
      }
  return times.all().sort()
}
