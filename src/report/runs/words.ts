/** Describes a measurement in sentences for readers without knowledge of the field. */
import { compareLedgers } from '../../runs/compare.ts'
import {
  runPartNames,
  type Point,
  type Quantity,
  type RunLedger,
  type RunPart,
  type VariantResult,
} from '../../runs/results.ts'
import { bytes, digits, percent, plural } from '../format.ts'
import { sentenceOf, type Headline } from '../headline.ts'
import { time } from '../units.ts'
import {
  bestOf,
  bulkOf,
  drawnRatio,
  extentsOf,
  groupedBy,
  ratioInterval,
  timeInterval,
  verdict,
  type Compared,
  type Verdict,
} from './points.ts'

interface PartWords {
  /** For each category of time: a phrase that says what a rank does in that time. */
  readonly doing: string
  readonly name: string
}

const partWords: Readonly<Record<RunPart, PartWords>> = {
  useful: { doing: 'computing', name: 'useful work' },
  launch: { doing: 'launching kernels', name: 'launch tax' },
  wait: { doing: 'waiting for other ranks', name: 'bulk synchronous tax' },
  transfer: { doing: 'copying with nothing else to do', name: 'exposed transfer' },
  other: { doing: 'having no work', name: 'other' },
}

/** A sentence mentions the change of a tax only if the change is at least this share of the wall time of `bsp`. */
const WORTH_A_WORD = 0.01

const listed = (things: readonly string[]): string =>
  things.length < 2 ? things.join('') : `${things.slice(0, -1).join(', ')} and ${things.at(-1)}`

/**
 * The headline of one benchmark point compares `bsp` with the fastest other variant, using executions that were not
 * recorded.
 */
export function headlineOfPoint(point: Point): Headline {
  const [bulk, best] = [bulkOf(point), bestOf(point)]
  if (bulk !== null && best !== null) return comparedHeadline(bulk, best)
  const times = point.variants.map(
    ({ variant, time: taken }) => `${variant} takes ${time(taken.median)} (${timeInterval(taken)})`,
  )
  return { figure: '', text: `${listed(times)}; nothing was compared with bsp.` }
}

function comparedHeadline(bulk: VariantResult, best: Compared): Headline {
  const { variant, speedup } = best
  const interval = `95 % interval of the ratio ${ratioInterval(speedup)}`
  const times = `${variant} takes ${time(best.time.median)}, bsp ${time(bulk.time.median)} (${interval})`
  const headline = (text: string): Headline => ({ figure: `${digits(speedup.median)}×`, text })
  const how = verdict(bulk, best)
  switch (how) {
    case 'faster':
      return headline(`as fast as bsp: ${times}.`)
    case 'slower':
      return headline(`as fast as bsp, so bsp is the fastest: ${times}.`)
    case 'alike':
      return headline(`as fast as bsp, which is not statistically significant: ${times}.`)
    case 'disputed': {
      const drawn = drawnRatio(bulk, best)
      return headline(
        `as fast as bsp, which is not confirmed: ${times}, ` +
          `but ${digits(drawn.median)}× (${ratioInterval(drawn)}) in the recorded executions.`,
      )
    }
    default:
      return how satisfies never
  }
}

/**
 * Explains the headline of a benchmark point in one to three sentences. The sentences state which taxes fell, which
 * taxes remain, and how far the time of the best variant is from the lower bound.
 */
export function ledgerInWords(point: Point): string[] {
  const [bulk, best] = [bulkOf(point), bestOf(point)]
  if (bulk === null || best === null) return [limitSentence(point, null)]
  return [taxSentence(bulk.ledger, best), ...localitySentence(bulk.ledger, best), limitSentence(point, best)]
}

function taxSentence(before: RunLedger, { variant, ledger: after, launches }: Compared): string {
  const { parts } = compareLedgers(before, after)
  const changes = runPartNames
    .map((part) => ({ part, ...parts[part] }))
    .filter(({ difference }) => Math.abs(difference) > WORTH_A_WORD * before.wall)
    .sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference))
  const told = ({ part, difference, before: was, after: is }: (typeof changes)[number]): string =>
    `${time(Math.abs(difference))} of ${partWords[part].doing} (${partWords[part].name}: ${time(was)}, now ${time(is)})`
  const gone = changes.filter(({ difference }) => difference < 0).map(told)
  const come = changes.filter(({ difference }) => difference > 0).map(told)
  const clauses = [
    ...(gone.length > 0 ? [`saves ${listed(gone)}`] : []),
    ...(come.length > 0 ? [`adds ${listed(come)}`] : []),
  ]
  if (clauses.length === 0)
    return `Each category of time differs by less than ${percent(WORTH_A_WORD, 1)} of the time of bsp between ${variant} and bsp.`
  const recorded = `in recorded executions of ${time(before.wall)} (bsp) and ${time(after.wall)}`
  return `With ${plural(launches, 'kernel')} on each rank, ${variant} ${clauses.join('; ')}, ${recorded}.`
}

function localitySentence(before: RunLedger, { variant, ledger: after }: Compared): string[] {
  const [old, now] = [before.locality, after.locality]
  if (old.bytes === now.bytes) return []
  const handed = now.bytes === 0 ? 'nothing' : bytes(now.bytes)
  return [
    `Kernels of bsp pass ${bytes(old.bytes)} to each other through memory (the locality tax, up to ${time(old.time[1])} of useful work); kernels of ${variant} pass ${handed}.`,
  ]
}

function limitSentence({ limit }: Point, best: Compared | null): string {
  const reached =
    best === null
      ? ''
      : `; ${best.variant} reaches ${digits(best.ofLimit.median)} of it (${ratioInterval(best.ofLimit)})`
  return `The limit is ${limit.name}, ${time(limit.time.median)} (${timeInterval(limit.time)})${reached}.`
}

/** The headline of the whole measurement. */
export function headlineOf(points: readonly Point[]): Headline {
  if (points.length === 0) return { figure: '', text: 'Nothing was measured.' }
  return points.length === 1 ? headlineOfPoint(points[0]) : headlineOfMany(points)
}

/**
 * Returns the findings of a measurement for each operation. The findings of an operation include a headline if there
 * are several operations, the range of speed-ups over its points, and the taxes that fell.
 */
export function findings(
  points: readonly Point[],
): readonly { readonly operation: string; readonly text: string }[] {
  const groups = [...groupedBy(points, ({ operation }) => operation)]
  return groups.flatMap(([operation, own]) => {
    const pairs = own.flatMap(comparisonOf)
    const sentences = [
      ...(groups.length > 1 ? [sentenceOf(headlineOf(own))] : []),
      ...(pairs.length > 1 ? [rangeOf(pairs)] : []),
      ...(pairs.length > 0 ? [mostGone(pairs)] : []),
    ]
    return sentences.length === 0 ? [] : [{ operation, text: sentences.join(' ') }]
  })
}

interface Comparison {
  readonly point: Point
  readonly bulk: VariantResult
  readonly best: Compared
}

function comparisonOf(point: Point): Comparison[] {
  const [bulk, best] = [bulkOf(point), bestOf(point)]
  return bulk && best ? [{ point, bulk, best }] : []
}

const counted: Readonly<Record<Verdict, string>> = {
  faster: 'faster',
  slower: 'slower',
  alike: 'not statistically significant',
  disputed: 'not confirmed by the recorded executions',
}

function headlineOfMany(points: readonly Point[]): Headline {
  const compared = points.flatMap(comparisonOf)
  if (compared.length === 0)
    return { figure: '', text: `${plural(points.length, 'point')}; nothing was compared with bsp.` }
  const geometricMean = (of: (speedup: Quantity) => number): string =>
    digits(
      Math.exp(compared.reduce((sum, { best }) => sum + Math.log(of(best.speedup)), 0) / compared.length),
    )
  const [low, high] = [0, 1].map((end) => geometricMean(({ interval }) => interval[end]))
  return {
    figure: `${geometricMean(({ median }) => median)}×`,
    text:
      `as fast as bsp: the geometric mean of the best variant over ${plural(compared.length, 'point')} ` +
      `(${low} to ${high}, from the 95 % intervals). The best variant is ${verdictsOf(compared)}.`,
  }
}

/** Counts the benchmark points for each result of comparing the best variant with `bsp`, such as faster or slower. */
function verdictsOf(compared: readonly Comparison[]): string {
  const verdicts = compared.map(({ bulk, best }) => verdict(bulk, best))
  return listed(
    (Object.keys(counted) as Verdict[]).flatMap((how) => {
      const count = verdicts.filter((one) => one === how).length
      return count === 0 ? [] : [`${counted[how]} at ${plural(count, 'point')}`]
    }),
  )
}

/** The two benchmark points at which the speed-up of the best variant over `bsp` is smallest and largest. */
function rangeOf(compared: readonly Comparison[]): string {
  const sorted = [...compared].sort((a, b) => a.best.speedup.median - b.best.speedup.median)
  const points = compared.map(({ point }) => point)
  const place = ({ point, best }: Comparison): string =>
    `${digits(best.speedup.median)}× (${ratioInterval(best.speedup)}) at ${difference(point, points)}`
  return `The speed-up over bsp goes from ${place(sorted[0])} to ${place(sorted[sorted.length - 1])}.`
}

/** Returns the extents and options in which a benchmark point differs from the others. */
function difference(point: Point, all: readonly Point[]): string {
  const told = Object.keys(point.shape).filter((name) =>
    all.some(({ shape }) => shape[name] !== point.shape[name]),
  )
  const shape = Object.fromEntries(told.map((name) => [name, point.shape[name]]))
  const more = [
    ...(all.some(({ skew }) => skew !== point.skew) ? [`skew ${point.skew} %`] : []),
    ...(all.some(({ ranks }) => ranks !== point.ranks) ? [plural(point.ranks, 'rank')] : []),
  ]
  return [extentsOf({ shape }), ...more].filter(Boolean).join(', ') || extentsOf(point)
}

/** The share of each tax in `bsp` and in the best variant, with the largest decrease first. */
function mostGone(pairs: readonly Comparison[]): string {
  const share = (of: 'bulk' | 'best', part: RunPart): number =>
    pairs.reduce((sum, pair) => sum + pair[of].ledger.parts[part] / pair.bulk.ledger.wall, 0) / pairs.length
  const fallen = (['launch', 'wait', 'transfer'] as const)
    .map((part) => ({ part, before: share('bulk', part), after: share('best', part) }))
    .filter(({ before, after }) => before - after > WORTH_A_WORD)
    .sort((a, b) => b.before - b.after - (a.before - a.after))
  if (fallen.length === 0) return 'The best variant reduces no tax by more than 1 % of the time of bsp.'
  return `The best variant reduces, as shares of the time of bsp: ${listed(
    fallen.map(
      ({ part, before, after }) =>
        `${partWords[part].doing} (${partWords[part].name}) from ${percent(before, 1)} to ${percent(after, 1)}`,
    ),
  )}.`
}
