/** What the checker reports: a kind, both sides with their source lines, and how to see it again. */
import type { Site } from '../../ir/site.ts'

export type FindingKind =
  | 'race'
  | 'scope-race'
  | 'deadlock'
  | 'livelock'
  | 'out-of-bounds'
  | 'uninitialised'
  | 'residency'
  | 'flag-reuse'
  | 'phase'
  | 'asymmetric-allocation'
  | 'error'
  | 'wrong-result'

/** One of the agents involved, and what it did. */
export interface Party {
  /** Such as "rank 1, program 0, consumer". */
  readonly who: string
  /** Such as "writes inbox[3, 4] of rank 0". */
  readonly what: string
  readonly site: Site | undefined
}

export interface Finding {
  readonly kind: FindingKind
  readonly kernel: string
  readonly message: string
  readonly parties: readonly Party[]
}

/** The same mistake seen again has the same key, whoever came first. */
export function findingKey(finding: Finding): string {
  const sites = finding.parties.map((party) => String(party.site))
  return `${finding.kind}|${sites.sort().join('|')}`
}

export function formatFinding(finding: Finding): string {
  const lines = [`${finding.kind} in ${finding.kernel}: ${finding.message}`]
  for (const { who, what, site } of finding.parties) lines.push(`    ${site ?? '(host)'}  ${who} ${what}`)
  return lines.join('\n')
}

/** Ends a run, whatever the host program catches. */
export class RunOver extends Error {}

/** Ends the run with a finding: there is nothing sensible to go on with. */
export class StopRun extends RunOver {
  readonly finding: Finding
  constructor(finding: Finding) {
    super(finding.message)
    this.finding = finding
  }
}

/**
 * Why an exploration did not see everything within its bound: the search reached its limit of schedules; an agent in a loop
 * without a bound had to let the others move; a run was cut at its limit of scheduling points; lanes of one atomic whose order
 * could be told were taken in one order; the exploration was interrupted.
 */
export type Cut = 'limit' | 'fairness' | 'steps' | 'lanes' | 'interrupted'

/** Ends a run without a verdict: it has had as many scheduling points as a run may have. */
export class CutRun extends RunOver {}
