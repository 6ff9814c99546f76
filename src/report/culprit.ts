/** The culprit: the rank that caused the most exposed waiting. Wherever ranks are listed, it comes first and has a badge. */
import type { AuditDocument } from './document.ts'

/** Its number, or null where no rank cost another one time, or where that is unknown. */
export const culpritOf = ({ stragglers }: Pick<AuditDocument, 'stragglers'>): number | null =>
  stragglers.find(({ exposedWaitUs }) => exposedWaitUs > 0)?.rank ?? null

/** The others keep their order. */
export const culpritFirst = <Thing extends { readonly rank: number }>(
  things: readonly Thing[],
  culprit: number | null,
): Thing[] => [...things].sort((a, b) => Number(b.rank === culprit) - Number(a.rank === culprit))

/** The badge of the culprit. */
export const culpritBadge = 'most waited for'
