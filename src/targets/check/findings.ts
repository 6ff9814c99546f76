/**
 * The findings that the checker reports: the kind of mistake, a message, and the agents involved with their source
 * lines.
 */
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
  | 'lost-signal'
  | 'phase'
  | 'multicast'
  | 'assertion'
  | 'asymmetric-allocation'
  | 'error'
  | 'wrong-result'

/** One agent that is involved in a finding, and what it did. */
export interface Party {
  /** E.g. "rank 1, program 0, consumer". */
  readonly who: string
  /** E.g. "writes inbox[3, 4] of rank 0". */
  readonly what: string
  readonly site: Site | undefined
}

export interface Finding {
  readonly kind: FindingKind
  readonly kernel: string
  readonly message: string
  readonly parties: readonly Party[]
}

/** A key that is equal for two occurrences of the same mistake, regardless of which agent came first. */
export function findingKey(finding: Finding): string {
  const sites = finding.parties.map((party) => String(party.site))
  return `${finding.kind}|${sites.sort().join('|')}`
}

export function formatFinding(finding: Finding): string {
  const lines = [`${finding.kind} in ${finding.kernel}: ${finding.message}`]
  for (const { who, what, site } of finding.parties) lines.push(`    ${site ?? '(host)'}  ${who} ${what}`)
  return lines.join('\n')
}

/** Ends a run, even if the host program catches this error. */
export class RunOver extends Error {}

/** Ends the run with a finding, because the program has no meaningful continuation. */
export class StopRun extends RunOver {
  readonly finding: Finding
  constructor(finding: Finding) {
    super(finding.message)
    this.finding = finding
  }
}

/**
 * The reason why an exploration did not cover everything within its bound. `limit`: the search reached its limit of
 * schedules. `fairness`: an agent in an unbounded loop was forced to yield to other agents. `steps`: a run reached
 * its limit of scheduling points. `lanes`: the lanes of one atomic ran in one order only, although their order is
 * observable. `interrupted`: the exploration was interrupted.
 */
export type Cut = 'limit' | 'fairness' | 'steps' | 'lanes' | 'interrupted'

/** Ends a run without a verdict, because it reached the limit of scheduling points. */
export class CutRun extends RunOver {}
