/**
 * Compares two audits, one made before a change and one made after it. The compared numbers are means over ranks. If
 * both audits have steps, the means are per step, so that recordings of different length can be compared. If an audit
 * has no steps, the means are over the whole window.
 */
import type { AuditDocument, RankDocument } from './document.ts'
import { bytes, columns, duration } from './format.ts'

export interface Comparison {
  readonly basis: 'step' | 'window'
  readonly figures: readonly ComparedFigure[]
  /** For each rank that is in both audits: its mean wall time in each audit. */
  readonly ranks: readonly { readonly rank: number; readonly beforeUs: number; readonly afterUs: number }[]
}

/**
 * One quantity in the audit before and in the audit after the change. A quantity that an audit does not know is null.
 */
export interface ComparedFigure {
  readonly name: string
  readonly unit: 'us' | 'bytes' | 'count'
  readonly before: number | null
  readonly after: number | null
  /** after / before. */
  readonly ratio: number | null
}

type Of = (rank: RankDocument) => number | null

const compared: readonly (readonly [name: string, unit: ComparedFigure['unit'], of: Of])[] = [
  ['wall', 'us', (rank) => rank.wallUs],
  ['compute', 'us', (rank) => rank.computeUs],
  ['launch tax', 'us', (rank) => rank.taxes.launchUs],
  ['  dispatch', 'us', (rank) => rank.idle.dispatchUs],
  ['  gap', 'us', (rank) => rank.idle.gapUs],
  ['exposed communication', 'us', (rank) => rank.exposedCommUs],
  ['  wait', 'us', (rank) => rank.taxes.waitUs],
  ['  transfer', 'us', (rank) => rank.taxes.exposedTransferUs],
  ['other', 'us', (rank) => rank.taxes.otherUs - rank.other.unsplitCommUs],
  ['locality', 'bytes', (rank) => rank.taxes.localityBytes],
  ['locality, at most', 'us', (rank) => rank.taxes.localityUs?.[1] ?? null],
  ['launches', 'count', (rank) => rank.launches],
]

export function compare(before: AuditDocument, after: AuditDocument): Comparison {
  const basis = before.steps.length > 0 && after.steps.length > 0 ? 'step' : 'window'
  const [a, b] = [ledgers(before, basis), ledgers(after, basis)]
  const figures = compared.map(([name, unit, of]): ComparedFigure => {
    const [was, is] = [meanOf(a, of), meanOf(b, of)]
    return { name, unit, before: was, after: is, ratio: was && is !== null ? is / was : null }
  })
  const ranks = before.ranks.flatMap(({ rank }) => {
    const wall = (all: readonly RankDocument[]): number | null =>
      meanOf(
        all.filter((one) => one.rank === rank),
        (one) => one.wallUs,
      )
    const [beforeUs, afterUs] = [wall(a), wall(b)]
    return beforeUs === null || afterUs === null ? [] : { rank, beforeUs, afterUs }
  })
  return { basis, figures, ranks }
}

const ledgers = (document: AuditDocument, basis: Comparison['basis']): readonly RankDocument[] =>
  basis === 'step' ? document.steps.flatMap(({ ranks }) => ranks) : document.ranks

/** The mean over the ranks whose value is known, or null if no value is known. */
function meanOf(ledgers: readonly RankDocument[], of: Of): number | null {
  const known = ledgers.flatMap((one) => of(one) ?? [])
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length
}

/** Returns a sentence that says whether the job became faster or slower. */
export function verdict({ basis, figures }: Comparison): string {
  const wall = figures.find(({ name }) => name === 'wall')
  if (!wall || wall.before === null || wall.after === null || wall.ratio === null || wall.after === 0)
    return 'The wall times cannot be compared.'
  const times = `${duration(wall.before)} before, ${duration(wall.after)} after`
  const per = basis === 'step' ? 'a step' : 'the window'
  // A change of less than 0.05 % is not visible in a ratio with three decimals.
  if (Math.abs(wall.ratio - 1) < 0.0005) return `No difference: ${per} takes ${times}.`
  const shown = [...figures]
    .filter(
      ({ name, unit, before, after }) =>
        unit === 'us' && !/wall|locality/.test(name) && before !== null && after !== null,
    )
    .map(({ name, before, after }) => ({ name: name.trim(), by: (after ?? 0) - (before ?? 0) }))
    .sort((a, b) => (wall.ratio !== null && wall.ratio > 1 ? b.by - a.by : a.by - b.by))[0]
  const why =
    shown && shown.by !== 0
      ? `; most of it is ${shown.name} (${shown.by > 0 ? '+' : '−'}${duration(Math.abs(shown.by))})`
      : ''
  return wall.ratio > 1
    ? `A loss: ${per} takes ${wall.ratio.toFixed(3)} times as long (${times})${why}.`
    : `A gain: ${per} is ${(1 / wall.ratio).toFixed(3)} times as fast (${times})${why}.`
}

export function comparisonTable({ basis, figures, ranks }: Comparison): string[] {
  const show = (value: number | null, unit: ComparedFigure['unit']): string => {
    if (value === null) return '?'
    return unit === 'us' ? duration(value) : unit === 'bytes' ? bytes(value) : value.toFixed(0)
  }
  const lines = columns([
    [
      `mean over ranks, ${basis === 'step' ? 'per step' : 'the whole window'}`,
      'before',
      'after',
      'after/before',
    ],
    ...figures.map(({ name, unit, before, after, ratio }) => [
      name,
      show(before, unit),
      show(after, unit),
      ratio === null ? '–' : ratio.toFixed(3),
    ]),
  ])
  if (ranks.length > 1) {
    const worst = ranks.reduce((most, one) =>
      one.afterUs / one.beforeUs > most.afterUs / most.beforeUs ? one : most,
    )
    const lost = ranks.filter(({ beforeUs, afterUs }) => afterUs > beforeUs).length
    lines.push(
      `  Of the ${ranks.length} ranks in both audits, ${lost === 0 ? 'none lost time; ' : `${lost} lost time; `}` +
        `rank ${worst.rank} ${worst.afterUs > worst.beforeUs ? 'lost most' : 'gained least'}: ` +
        `${duration(worst.beforeUs)} to ${duration(worst.afterUs)}.`,
    )
  }
  return lines
}
