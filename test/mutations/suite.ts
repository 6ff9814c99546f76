/**
 * The mutation suite's terms. An original is a right kernel in a scenario that uses it; a mutant is the same with one realistic
 * mistake, chosen by name. A line that a report must name ends in a comment `// @line <name>`, and what is expected of a
 * mutant's report refers to lines by these names.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { explore, type Exploration } from '../../src/targets/check/explore.ts'
import type { Finding, FindingKind } from '../../src/targets/check/findings.ts'
import type { Scenario } from '../../src/world/world.ts'

/** A kind of finding, and the marked line of each party in any order; none where no line is to blame. */
export interface Symptom {
  readonly kind: FindingKind
  readonly lines: readonly string[]
}

/** What the report of a mutant must say. */
export interface Expected extends Symptom {
  /** Words that the report must contain: a flag's name, a rank, a role. */
  readonly says?: readonly string[]
  /** What the same mistake shows first under other schedules. */
  readonly also?: readonly Symptom[]
  /** What the lowered kernel shows instead: its overlap moves the mistake to other lines. */
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

/** What a mutation puts in the place of what is right. */
export function variant<M extends string, T>(
  mutation: M | undefined,
  variants: Readonly<Partial<Record<NoInfer<M>, T>>>,
  right: NoInfer<T>,
): T {
  return (mutation && variants[mutation]) ?? right
}

export type Stage = 'recorded' | 'lowered'
export const stages: readonly Stage[] = ['recorded', 'lowered']

/** All schedules with at most two preemptions, up to the first that finds something. */
export function search(of: Original, scenario: Scenario, stage: Stage, limit = 20_000): Promise<Exploration> {
  return explore(scenario, { ranks: of.ranks, stage, preemptions: 2, limit })
}

/** Random schedules, up to the first that finds something. */
export function randomly(
  of: Original,
  scenario: Scenario,
  stage: Stage,
  schedules = 1000,
): Promise<Exploration> {
  return explore(scenario, { ranks: of.ranks, stage, schedules })
}

const markers = new Map<string, ReadonlyMap<number, string>>()

/** The name of each marked line of a file. */
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

/** The names of the parties' lines in order; file and line where there is no mark, 'host' where there is no line. */
export function linesOf(finding: Finding, of: Original): string[] {
  return finding.parties
    .map(({ site }) => {
      const position = site?.position
      if (!position) return 'host'
      const name =
        position.file === fileURLToPath(of.file) ? markersOf(of.file).get(position.line) : undefined
      return name ?? `${position.file}:${position.line}`
    })
    .sort()
}
