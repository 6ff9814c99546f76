/**
 * Prints the audit on one screen. The screen shows the headline, the input, the taxes of each rank, the stragglers, the
 * fusion candidates, and three sentences.
 */
import type { AuditDocument, RankDocument } from './document.ts'
import { ranges } from '../timeline/ranges.ts'
import { bytes, columns, duration, percent, plural, shares, wrap } from './format.ts'
import { culpritFirst, culpritOf } from './culprit.ts'
import { sentenceOf } from './headline.ts'
import { costOf } from './fixes.ts'
import { headed, plain, type Style } from './style.ts'
import { activityOf, describe, headlineOf, savingsOf, worthwhile } from './summary.ts'
import { noWorkOf } from './untraced.ts'
import { warningLines } from './warningLines.ts'

/**
 * The maximum number of ranks that are shown. If there are more ranks, the ranks with the most and the least waiting
 * are shown.
 */
const SHOWN = 10
const WARNINGS = 5
/** A late rank is shown if it costs more than this fraction of the time that the worst late rank costs. */
const LATE = 0.05

/** Prints the screen. `page` is the HTML file with all details, or null if no page is written. */
export function screen(document: AuditDocument, page: string | null, style: Style = plain): string[] {
  const { ranks, stragglers, doubtful, candidates, summary } = document
  const rest = page === null ? 'shown by --json' : `in ${page}`
  const culprit = culpritOf(document)
  const lines = [style.heading(sentenceOf(headlineOf(document))), '', heading(document), '']
  lines.push(...headed(rankTable(ranks, culprit, document.untraced !== undefined), style))
  const { untraced } = document
  const among = untraced ? ' among the recorded ranks' : ''
  if (culprit !== null) lines.push(`  *: rank ${culprit} was waited for most${among}`)
  if (untraced)
    lines.push(...wrap(`≥, ≤: ${noWorkOf(untraced)}; time spent waiting for such a rank counts as transfer.`))
  if (ranks.length > SHOWN) lines.push(`  … ${plural(ranks.length - SHOWN, 'more rank')}, ${rest}`)
  lines.push(...clocks(document))
  const [worst] = stragglers
  const late = stragglers.filter(({ exposedWaitUs }) => exposedWaitUs > LATE * worst.exposedWaitUs)
  if (late.length > 0) {
    lines.push(
      '',
      style.heading(`Who kept the others waiting (exposed, over all${untraced ? ' recorded' : ''} ranks)`),
    )
    const rows = late
      .slice(0, 3)
      .map(({ rank, exposedWaitUs, collectives, meanwhile: [first] }) => [
        `rank ${rank}`,
        duration(exposedWaitUs),
        `last at ${plural(collectives, 'collective')}`,
        first ? activityOf(first) : '',
      ])
    lines.push(...columns(rows, [0, 2, 3]))
    if (doubtful && doubtful.collectives > 0)
      lines.push(`  at ${plural(doubtful.collectives, 'other collective')} the late rank is unknown`)
  }
  lines.push(...fixLines(document, style))
  if (candidates.length > 0) {
    lines.push('', style.heading('What to fuse (saved at most, per rank)'))
    for (const candidate of candidates.slice(0, CANDIDATES)) {
      lines.push(
        `  ${duration(candidate.savesUs / ranks.length).padStart(8)}  ${describe(candidate)}`,
        style.faint(`            = ${savingsOf(candidate, ranks.length)}`),
      )
      if (candidate.operation?.command)
        lines.push(style.faint(`            try it: ${candidate.operation.command}`))
    }
  }
  const warnings = warningLines({
    ...document,
    // A line under the table already states that a clock disagrees with the ends of collectives.
    warnings: document.warnings.filter((one) => one.class !== 'aligned'),
  })
  if (warnings.length > 0) {
    lines.push('', style.warning('Warnings'), ...warnings.slice(0, WARNINGS).flatMap((line) => wrap(line)))
    if (warnings.length > WARNINGS)
      lines.push(`  … ${plural(warnings.length - WARNINGS, 'more warning')}, ${rest}`)
  }
  return [...lines, '', ...summary]
}

/**
 * The numbers of fixes and fusion candidates that are shown, and the number of lines for the advice and for the
 * evidence of a fix.
 */
const FIXES = 4
const CANDIDATES = 2
const LINES = 2

function fixLines(document: AuditDocument, style: Style): string[] {
  if (document.fixes === undefined) return []
  const wall = document.ranks.reduce((sum, { wallUs }) => sum + wallUs, 0)
  const worth = worthwhile(document)
  const lines = ['', style.heading('Fix first (what the cause costs at most, share of wall)')]
  if (worth.length === 0) return [...lines, '  Nothing here is worth fixing.']
  const shown = worth.slice(0, FIXES).map((fix) => ({ ...fix, cost: costOf(fix, wall) }))
  const width = Math.max(7, ...shown.map(({ cost }) => cost.length))
  for (const { cost, what, advice, evidence } of shown) {
    const [first, ...more] = paragraph(`${what}: ${advice}`)
    lines.push(
      `  ${cost.padStart(width)}${first.slice(1)}`,
      ...more.map((line) => `${' '.repeat(width)}${line}`),
    )
    if (evidence !== '')
      lines.push(...paragraph(evidence).map((line) => style.faint(`${' '.repeat(width + 2)}${line}`)))
  }
  return lines
}

/** Wraps a text into at most `LINES` lines. A number stays on the line of its unit. */
function paragraph(text: string): string[] {
  const lines = wrap(text.replace(/(\d) (?=%|(?:[kMGT]?B|[mnµ]?s)\b)/g, '$1\u00a0'), 100).map((line) =>
    line.replaceAll('\u00a0', ' '),
  )
  const shown = lines.slice(0, LINES)
  if (lines.length > LINES) shown[LINES - 1] = `${shown[LINES - 1].replace(/[,;:]$/, '')} …`
  return shown
}

function heading({ ranks, steps, sources, collectives }: AuditDocument): string {
  const read = sources.reduce((sum, source) => sum + source.bytes, 0)
  const some = [
    `${plural(sources.length, 'file')} (${bytes(read)})`,
    plural(ranks.length, 'rank'),
    steps.length > 0 ? plural(steps.length, 'step') : 'no steps',
    plural(collectives.length, 'collective'),
  ]
  return `${some.join(', ')}. Shares of wall; a rank's row adds up to 100 %.`
}

type Column = readonly [name: string, of: (rank: RankDocument) => number | null]

/**
 * The columns for the categories of a rank's wall time. Communication that cannot be split into wait and transfer has
 * its own column. If no communication can be split, the column of unsplit communication replaces the columns for wait
 * and transfer. If some communication can be split, the column of unsplit communication is an additional column.
 */
function parts(ranks: readonly RankDocument[]): readonly Column[] {
  const wait: Column = ['wait', ({ taxes }) => taxes.waitUs]
  const transfer: Column = ['transfer', ({ taxes }) => taxes.exposedTransferUs]
  const isUnsplit = ({ other, taxes }: RankDocument): boolean =>
    other.unsplitCommUs > 0 || taxes.waitUs === null
  const isSplit = ({ taxes }: RankDocument): boolean =>
    (taxes.waitUs ?? 0) > 0 || (taxes.exposedTransferUs ?? 0) > 0
  const communication: readonly Column[] = !ranks.some(isUnsplit)
    ? [wait, transfer]
    : ranks.some(isSplit)
      ? [wait, transfer, ['unsplit', ({ other }) => other.unsplitCommUs]]
      : [['exposed comm', ({ exposedCommUs }) => exposedCommUs]]
  return [
    ['compute', ({ computeUs }) => computeUs],
    ['launch', ({ taxes }) => taxes.launchUs],
    ...communication,
    ['other', ({ taxes, other }) => taxes.otherUs - other.unsplitCommUs],
  ]
}

/**
 * The signs for bounds: if ranks without recorded work take part in collectives, waiting is a lower bound and transfer
 * an upper bound.
 */
const bounds: Readonly<Record<string, string>> = { wait: '≥ ', transfer: '≤ ' }

function rankTable(ranks: readonly RankDocument[], culprit: number | null, isBound: boolean): string[] {
  const shown = parts(ranks)
  const rows = shownRanks(ranks, culprit).map((one) => {
    const { rank, wallUs, taxes, overlapPct } = one
    const values = shown.map(([, of]) => of(one))
    const written = shares(
      values.map((us) => us ?? 0),
      wallUs,
    )
    return [
      rank === culprit ? `${rank}*` : `${rank}`,
      duration(wallUs),
      ...written.map((share, i) =>
        values[i] === null ? '?' : `${isBound ? (bounds[shown[i][0]] ?? '') : ''}${share}`,
      ),
      overlapPct === null ? '–' : `${overlapPct.toFixed(0)} %`,
      taxes.localityBytes === null
        ? '?'
        : taxes.localityUs === null
          ? bytes(taxes.localityBytes)
          : `≤ ${percent(taxes.localityUs[1], wallUs)}`,
    ]
  })
  return columns([['rank', 'wall', ...shown.map(([name]) => name), 'overlap', 'locality'], ...rows])
}

/**
 * The ranks to show: the culprit, which comes first, and the ranks with the least and the most waiting, in the order of
 * the document.
 */
function shownRanks(ranks: readonly RankDocument[], culprit: number | null): readonly RankDocument[] {
  if (ranks.length <= SHOWN) return culpritFirst(ranks, culprit)
  const byWait = [...ranks].sort((a, b) => (a.taxes.waitUs ?? 0) - (b.taxes.waitUs ?? 0))
  const ordered = culpritFirst([...byWait.slice(0, SHOWN / 2), ...byWait.slice(SHOWN / 2).reverse()], culprit)
  const shown = new Set(ordered.slice(0, SHOWN))
  return culpritFirst(
    ranks.filter((rank) => shown.has(rank)),
    culprit,
  )
}

function clocks({ clocks: all }: AuditDocument): string[] {
  const moved = all.filter(({ aligned }) => aligned)
  if (moved.length === 0) return []
  const [clock, was] = moved.length === 1 ? ['Clock of rank', 'was'] : ['Clocks of ranks', 'were']
  const residuals = moved.flatMap(({ residualUs }) => residualUs ?? [])
  const most = Math.max(...moved.map(({ correctionUs }) => Math.abs(correctionUs)))
  return wrap(
    `${clock} ${ranges(moved.map(({ rank }) => rank))} ${was} set by collective ends, by up to ${duration(most)}` +
      `${residuals.length > 0 ? `; ends then agree to ${duration(Math.max(...residuals))}` : ''}.`,
  )
}
