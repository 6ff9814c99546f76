/**
 * Describes the audit in a headline and three sentences. The sentences name the biggest cost, the culprit, and what to
 * fix first.
 */
import { kernelLabel } from '../taxes/labels.ts'
import type {
  AuditDocument,
  CandidateDocument,
  FixDocument,
  RankDocument,
  StragglerDocument,
} from './document.ts'
import { FUSE, fusionSaving, WORTH } from './fixes.ts'
import { bytes, duration, percent, plural, shorten } from './format.ts'
import type { Headline } from './headline.ts'
import { noWorkOf } from './untraced.ts'

type Figures = Omit<AuditDocument, 'summary' | 'headline'>

/**
 * The headline states the share of GPU time (the wall time of all ranks) that the taxes take, and the rank that causes
 * most of the waiting. The launch tax and the bulk synchronous tax are measured. The locality tax is an estimate and is
 * contained in busy time, so the headline gives it as an upper bound.
 */
export function headlineOf(
  figures: Pick<Figures, 'ranks' | 'stragglers' | 'collectives' | 'doubtful' | 'untraced'>,
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

function blame({
  ranks,
  stragglers,
  collectives,
  doubtful,
  untraced,
}: Parameters<typeof headlineOf>[0]): string {
  const [worst] = stragglers
  const isDoubtful = (doubtful?.collectives ?? 0) > 0
  if (untraced?.complete === 0) return `${noWorkOf(untraced)}, so waiting and transfer cannot be told apart`
  if (worst && worst.exposedWaitUs > 0) {
    const all = stragglers.reduce((sum, { exposedWaitUs }) => sum + exposedWaitUs, 0)
    if (untraced)
      return `${noWorkOf(untraced)}; of the waiting between the others, rank ${worst.rank} causes ${percent(worst.exposedWaitUs, all)}`
    const which = isDoubtful ? 'the waiting whose cause is known' : 'the waiting'
    return `rank ${worst.rank} causes ${percent(worst.exposedWaitUs, all)} of ${which}`
  }
  if (isDoubtful) return 'the rank that causes the waiting is unknown'
  if (ranks.length > 1) return worst ? 'all waiting for other ranks is hidden' : 'no rank waits for another'
  return collectives.length > 0
    ? 'the trace of one rank does not show which rank causes the waiting'
    : 'there are no collectives to wait in'
}

export function summarise(figures: Figures): string[] {
  if (figures.ranks.length === 0) return ['No rank has device work in the window.']
  return [biggestCost(figures), culprit(figures), firstFix(figures)]
}

const mean = (ranks: readonly RankDocument[], of: (rank: RankDocument) => number): number =>
  ranks.reduce((sum, rank) => sum + of(rank), 0) / ranks.length

interface Cost {
  readonly name: string
  readonly isTax: boolean
  /** The value by which the costs of the taxes are sorted. The locality tax is sorted by the middle of its interval. */
  readonly us: number
  readonly amount: string
  readonly detail: string
}

const idleCosts = [
  ['host blocked', 'hostBlockedUs', 'in which the host waits for the device'],
  [
    'host absent',
    'hostAbsentUs',
    'in which the host runs neither operators nor launches (Python, data loading)',
  ],
  ['dependencies', 'dependencyUs', 'in which streams wait for events of other streams'],
  ['unexplained idle time', 'unattributedUs', 'whose launches are not in the trace'],
] as const

/**
 * Returns the mean of each cost over all ranks, with the largest cost first. One-off idle intervals are left out, since
 * they say nothing about the steps in which they do not occur.
 */
function meanCosts({ ranks, doubtful, untraced }: Pick<Figures, 'ranks' | 'doubtful' | 'untraced'>): Cost[] {
  const wall = mean(ranks, ({ wallUs }) => wallUs)
  const amount = (us: number): string => `${duration(us)} (${percent(us, wall)} of ${duration(wall)})`
  const unknown = ranks.every(({ taxes }) => taxes.waitUs === null)
  const wait = mean(ranks, ({ taxes }) => taxes.waitUs ?? 0)
  const transfer = mean(ranks, ({ taxes }) => taxes.exposedTransferUs ?? 0)
  const unsplit = mean(ranks, ({ other }) => other.unsplitCommUs)
  const dispatch = mean(ranks, ({ idle, once }) => idle.dispatchUs - (once?.dispatchUs ?? 0))
  const gap = mean(ranks, ({ idle, once }) => idle.gapUs - (once?.gapUs ?? 0))
  const copy = mean(ranks, ({ other }) => other.exposedCopyUs)
  const synchronous = wait + transfer + unsplit
  const [low, high] = [0, 1].map((end) => mean(ranks, ({ taxes }) => taxes.localityUs?.[end] ?? 0))
  const local = mean(ranks, ({ taxes }) => taxes.localityBytes ?? 0)
  const costs: Cost[] = [
    {
      name: 'kernel launch',
      isTax: true,
      us: dispatch + gap,
      amount: amount(dispatch + gap),
      detail: `${duration(dispatch)} of it while the host was still in operators and launches, ${duration(gap)} in gaps between work already enqueued`,
    },
    {
      name: 'bulk synchronous',
      isTax: true,
      us: synchronous,
      amount: amount(synchronous),
      detail: unknown
        ? 'exposed communication; the share of waiting in it is unknown ' +
          (doubtful && doubtful.collectives > 0
            ? 'since the traces do not list the ranks of process groups'
            : 'without the traces of the other ranks')
        : (untraced
            ? `at least ${duration(wait)} of it waiting and at most ${duration(transfer)} exposed transfer, since ${noWorkOf(untraced)}`
            : `${duration(wait)} of it waiting for the last rank, ${duration(transfer)} exposed transfer`) +
          (unsplit > 0 ? `, ${duration(unsplit)} that cannot be split` : ''),
    },
    {
      name: 'data locality',
      isTax: true,
      us: (low + high) / 2,
      amount: `between ${duration(low)} and ${amount(high)}`,
      detail: `inside its busy time, for the ${bytes(local)} that kernels write for a later kernel to read back (estimated from shapes)`,
    },
    {
      name: 'copies',
      isTax: false,
      us: copy,
      amount: amount(copy),
      detail: 'in which only copies run',
    },
    ...idleCosts.map(([name, key, detail]): Cost => {
      const us = mean(ranks, ({ idle, once }) => idle[key] - (once?.[key] ?? 0))
      return { name, isTax: false, us, amount: amount(us), detail }
    }),
  ]
  return costs.sort((a, b) => b.us - a.us)
}

function biggestCost(figures: Figures): string {
  const { ranks, fixes = [] } = figures
  const [cost] = meanCosts(figures)
  const who = ranks.length === 1 ? `rank ${ranks[0].rank}` : 'on average, a rank'
  const holes = fixes.reduce((sum, { cause, us }) => (cause === 'hole' ? sum + us : sum), 0) / ranks.length
  const wall = mean(ranks, ({ wallUs }) => wallUs)
  const once =
    holes >= wall / 100
      ? ` One-off idle intervals, which are left out here, take ${duration(holes)} more.`
      : ''
  if (cost.us === 0) return `No tax: ${who} computes all the time.${once}`
  const kind = cost.isTax ? 'The biggest tax is' : 'The biggest cost is none of the three taxes but'
  return `${kind} ${cost.name}: ${who} loses ${cost.amount}, ${cost.detail}.${once}`
}

function culprit({ ranks, stragglers, collectives, doubtful, untraced }: Figures): string {
  const [worst] = stragglers
  const unknown = doubtful?.collectives ?? 0
  if (untraced) {
    const met = untraced.collectives + untraced.complete
    const others =
      worst && worst.exposedWaitUs > 0
        ? `. Among the recorded ranks, rank ${worst.rank} arrived last at ${plural(worst.collectives, 'collective')}; the others waited ` +
          `${duration(worst.exposedWaitUs)} for it`
        : ''
    return (
      `${capital(noWorkOf(untraced))}, so the last rank is unknown at ${untraced.collectives} of ${plural(met, 'collective')}, ` +
      `and waiting at these collectives may look like transfer${others}. Record all ranks to see who is late.`
    )
  }
  if (!worst || worst.exposedWaitUs === 0) {
    if (unknown > 0)
      return (
        `The late rank is unknown at ${unknown} of ${plural(collectives.length, 'collective')}: ` +
        'the traces do not list the ranks of process groups, and the matched calls may belong to different groups.'
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

const capital = (text: string): string => `${text[0].toUpperCase()}${text.slice(1)}`

function meanwhile({ rank, meanwhile: [first] }: StragglerDocument): string {
  return first
    ? ` While the others waited, rank ${rank} was mostly ${activityOf(first)} (${duration(first.us)}).`
    : ''
}

/** Describes in words what a straggler did. */
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
 * The main cause of idle time if no rank waits for another rank, so that the cause is a rank's own host or device.
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

/** The maximum length of a sentence that includes optional clauses, in characters. */
const LINE = 220

/** The fixes that save at least the fraction `WORTH` of the wall time, with the most important first. */
export function worthwhile({ fixes = [], ranks }: Pick<Figures, 'fixes' | 'ranks'>): readonly FixDocument[] {
  const wall = ranks.reduce((sum, { wallUs }) => sum + wallUs, 0)
  return fixes.filter(({ savesUs }) => savesUs >= WORTH * wall)
}

function firstFix(figures: Figures): string {
  const { ranks } = figures
  const [first] = worthwhile(figures)
  if (!first) return `Nothing here is worth fixing: no single cause takes ${percent(WORTH, 1)} of the time.`
  const { what, advice, savesUs, fusionSavesUs } = first
  const wall = ranks.reduce((sum, { wallUs }) => sum + wallUs, 0)
  const time = `${duration(savesUs / ranks.length)} per rank (${percent(savesUs, wall)} of wall)`
  const saving = fusionSavesUs === undefined ? '' : fusionSaving(fusionSavesUs, ranks.length)
  // If the cause is unknown, the advice is to record more, which saves no time by itself.
  const isUnknown =
    first.cause === 'unattributed' || (first.cause === 'transfer' && figures.untraced !== undefined)
  const cost = `The cause costs at most ${time}`
  const share = `of which the fusion saves at most ${duration((fusionSavesUs ?? 0) / ranks.length)}`
  const left = LINE - `Fix first: ; . ${cost}.`.length - what.length
  const whole = saving !== '' && advice.endsWith(saving) ? advice.slice(0, -saving.length) : advice
  const shown = cut(whole, Math.max(60, left))
  // A fusion may save less than the cause costs, so the sentence states a separate upper bound for the fusion.
  if (saving !== '' && shown.length > whole.lastIndexOf(FUSE))
    return `Fix first: ${what}; ${shown}. ${cost}, ${share}.`
  return `Fix first: ${what}; ${shown}. ${isUnknown ? cost : `The fix saves at most ${time}`}.`
}

/** Cuts a text at the end of a clause, or else at the end of a word. */
function cut(text: string, width: number): string {
  if (text.length <= width) return text
  const clause = text.slice(0, width).lastIndexOf('; ')
  if (clause > 0) return text.slice(0, clause)
  const phrase = text.slice(0, width).lastIndexOf(', ')
  if (phrase > width / 2) return text.slice(0, phrase)
  return `${text.slice(0, width).replace(/[,;:(]?\s\S*$/, '')} …`
}

const repeated = (count: number): string => (count === 1 ? '' : ` (${count} times)`)

/** The shapes of an Arke operation. Documents of earlier versions have no `otherShapes`. */
export const shapesOf = ({ shapes, otherShapes = 0 }: NonNullable<CandidateDocument['operation']>): string =>
  otherShapes > 0 ? `${shapes}, and ${plural(otherShapes, 'other shape')}` : shapes

/** The saving of a fusion candidate in each tax, per rank, with the largest saving first. */
export function savingsOf({ saves }: CandidateDocument, ranks: number): string {
  const all: readonly (readonly [string, number | null])[] = [
    ['launches', saves.launchUs],
    ['waiting', saves.waitUs],
    ['transfer', saves.exposedTransferUs],
    ['exposed communication', saves.unsplitCommUs],
    ['data locality', saves.localityUs],
  ]
  return all
    .flatMap(([name, us]) => (us !== null && us > 0 ? [[name, us] as const] : []))
    .sort((a, b) => b[1] - a[1])
    .map(([name, us]) => `${duration(us / ranks)} ${name}`)
    .join(' + ')
}

export function describe({ chain, count, operation }: CandidateDocument): string {
  const shown = chain.length > 4 ? [...chain.slice(0, 3), `… ${chain.length - 3} more`] : chain
  const ours = operation ? ` (${operation.name} does this: ${shapesOf(operation)})` : ''
  return `${shown.map((name) => shorten(name, 40)).join(' → ')}${repeated(count)}${ours}`
}
