/**
 * Describes the audit in a headline and three sentences. The sentences name the biggest tax, the culprit, and what to
 * fix first.
 */
import { kernelLabel } from '../taxes/labels.ts'
import type { AuditDocument, CandidateDocument, RankDocument, StragglerDocument } from './document.ts'
import { bytes, digits, duration, percent, plural, shorten } from './format.ts'
import type { Headline } from './headline.ts'

type Figures = Omit<AuditDocument, 'summary' | 'headline'>

/**
 * The headline states the share of GPU time (the wall time of all ranks) that the taxes take, and the rank that causes
 * most of the waiting. The launch tax and the bulk synchronous tax are measured. The locality tax is an estimated part
 * of busy time, so the headline gives it as an upper bound.
 */
export function headlineOf(
  figures: Pick<Figures, 'ranks' | 'stragglers' | 'collectives' | 'doubtful'>,
): Headline {
  const { ranks } = figures
  if (ranks.length === 0) return { figure: '', text: 'No rank has device work in the window.' }
  const sum = (of: (rank: RankDocument) => number): number => ranks.reduce((all, rank) => all + of(rank), 0)
  const wall = sum(({ wallUs }) => wallUs)
  const lost = sum(({ taxes, exposedCommUs }) => taxes.launchUs + exposedCommUs)
  const most = lost + sum(({ taxes }) => taxes.localityUs?.[1] ?? 0)
  const estimated =
    percent(most, wall) === percent(lost, wall) ? '' : ` (at most ${percent(most, wall)} with data locality)`
  return { figure: percent(lost, wall), text: `of GPU time lost${estimated}; ${blame(figures)}.` }
}

function blame({ ranks, stragglers, collectives, doubtful }: Parameters<typeof headlineOf>[0]): string {
  const [worst] = stragglers
  const isDoubtful = (doubtful?.collectives ?? 0) > 0
  if (worst && worst.exposedWaitUs > 0) {
    const all = stragglers.reduce((sum, { exposedWaitUs }) => sum + exposedWaitUs, 0)
    const which = isDoubtful ? 'the waiting whose cause is known' : 'the waiting'
    return `rank ${worst.rank} causes ${percent(worst.exposedWaitUs, all)} of ${which}`
  }
  if (isDoubtful) return 'which rank causes the waiting is unknown'
  if (ranks.length > 1) return worst ? 'all waiting for other ranks is hidden' : 'no rank waits for another'
  return collectives.length > 0
    ? 'the trace of one rank does not show which rank causes the waiting'
    : 'there are no collectives to wait in'
}

export function summarise(figures: Figures): string[] {
  if (figures.ranks.length === 0) return ['No rank has device work in the window.']
  return [biggestTax(figures), culprit(figures), firstFix(figures)]
}

const mean = (ranks: readonly RankDocument[], of: (rank: RankDocument) => number): number =>
  ranks.reduce((sum, rank) => sum + of(rank), 0) / ranks.length

type TaxName = 'kernel launch' | 'bulk synchronous' | 'data locality'

interface MeanTax {
  readonly name: TaxName
  /** The value by which taxes are sorted. For the locality tax, this value is the middle of its interval. */
  readonly us: number
  /** The upper bound. For the locality tax, this value is the upper end of its interval. */
  readonly most: number
  readonly amount: string
  readonly detail: string
}

/** The mean of each tax over all ranks, with the largest tax first. */
function meanTaxes({ ranks, doubtful }: Pick<Figures, 'ranks' | 'doubtful'>): MeanTax[] {
  const wall = mean(ranks, ({ wallUs }) => wallUs)
  const amount = (us: number): string => `${duration(us)} (${percent(us, wall)} of ${duration(wall)})`
  const unknown = ranks.every(({ taxes }) => taxes.waitUs === null)
  const wait = mean(ranks, ({ taxes }) => taxes.waitUs ?? 0)
  const transfer = mean(ranks, ({ taxes }) => taxes.exposedTransferUs ?? 0)
  const unsplit = mean(ranks, ({ other }) => other.unsplitCommUs)
  const launch = mean(ranks, ({ taxes }) => taxes.launchUs)
  const dispatch = mean(ranks, ({ idle }) => idle.dispatchUs)
  const synchronous = wait + transfer + unsplit
  const [low, high] = [0, 1].map((end) => mean(ranks, ({ taxes }) => taxes.localityUs?.[end] ?? 0))
  const local = mean(ranks, ({ taxes }) => taxes.localityBytes ?? 0)
  const taxes: MeanTax[] = [
    {
      name: 'kernel launch',
      us: launch,
      most: launch,
      amount: amount(launch),
      detail: `${duration(dispatch)} of it while the host was still in operators and launches, ${duration(launch - dispatch)} in gaps between work already enqueued`,
    },
    {
      name: 'bulk synchronous',
      us: synchronous,
      most: synchronous,
      amount: amount(synchronous),
      detail: unknown
        ? 'exposed communication; the share of waiting in it is unknown ' +
          (doubtful && doubtful.collectives > 0
            ? 'since the traces do not list the ranks of process groups'
            : 'without the traces of the other ranks')
        : `${duration(wait)} of it waiting for the last rank, ${duration(transfer)} exposed transfer` +
          (unsplit > 0 ? `, ${duration(unsplit)} that cannot be split` : ''),
    },
    {
      name: 'data locality',
      us: (low + high) / 2,
      most: high,
      amount: `between ${duration(low)} and ${amount(high)}`,
      detail: `inside its busy time, for the ${bytes(local)} that kernels write for the next to read back (estimated from shapes)`,
    },
  ]
  return taxes.sort((a, b) => b.us - a.us)
}

function biggestTax(figures: Figures): string {
  const { ranks } = figures
  const [tax] = meanTaxes(figures)
  const who = ranks.length === 1 ? `rank ${ranks[0].rank}` : 'on average, a rank'
  if (tax.us === 0) return `No tax: ${who} computes all the time.`
  return `The biggest tax is ${tax.name}: ${who} loses ${tax.amount}, ${tax.detail}.`
}

function culprit({ ranks, stragglers, collectives, doubtful }: Figures): string {
  const [worst] = stragglers
  const unknown = doubtful?.collectives ?? 0
  if (!worst || worst.exposedWaitUs === 0) {
    if (unknown > 0)
      return (
        `The late rank is unknown at ${unknown} of ${plural(collectives.length, 'collective')}: the traces do not list ` +
        'the ranks of process groups, and these calls may belong to different groups.'
      )
    if (ranks.length > 1 || collectives.length === 0) return mainIdle(ranks, worst !== undefined)
    const unattributed = mean(ranks, ({ idle }) => idle.unattributedUs)
    const wall = mean(ranks, ({ wallUs }) => wallUs)
    return (
      'The trace of one rank does not show which rank was late; record the other ranks, too' +
      (unattributed > wall / 5
        ? `, and the host: the device is idle for ${percent(unattributed, wall)} of wall, and no recorded launch explains it.`
        : '.')
    )
  }
  const all = stragglers.reduce((sum, { exposedWaitUs }) => sum + exposedWaitUs, 0)
  return (
    `Rank ${worst.rank} arrived last at ${plural(worst.collectives, 'collective')}; the other ranks together waited ` +
    `${duration(worst.exposedWaitUs)} for it (${percent(worst.exposedWaitUs, all)} of all exposed waiting).${meanwhile(worst)}` +
    (unknown > 0 ? ` At ${plural(unknown, 'other collective')} the late rank is unknown.` : '')
  )
}

function meanwhile({ meanwhile: [first] }: StragglerDocument): string {
  return first ? ` While they waited, it was mostly ${activityOf(first)} (${duration(first.us)}).` : ''
}

/** Describes what a straggler did. */
export function activityOf({ what, name, operator }: StragglerDocument['meanwhile'][number]): string {
  const named = shorten(kernelLabel(name ?? ''), 44)
  switch (what) {
    case 'compute':
      return `running ${operator === null ? named : `${shorten(operator, 44)} (${named})`}`
    case 'waiting':
      return `waiting itself, for ${name}`
    case 'collective':
      return `in another collective, ${name}`
    case 'copy':
      return 'copying'
    case 'dispatch':
      return 'dispatching: its host was in operators and launches'
    case 'gap':
      return 'between two kernels'
    case 'hostBlocked':
      return 'idle, its host waiting for the device'
    case 'hostAbsent':
      return 'idle, its host doing something else'
    case 'dependency':
      return 'waiting for an event of another stream'
    default:
      return 'idle for unknown reasons'
  }
}

/**
 * The main cause of idle time in the case that no rank waits for another. In this case the cause is the rank's own host
 * or device.
 */
function mainIdle(ranks: readonly RankDocument[], hidden: boolean): string {
  const causes: readonly (readonly [string, (rank: RankDocument) => number])[] = [
    ['the host dispatching (operators and launches)', ({ idle }) => idle.dispatchUs],
    ['gaps between enqueued work', ({ idle }) => idle.gapUs],
    ['the host waiting for the device', ({ idle }) => idle.hostBlockedUs],
    ['the host doing something else (Python, data loading)', ({ idle }) => idle.hostAbsentUs],
    ['events of other streams', ({ idle }) => idle.dependencyUs],
    ['unknown causes', ({ idle }) => idle.unattributedUs],
  ]
  const [name, of] = causes.reduce((most, one) => (mean(ranks, one[1]) > mean(ranks, most[1]) ? one : most))
  const idle = mean(ranks, ({ idleUs }) => idleUs)
  const waiting = hidden ? 'All waiting for other ranks is hidden' : 'No rank waits for another'
  if (idle === 0) return `${waiting}, and no device is idle.`
  return `${waiting}; devices are idle for ${duration(idle)}, most of it (${duration(mean(ranks, of))}) because of ${name}.`
}

/**
 * A candidate is recommended only if it covers at least this share of the biggest tax. If no candidate does, the host
 * is the first thing to fix.
 */
const GOOD_PART = 1 / 5

/** The maximum length of a sentence if it includes optional parts. */
const LINE = 220

/** The time that fusion alone saves. The saving excludes waiting, which is attributed to the straggler. */
const ownSaving = ({ saves }: CandidateDocument): number =>
  saves.launchUs + (saves.exposedTransferUs ?? 0) + saves.unsplitCommUs + (saves.localityUs ?? 0)

/** The part of a candidate's saving that belongs to one tax. */
function savingIn(tax: TaxName, { saves }: CandidateDocument): number {
  switch (tax) {
    case 'kernel launch':
      return saves.launchUs
    case 'bulk synchronous':
      return (saves.exposedTransferUs ?? 0) + saves.unsplitCommUs
    case 'data locality':
      return saves.localityUs ?? 0
    default:
      return tax satisfies never
  }
}

const most = <T>(things: readonly T[], of: (thing: T) => number): T | undefined =>
  things.reduce<T | undefined>(
    (best, one) => (of(one) > (best === undefined ? 0 : of(best)) ? one : best),
    undefined,
  )

function firstFix(figures: Figures): string {
  const { ranks, stragglers, candidates } = figures
  const [{ name: tax, most: taxUs }] = meanTaxes(figures)
  const perRank = (us: number): number => us / ranks.length
  const ofTax = (us: number): string =>
    us > 0
      ? `including ${percent(Math.min(perRank(us), taxUs), taxUs)} of the ${tax} tax`
      : `but none of the ${tax} tax`
  const candidate = most(candidates, ownSaving)
  const [straggler] = stragglers
  const thenFuse = (first: string): string => {
    const both = candidate ? `${first}. Then fuse ${brief(candidate)}.` : ''
    return both !== '' && both.length <= LINE ? both : `${first}.`
  }
  const covered = Math.max(0, ...candidates.map((one) => savingIn(tax, one)))
  if (tax === 'kernel launch' && taxUs > 0 && perRank(covered) < GOOD_PART * taxUs)
    return thenFuse(`Fix first: ${host(figures)}`)
  const late = straggler?.exposedWaitUs ?? 0
  if (straggler && late > (candidate ? ownSaving(candidate) : 0))
    return thenFuse(
      `Fix first: find out why rank ${straggler.rank} is late. This saves at most ${duration(perRank(late))} of waiting per rank, ` +
        ofTax(tax === 'bulk synchronous' ? late : 0),
    )
  if (candidate)
    return `Fix first: fuse ${brief(candidate)}. This saves at most ${duration(perRank(ownSaving(candidate)))} per rank, ${ofTax(savingIn(tax, candidate))}.`
  const launches = mean(ranks, ({ launches: count }) => count)
  return `Fix first: no chain of kernels stands out for fusion; only the ${digits(launches)} launches per rank could be merged.`
}

/** The advice for the case that launches cost most and no chain of launches stands out. */
function host({ ranks, steps }: Figures): string {
  const stepRanks = steps.flatMap(({ ranks: inStep }) => inStep)
  const count = mean(stepRanks.length > 0 ? stepRanks : ranks, ({ launches }) => launches)
  const launches = mean(ranks, (rank) => rank.launches)
  const launch = mean(ranks, ({ taxes }) => taxes.launchUs)
  const dispatch = mean(ranks, ({ idle }) => idle.dispatchUs)
  const onHost = dispatch >= launch - dispatch
  const time = onHost ? dispatch : launch - dispatch
  return (
    (onHost
      ? 'the host (CUDA graphs, torch.compile, fewer and larger kernels): '
      : 'the gaps between kernels (CUDA graphs, fewer and larger kernels): ') +
    `${Math.round(10 * count) / 10} launches per rank${stepRanks.length > 0 ? ' and step' : ''}` +
    (launches > 0 ? `, ${duration(time / launches)} of ${onHost ? 'dispatch' : 'gap'} each` : '') +
    `, ${percent(time, launch)} of the kernel launch tax`
  )
}

const repeated = (count: number): string => (count === 1 ? '' : ` (${count} times)`)

/** A short description of a candidate, for use inside a longer sentence. */
function brief({ chain, count, operation }: CandidateDocument): string {
  const shown = chain.length > 3 ? [...chain.slice(0, 2), `… ${chain.length - 2} more`] : chain
  const ours = operation ? `, as ${operation.name} does` : ''
  return `${shown.map((name) => shorten(name, 32)).join(' → ')}${repeated(count)}${ours}`
}

/** The shapes of an Arke operation. Documents of earlier versions have no `otherShapes`. */
export const shapesOf = ({ shapes, otherShapes = 0 }: NonNullable<CandidateDocument['operation']>): string =>
  otherShapes > 0 ? `${shapes}, and ${plural(otherShapes, 'other shape')}` : shapes

export function describe({ chain, count, operation }: CandidateDocument): string {
  const shown = chain.length > 4 ? [...chain.slice(0, 3), `… ${chain.length - 3} more`] : chain
  const ours = operation ? ` (${operation.name} does this: ${shapesOf(operation)})` : ''
  return `${shown.map((name) => shorten(name, 40)).join(' → ')}${repeated(count)}${ours}`
}
