/** The audit on one screen: what was read, the taxes of each rank, who was late, what to fuse, three sentences. */
import type { AuditDocument, RankDocument } from './document.ts'
import { ranges } from '../timeline/ranges.ts'
import { bytes, columns, duration, percent, plural, shorten } from './format.ts'
import { activityOf, describe } from './summary.ts'

/** Ranks that fit; of more, those with most waiting and those with least are shown. */
const SHOWN = 10

export function screen(document: AuditDocument): string[] {
  const { ranks, stragglers, candidates, warnings, summary } = document
  const lines = [heading(document), '']
  lines.push(...columns([rankHead, ...shownRanks(ranks).map(rankRow)]))
  if (ranks.length > SHOWN) lines.push(`  … ${ranks.length - SHOWN} more ranks are in the report`)
  lines.push(...clocks(document))
  if (stragglers.length > 0) {
    lines.push('', 'Who kept the others waiting')
    const rows = stragglers
      .slice(0, 3)
      .map(({ rank, keptWaitingUs, collectives, meanwhile: [first] }) => [
        `rank ${rank}`,
        duration(keptWaitingUs),
        `last at ${plural(collectives, 'collective')}`,
        first ? activityOf(first) : '',
      ])
    lines.push(...columns(rows))
  }
  if (candidates.length > 0) {
    lines.push('', 'What to fuse (saved at most, over all ranks)')
    for (const candidate of candidates.slice(0, 3))
      lines.push(`  ${duration(candidate.savesUs).padStart(8)}  ${describe(candidate)}`)
  }
  if (warnings.length > 0) {
    lines.push('', 'Warnings')
    for (const { message, count } of warnings.slice(0, 5))
      lines.push(`  ${shorten(message, 150)}${count > 1 ? ` (${count} times)` : ''}`)
    if (warnings.length > 5) lines.push(`  … ${warnings.length - 5} more kinds are in the report`)
  }
  return [...lines, '', ...summary]
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

const rankHead = ['rank', 'wall', 'compute', 'launch', 'wait', 'transfer', 'other', 'overlap', 'locality']

function rankRow({ rank, wallUs, computeUs, taxes, overlapPct }: RankDocument): string[] {
  const share = (us: number | null): string => (us === null ? '?' : percent(us, wallUs))
  return [
    `${rank}`,
    duration(wallUs),
    share(computeUs),
    share(taxes.launchUs),
    share(taxes.waitUs),
    share(taxes.exposedTransferUs),
    share(taxes.otherUs),
    overlapPct === null ? '–' : `${overlapPct.toFixed(0)} %`,
    taxes.localityBytes === null
      ? '?'
      : taxes.localityUs === null
        ? bytes(taxes.localityBytes)
        : `≤ ${percent(taxes.localityUs[1], wallUs)}`,
  ]
}

function shownRanks(ranks: readonly RankDocument[]): readonly RankDocument[] {
  if (ranks.length <= SHOWN) return ranks
  const byWait = [...ranks].sort((a, b) => (a.taxes.waitUs ?? 0) - (b.taxes.waitUs ?? 0))
  const shown = new Set([...byWait.slice(0, SHOWN / 2), ...byWait.slice(-SHOWN / 2)])
  return ranks.filter((rank) => shown.has(rank))
}

function clocks({ clocks: all }: AuditDocument): string[] {
  const moved = all.filter(({ aligned }) => aligned)
  if (moved.length === 0) return []
  const residual = Math.max(...all.map(({ residualUs }) => residualUs ?? 0))
  const most = Math.max(...moved.map(({ correctionUs }) => Math.abs(correctionUs)))
  return [
    `  Clocks of rank ${ranges(moved.map(({ rank }) => rank))} were set by collective ends, by up to ${duration(most)}; ends then agree to ${duration(residual)}.`,
  ]
}
