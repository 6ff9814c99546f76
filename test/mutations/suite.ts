/**
 * Definitions of the mutation suite. An original is a correct kernel with a scenario that uses it. A mutant is an
 * original with one realistic mistake, selected by name. A line that a report must name ends in a comment `//
 * @line <name>`. The expected report of a mutant refers to lines by these names.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { explore, type Exploration } from '../../src/targets/check/explore.ts'
import type { Finding, FindingKind } from '../../src/targets/check/findings.ts'
import type { Scenario } from '../../src/world/world.ts'

/**
 * The kind of a finding and the marked line of each access or agent in it, in any order. The list is empty if the
 * finding names no line.
 */
export interface Symptom {
  readonly kind: FindingKind
  readonly lines: readonly string[]
}

/** The report that the checker must give for a mutant. */
export interface Expected extends Symptom {
  /** Words that the report must contain: a flag's name, a rank, a role. */
  readonly says?: readonly string[]
  /** Findings that the same mistake may show first under other schedules. */
  readonly also?: readonly Symptom[]
  /** The finding in the lowered kernel, where overlapping of copies moves the mistake to other lines. */
  readonly lowered?: Pick<Expected, 'kind' | 'lines' | 'says' | 'also'>
}

export type Mutants = Readonly<Record<string, Expected>>

export interface Original<M extends string = string> {
  readonly name: string
  /** `import.meta.url` of the file that holds the marked lines. */
  readonly file: string
  readonly ranks: number
  readonly mutants: Readonly<Record<M, Expected>>
  readonly scenario: (mutation?: M) => Scenario
}

export function original<M extends string>(definition: Original<M>): Original {
  return definition as unknown as Original
}

/** Returns the value for the selected mutation, or the correct value. */
export function variant<M extends string, T>(
  mutation: M | undefined,
  variants: Readonly<Partial<Record<NoInfer<M>, T>>>,
  right: NoInfer<T>,
): T {
  return (mutation && variants[mutation]) ?? right
}

export type Stage = 'recorded' | 'lowered'
export const stages: readonly Stage[] = ['recorded', 'lowered']

/** Searches all schedules with at most two preemptions, up to the first finding. */
export function search(of: Original, scenario: Scenario, stage: Stage, limit = 20_000): Promise<Exploration> {
  return explore(scenario, { ranks: of.ranks, stage, preemptions: 2, limit, onPrint: () => {} })
}

/** Runs random schedules, up to the first that finds a mistake. */
export function randomly(
  of: Original,
  scenario: Scenario,
  stage: Stage,
  schedules = 1000,
): Promise<Exploration> {
  return explore(scenario, { ranks: of.ranks, stage, schedules, onPrint: () => {} })
}

const markers = new Map<string, ReadonlyMap<number, string>>()

/** The names of the marked lines of a file, keyed by line number. */
export function markersOf(file: string): ReadonlyMap<number, string> {
  let known = markers.get(file)
  if (!known) {
    const found = new Map<number, string>()
    const lines = readFileSync(fileURLToPath(file), 'utf8').split('\n')
    lines.forEach((text, i) => {
      const name = /\/\/ @line (\S+)$/.exec(text)?.[1]
      if (name) found.set(i + 1, name)
    })
    markers.set(file, (known = found))
  }
  return known
}

/**
 * The sorted names of the marked lines at which the accesses or agents of a finding are. A line without a mark is given
 * as file and line, and an access of the host, which has no line, as 'host'.
 */
export function linesOf(finding: Finding, of: Original): string[] {
  return (
    finding.parties
      // The report of a deadlock also lists signals that could end a wait, but the mistake is not at these signals.
      .filter(({ what }) => !what.startsWith('could signal'))
      .map(({ site }) => {
        const position = site?.position
        if (!position) return 'host'
        const name =
          position.file === fileURLToPath(of.file) ? markersOf(of.file).get(position.line) : undefined
        return name ?? `${position.file}:${position.line}`
      })
      .sort()
  )
}
