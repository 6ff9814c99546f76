/**
 * Prints the measurements of one benchmark point in a terminal. The output is a headline, and a table of the variants
 * that fits into 100 columns.
 */
import { runPartNames, type Point, type Quantity, type VariantResult } from '../../runs/results.ts'
import type { UnfinishedPoint } from '../../runs/measure.ts'
import { bytes, columns, digits, plural, wrap } from '../format.ts'
import { sentenceOf } from '../headline.ts'
import { headed, plain, type Style } from '../style.ts'
import { time } from '../units.ts'
import { contentionText, extentsOf, pointName } from './points.ts'
import { headlineOfPoint } from './words.ts'

export function benchTable(point: Point, style: Style = plain): string {
  const { operation, variants, skew } = point
  const table = columns([
    ['variant', 'median', 'over bsp', 'limit', runPartNames.join(' '), 'locality', 'error'],
    ...variants.map(row),
  ])
  const punctual = variants.map((one) => `${time(one.punctual.median)} (${one.variant})`).join(', ')
  return [
    style.heading(`${operation} ${pointName(point)}`),
    ...wrap(sentenceOf(headlineOfPoint(point))),
    ...headed(table, style),
    ...wrap(`Contention before the run: ${contentionText(point.contention)}.`),
    ...(skew > 0 ? wrap(`The ranks that were not late ended after ${punctual}.`) : []),
  ].join('\n')
}

/**
 * If the measurement of a point was interrupted, the table contains only the times that were measured before the
 * interrupt, and nothing from recorded executions.
 */
export function unfinishedTable(
  operation: string,
  shape: Point['shape'],
  { skew, times }: UnfinishedPoint,
): string {
  const late = skew > 0 ? `, last rank ${skew} % late` : ''
  const rounds = plural(times[0].time.samples, 'round')
  return [
    `${operation} ${extentsOf({ shape })}${late}: incomplete, interrupted after ${rounds}`,
    ...columns([
      ['variant', 'median'],
      ...times.map(({ variant, time: taken }) => [variant, `${time(taken.median)} ${reach(taken)}`]),
    ]),
  ].join('\n')
}

/** The meaning of the table columns, which is printed once for all tables. */
export const tableLegend: readonly string[] = [
  'median, over bsp, limit: from executions that were not recorded. ±: distance to the farther end of the 95 % interval. limit: the lower bound divided by the time; 1 is the best possible value.',
  'useful to other: percentages of the time of recorded executions, mean over ranks. locality: bytes that one kernel writes and a later kernel reads back.',
  'error: the largest deviation from a float64 reference, as a fraction of the deviation that the dtype allows.',
].flatMap((line) => wrap(line))

const row = ({ variant, time: taken, speedup, ofLimit, ledger, deviation }: VariantResult): string[] => [
  variant,
  `${time(taken.median)} ${reach(taken)}`,
  speedup === null ? '–' : `${digits(speedup.median)} ${reach(speedup)}`,
  digits(ofLimit.median),
  runPartNames.map((part) => percentOf(ledger.parts[part], ledger.wall).padStart(part.length)).join(' '),
  ledger.locality.bytes === 0 ? '–' : bytes(ledger.locality.bytes),
  deviation.bound > 0 ? digits(deviation.largest / deviation.bound) : deviation.largest === 0 ? '0' : '∞',
]

/**
 * Formats the distances between a median and the ends of its confidence interval. A confidence interval from order
 * statistics need not be symmetric around the median.
 */
export function reach({ median, interval: [low, high] }: Quantity): string {
  const farther = Math.max(high - median, median - low)
  return `±${percentOf(farther, median)}%`
}

function percentOf(part: number, whole: number): string {
  if (!(whole > 0)) return '–'
  const share = (100 * part) / whole
  return share > 0 && share < 0.95 ? share.toFixed(1) : share.toFixed(0)
}
