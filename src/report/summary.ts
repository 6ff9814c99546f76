/** The audit in three sentences: the biggest tax, the culprit, the first thing to fix. */
import { kernelLabel } from '../taxes/labels.ts'
import type { AuditDocument, CandidateDocument, RankDocument, StragglerDocument } from './document.ts'
import { bytes, digits, duration, percent, plural, shorten } from './format.ts'

type Figures = Omit<AuditDocument, 'summary'>

export function summarise(figures: Figures): string[] {
  if (figures.ranks.length === 0) return ['No rank has device work in the window.']
  return [biggestTax(figures), culprit(figures), firstFix(figures)]
}

const mean = (ranks: readonly RankDocument[], of: (rank: RankDocument) => number): number =>
  ranks.reduce((sum, rank) => sum + of(rank), 0) / ranks.length

interface MeanTax {
  readonly name: string
  /** By which taxes are ordered: of the locality's interval the middle. */
  readonly us: number
  readonly amount: string
  readonly detail: string
}

/** The taxes as means over the ranks, the greatest first. */
function meanTaxes(ranks: readonly RankDocument[]): MeanTax[] {
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
  return [
    {
      name: 'kernel launch',
      us: launch,
      amount: amount(launch),
      detail: `${duration(dispatch)} of it while the host was still in operators and launches, ${duration(launch - dispatch)} in gaps between work already enqueued`,
    },
    {
      name: 'bulk synchronous',
      us: synchronous,
      amount: amount(synchronous),
      detail: unknown
        ? 'exposed communication; how much of it is waiting cannot be told without the traces of the other ranks'
        : `${duration(wait)} of it waiting for the last rank, ${duration(transfer)} exposed transfer` +
          (unsplit > 0 ? `, ${duration(unsplit)} that cannot be split` : ''),
    },
    {
      name: 'data locality',
      us: (low + high) / 2,
      amount: `between ${duration(low)} and ${amount(high)}`,
      detail: `inside its busy time, for the ${bytes(local)} that kernels write for the next to read back (estimated from shapes)`,
    },
  ].sort((a, b) => b.us - a.us)
}

function biggestTax({ ranks }: Figures): string {
  const [tax] = meanTaxes(ranks)
  const who = ranks.length === 1 ? `rank ${ranks[0].rank}` : 'a rank, on average,'
  if (tax.us === 0) return `No tax: ${who} computes all the time.`
  return `The biggest tax is ${tax.name}: ${who} pays ${tax.amount}, ${tax.detail}.`
}

function culprit({ ranks, stragglers, collectives }: Figures): string {
  const [worst] = stragglers
  if (!worst || worst.keptWaitingUs === 0) {
    if (ranks.length > 1 || collectives.length === 0) return mainIdle(ranks)
    const unknown = mean(ranks, ({ idle }) => idle.unattributedUs)
    const wall = mean(ranks, ({ wallUs }) => wallUs)
    return (
      'Who was late cannot be told from one rank; record the others too' +
      (unknown > wall / 5
        ? `, and the host: for ${percent(unknown, wall)} of wall the device is idle, and no recorded launch tells why.`
        : '.')
    )
  }
  const all = stragglers.reduce((sum, { keptWaitingUs }) => sum + keptWaitingUs, 0)
  return (
    `Rank ${worst.rank} kept the others waiting for ${duration(worst.keptWaitingUs)} in all (${percent(worst.keptWaitingUs, all)} of all waiting), ` +
    `last at ${plural(worst.collectives, 'collective')}${meanwhile(worst)}.`
  )
}

function meanwhile({ meanwhile: [first] }: StragglerDocument): string {
  return first ? `; meanwhile it was mostly ${activityOf(first)} (${duration(first.us)})` : ''
}

/** What a straggler did, in words. */
export function activityOf({ what, name, operator }: StragglerDocument['meanwhile'][number]): string {
  const named = shorten(kernelLabel(name ?? ''), 44)
  switch (what) {
    case 'compute':
      return `running ${operator === null ? named : `${operator} (${named})`}`
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

/** Without waiting, what holds a rank up is on its own host or device. */
function mainIdle(ranks: readonly RankDocument[]): string {
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
  if (idle === 0) return 'Nobody waits, and no device is idle.'
  return `No rank waits for another; devices are idle for ${duration(idle)}, most of it (${duration(mean(ranks, of))}) because of ${name}.`
}

function firstFix({ ranks, stragglers, candidates }: Figures): string {
  const [candidate] = candidates
  const [straggler] = stragglers
  const perRank = (us: number): number => us / ranks.length
  if (straggler && straggler.keptWaitingUs > (candidate?.savesUs ?? 0))
    return (
      `Fix first: why rank ${straggler.rank} is late (${duration(perRank(straggler.keptWaitingUs))} of waiting a rank)` +
      (candidate ? `; then fuse ${describe(candidate)}.` : '.')
    )
  if (candidate)
    return `Fix first: fuse ${describe(candidate)}, which saves at most ${duration(perRank(candidate.savesUs))} a rank.`
  const launches = mean(ranks, ({ launches: count }) => count)
  return `Fix first: nothing stands out to fuse; ${digits(launches)} launches a rank are all there is to merge.`
}

export function describe({ chain, count, operation }: CandidateDocument): string {
  const shown = chain.length > 4 ? [...chain.slice(0, 3), `… ${chain.length - 3} more`] : chain
  const ours = operation ? ` (${operation.name} does this: ${operation.shapes})` : ''
  return `${shown.map((name) => shorten(name, 40)).join(' → ')} (${count} times)${ours}`
}
