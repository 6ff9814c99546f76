/** Formats the outcome of a check as JSON, and as text in which findings quote their source lines. */
import { readFileSync } from 'node:fs'
import type { Site } from '../ir/site.ts'
import { plain, type Style } from '../report/style.ts'
import { lastStage, type StagedTarget } from '../targets/stages.ts'
import type { Cut, Party } from '../targets/check/findings.ts'
import type { Checked, CheckedKernel, FoundBy, Run, Search } from './check.ts'
import { arke, quote } from './invocation.ts'
import { checkDefaults } from './options.ts'

export const plural = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`

/** Formats a stage with its facts, for example "order (cuda, H200, one device)". */
export const stageOf = ({ stage, facts }: Pick<Run, 'stage' | 'facts'>): string =>
  facts === undefined ? stage : `${stage} (${facts})`

/** The name of the hardware that runs the code of each target. */
const runner: Readonly<Record<StagedTarget, string>> = { cuda: 'a GPU', native: 'a CPU', wasm: 'a CPU' }

/** Says which form of the kernels a run checks: for the last IR stage, the form that a device would run. */
function exploredIn(run: Run): string {
  const { target, stage, facts } = run
  if (target === undefined || stage !== lastStage(target)) return stageOf(run)
  return `as ${runner[target]} would run it (${stage}, the last IR stage for ${facts})`
}

/** Formats the outcome of a run as one line, for example "2 ranks, recorded: …: ok". */
export function runLine(run: Run, style: Style = plain): string {
  const { search, random, findings, repeated, problem } = run
  const where = `${plural(run.ranks, 'rank')}, ${exploredIn(run)}`
  if (problem !== undefined) return `${where}: not checked: ${run.isKnownProblem ? 'as above' : problem}`
  // If the search has a finding, no random schedules run after the search.
  const parts = [
    ...(search ? [searchPart(search, !random && findings.length + repeated > 0)] : []),
    ...(random ? [randomPart(random)] : []),
  ]
  const found = [
    ...(findings.length > 0 ? [plural(findings.length, 'finding')] : []),
    ...(repeated > 0 ? [`${plural(repeated, 'finding')} seen above`] : []),
  ]
  const verdict =
    found.length > 0
      ? style.bad(found.join(', '))
      : run.interrupted
        ? style.warning('ok so far, interrupted')
        : isIncomplete(run)
          ? style.warning('ok, but incomplete')
          : style.good('ok')
  const refused = (run.asLowered ?? []).map(
    (why) => `\n    checked as lowered, because a GPU refuses it: ${why}`,
  )
  const overruled = run.isOverruled ? '; but the check fails, because the recorded kernel has findings' : ''
  return [where, parts.join('; '), verdict].join(': ') + overruled + refused.join('')
}

/** True if the search omitted schedules within its bounds for a reason other than a finding. */
const isIncomplete = ({ search, random, interrupted }: Run): boolean =>
  interrupted === true || (search?.cuts.length ?? 0) + (random?.cuts.length ?? 0) > 0

/**
 * Describes for a reader how many interleavings a search has covered. Equivalent interleavings are tried only once, so
 * a complete search may try a single one.
 */
function searchPart({ complete, cuts, schedules, preemptions }: Search, isFound: boolean): string {
  const tried = plural(schedules, 'distinct interleaving')
  if (complete) return `exhaustive up to ${plural(preemptions, 'preemption')} (${tried})`
  if (isFound) return `search stopped at a finding, after ${tried}`
  return `incomplete search (${tried}; ${cuts.map((cut) => cutText[cut]).join('; ')})`
}

function randomPart({ schedules, seed, cuts }: NonNullable<Run['random']>): string {
  const why = cuts.map((cut) => `; incomplete: ${cutText[cut]}`).join('')
  return `${plural(schedules, 'random schedule')} (seeds from ${seed}${why})`
}

const cutText: Readonly<Record<Cut, string>> = {
  limit: 'stopped at --limit',
  fairness: 'a loop without a bound was interrupted, so that other programs could run',
  steps: 'runs were ended after 200,000 scheduling points',
  lanes: 'the lanes of an atomic were executed in one order only',
  interrupted: 'interrupted',
}

/** Formats a finding: its message, both source positions with their lines, and the command that reproduces it. */
export function findingBlock({ finding, seed }: FoundBy, run: Run, style: Style = plain): string {
  const lines = [`${style.bad(finding.kind)} in ${finding.kernel}: ${finding.message}`]
  for (const { who, what, site } of finding.parties) {
    lines.push(`  ${site ?? '(host)'}  ${who} ${what}`)
    const source = site && quoted(site)
    if (source) lines.push(...source.map((line) => style.faint(`    ${line}`)))
  }
  const origin = seed === undefined ? 'found by the search' : `found with seed ${seed}`
  lines.push(`  scenario "${run.scenario}", ${plural(run.ranks, 'rank')}, ${stageOf(run)}; ${origin}`)
  lines.push(style.faint(`  again: ${again(run, seed)}`))
  return lines.join('\n')
}

/** The command that reproduces the finding, restricted to its scenario. */
function again(
  { file, scenario, ranks, stage, factOptions = [], search }: Run,
  seed: number | undefined,
): string {
  const how = [
    `${arke} check ${quote(file)} --scenario ${quote(scenario)} --ranks ${ranks} --stage ${stage}`,
    ...factOptions,
  ]
  if (seed !== undefined) how.push(`--limit 0 --schedules 1 --seed ${seed}`)
  else if (search) {
    how.push(`--preemptions ${search.preemptions} --schedules 0`)
    if (search.limit !== checkDefaults.limit) how.push(`--limit ${search.limit}`)
  }
  return how.join(' ')
}

/**
 * True if no scenario of the file launches the kernel. If a scenario failed, the result is false, because the scenario
 * might launch the kernel after the failed line.
 */
export const isUnlaunched = ({ file, scenarios }: CheckedKernel, { runs }: Checked): boolean =>
  scenarios.length === 0 &&
  !runs.some((run) => run.file === file && (run.problem !== undefined || run.findings.length > 0))

export function unlaunchedNote({ kernel, file }: CheckedKernel): string {
  return (
    `note: no scenario in ${file} launches ${kernel.name}: it was recorded, verified and lowered, but not run. ` +
    `To run it, export scenario('…', { ranks: 2 }, async (world) => { world.launch(${kernel.name}, …) })`
  )
}

/** False if there was no scenario to run and no kernel could be recorded: then the command prints only the error. */
export const isAnythingChecked = ({ runs, kernels, interrupted }: Checked): boolean =>
  interrupted === true || runs.length > 0 || kernels.some(({ problem }) => problem === undefined)

export function closingLine(checked: Checked, style: Style = plain): string {
  const findings = checked.runs.reduce((sum, run) => sum + run.findings.length, 0)
  const part = (which: (run: Run) => boolean, what: string): string => {
    const count = checked.runs.filter(which).length
    return count > 0 ? `, ${count} of ${plural(checked.runs.length, 'run')} ${what}` : ''
  }
  const rest = part(isIncomplete, 'incomplete') + part((run) => run.problem !== undefined, 'not checked')
  const end = checked.interrupted ? '; interrupted' : ''
  const outcome = findings > 0 ? style.bad : rest === '' ? style.good : style.warning
  return `${plural(checked.scenarios, 'scenario')}, ${outcome(plural(findings, 'finding'))}${rest}${end}`
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

/** The source line with its number, and a mark below the column of the finding. */
export function quoted(site: Site): string[] | undefined {
  const at = site.position
  const text = at && sourceLine(at.file, at.line)
  if (!at || !text) return undefined
  const number = String(at.line)
  const blank = text.slice(0, at.column - 1).replace(/[^\t]/g, ' ')
  return [`${number} | ${text}`, `${' '.repeat(number.length)} | ${blank}^`]
}

/**
 * The outcome of the check as plain data for `--json`. Programs that were written for older versions of Arke read the
 * field `version` instead of `arke`.
 */
export function toJson(checked: Checked, version: string): unknown {
  return {
    arke: version,
    version,
    ...(checked.interrupted && { interrupted: true }),
    kernels: checked.kernels.map(({ file, kernel, scenarios, notes, problem }) => ({
      name: kernel.name,
      file,
      line: kernel.site.position?.line,
      column: kernel.site.position?.column,
      scenarios,
      notes,
      problem,
    })),
    scenarios: checked.runs.map(
      ({ scenario, file, ranks, stage, search, random, asLowered, interrupted, problem, ...found }) => ({
        name: scenario,
        file,
        ranks,
        stage,
        search,
        random,
        asLowered,
        interrupted,
        problem,
        findings: found.findings.length + found.repeated,
      }),
    ),
    findings: checked.runs.flatMap((run) =>
      run.findings.map(({ finding, seed }) => ({
        kind: finding.kind,
        kernel: finding.kernel,
        message: finding.message,
        scenario: run.scenario,
        ranks: run.ranks,
        stage: run.stage,
        ...(run.facts !== undefined && { facts: run.facts }),
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
