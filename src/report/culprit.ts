/**
 * The culprit is the rank that caused the most exposed waiting. All lists of ranks show the culprit first, with a
 * badge.
 */
import type { AuditDocument } from './document.ts'

/** The rank number of the culprit, or null if no rank kept another rank waiting or if the late ranks are unknown. */
export const culpritOf = ({ stragglers }: Pick<AuditDocument, 'stragglers'>): number | null =>
  stragglers.find(({ exposedWaitUs }) => exposedWaitUs > 0)?.rank ?? null

/** Sorts the culprit to the front of a list of ranks. All ranks except the culprit keep their order. */
export const culpritFirst = <Thing extends { readonly rank: number }>(
  things: readonly Thing[],
  culprit: number | null,
): Thing[] => [...things].sort((a, b) => Number(b.rank === culprit) - Number(a.rank === culprit))

/** The badge that marks the culprit. */
export const culpritBadge = 'most waited for'
