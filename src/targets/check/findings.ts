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

/** One agent that is involved in a finding, and what the agent did. */
export interface Party {
  /** The name of the agent, for example "rank 1, program 0, consumer". */
  readonly who: string
  /** What the agent did, for example "writes inbox[3, 4] of rank 0". */
  readonly what: string
  readonly site: Site | undefined
}

export interface Finding {
  readonly kind: FindingKind
  readonly kernel: string
  readonly message: string
  readonly parties: readonly Party[]
}

/** A key that is equal for two occurrences of the same mistake, regardless of which agent made its access first. */
export function findingKey(finding: Finding): string {
  const sites = finding.parties.map((party) => String(party.site))
  return `${finding.kind}|${sites.sort().join('|')}`
}

export function formatFinding(finding: Finding): string {
  const lines = [`${finding.kind} in ${finding.kernel}: ${finding.message}`]
  for (const { who, what, site } of finding.parties) lines.push(`    ${site ?? '(host)'}  ${who} ${what}`)
  return lines.join('\n')
}

/** The error that ends a run; the run remains ended even if the host program catches the error. */
export class RunOver extends Error {}

/** The error that ends a run with a finding, because the program has no meaningful continuation. */
export class StopRun extends RunOver {
  readonly finding: Finding
  constructor(finding: Finding) {
    super(finding.message)
    this.finding = finding
  }
}

/**
 * The reason why an exploration did not cover everything within its bound. The reason `limit`: the search reached its
 * limit of schedules. The reason `fairness`: an agent in an unbounded loop was forced to yield to other agents. The
 * reason `steps`: a run reached its limit of scheduling points. The reason `lanes`: the lanes of one atomic ran in one
 * order only, although their order is observable. The reason `interrupted`: the exploration was interrupted.
 */
export type Cut = 'limit' | 'fairness' | 'steps' | 'lanes' | 'interrupted'

/** The error that ends a run without a result, because the run reached the limit of scheduling points. */
export class CutRun extends RunOver {}
