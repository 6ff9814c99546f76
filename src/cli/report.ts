/** A check's outcome for people and for programs: findings with the source lines they are about, and JSON. */
import { readFileSync } from 'node:fs'
import type { Site } from '../ir/site.ts'
import type { Party } from '../targets/check/findings.ts'
import type { Checked, CheckedKernel, FoundBy, Run } from './check.ts'

const plural = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`

/** "2 ranks, recorded: …" */
export function runLine(run: Run): string {
  const { search, random, findings, repeated } = run
  const parts: string[] = []
  if (search) {
    const extent = search.complete
      ? `all with up to ${plural(search.preemptions, 'preemption')}`
      : findings.length + repeated > 0
        ? 'until a finding'
        : 'incomplete: a larger --limit sees more'
    parts.push(`search ${plural(search.schedules, 'schedule')} (${extent})`)
  }
  if (random) parts.push(`random ${plural(random.schedules, 'schedule')} (seeds from ${random.seed})`)
  const found = [
    ...(findings.length > 0 ? [plural(findings.length, 'finding')] : []),
    ...(repeated > 0 ? [`${plural(repeated, 'finding')} seen above`] : []),
  ]
  const outcome = found.join(', ') || (parts.length > 0 ? 'ok' : 'not run')
  return [
    `${plural(run.ranks, 'rank')}, ${run.stage}`,
    ...(parts.length > 0 ? [parts.join(', ')] : []),
    outcome,
  ].join(': ')
}

/** One block a finding: what, both places with their source, and how to see it again. */
export function findingBlock({ finding, seed }: FoundBy, run: Run): string {
  const lines = [`${finding.kind} in ${finding.kernel}: ${finding.message}`]
  for (const { who, what, site } of finding.parties) {
    lines.push(`  ${site ?? '(host)'}  ${who} ${what}`)
    const quote = site && quoted(site)
    if (quote) lines.push(...quote.map((line) => `    ${line}`))
  }
  const how = [`arke check ${run.file} --ranks ${run.ranks} --stage ${run.stage}`]
  if (seed === undefined) how.push(`--preemptions ${run.search?.preemptions ?? 0} --schedules 0`)
  else how.push(`--limit 0 --schedules 1 --seed ${seed}`)
  const origin = seed === undefined ? 'found by the search' : `found with seed ${seed}`
  lines.push(`  scenario "${run.scenario}", ${plural(run.ranks, 'rank')}, ${run.stage}; ${origin}`)
  lines.push(`  again: ${how.join(' ')}`)
  return lines.join('\n')
}

export function unlaunchedNote({ kernel, file }: CheckedKernel): string {
  return (
    `note: no scenario in ${file} launches ${kernel.name}: it was recorded, verified and lowered, but not run. ` +
    `To run it, export scenario('…', { ranks: 2 }, async (world) => { world.launch(${kernel.name}, …) })`
  )
}

export function closingLine(checked: Checked): string {
  const findings = checked.runs.reduce((sum, run) => sum + run.findings.length, 0)
  return `${plural(checked.scenarios, 'scenario')}, ${plural(findings, 'finding')}`
}

const files = new Map<string, readonly string[] | undefined>()

function sourceLine(file: string, line: number): string | undefined {
  if (!files.has(file)) {
    try {
      files.set(file, readFileSync(file, 'utf8').split('\n'))
    } catch {
      files.set(file, undefined)
    }
  }
  return files.get(file)?.[line - 1]?.replace(/\s+$/, '')
}

/** The line with its number, and a mark under the column. */
export function quoted(site: Site): string[] | undefined {
  const at = site.position
  const text = at && sourceLine(at.file, at.line)
  if (!at || !text) return undefined
  const number = String(at.line)
  const blank = text.slice(0, at.column - 1).replace(/[^\t]/g, ' ')
  return [`${number} | ${text}`, `${' '.repeat(number.length)} | ${blank}^`]
}

/** The whole outcome as plain data. */
export function toJson(checked: Checked, version: string): unknown {
  return {
    version,
    kernels: checked.kernels.map(({ file, kernel, scenarios, notes }) => ({
      name: kernel.name,
      file,
      line: kernel.site.position?.line,
      column: kernel.site.position?.column,
      scenarios,
      notes,
    })),
    scenarios: checked.runs.map(({ scenario, file, ranks, stage, search, random, ...found }) => ({
      name: scenario,
      file,
      ranks,
      stage,
      search,
      random,
      findings: found.findings.length + found.repeated,
    })),
    findings: checked.runs.flatMap((run) =>
      run.findings.map(({ finding, seed }) => ({
        kind: finding.kind,
        kernel: finding.kernel,
        message: finding.message,
        scenario: run.scenario,
        ranks: run.ranks,
        stage: run.stage,
        seed,
        parties: finding.parties.map(partyToJson),
      })),
    ),
  }
}

function partyToJson({ who, what, site }: Party): unknown {
  const at = site?.position
  const place = /^rank (\d+)(?:, program (\d+)(?:, (.+))?)?$/.exec(who)
  const number = (text: string | undefined): number | undefined => (text ? Number(text) : undefined)
  return {
    who,
    what,
    rank: number(place?.[1]),
    program: number(place?.[2]),
    role: place?.[3],
    file: at?.file,
    line: at?.line,
    column: at?.column,
    source: at && sourceLine(at.file, at.line)?.trim(),
  }
}
