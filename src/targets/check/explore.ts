/** Running a scenario under many schedules: a number of random ones, or all of a bounded search. */
import { KernelError } from '../../ir/site.ts'
import { WorldError, type Scenario } from '../../world/world.ts'
import { findingKey, StopRun, type Finding } from './findings.ts'
import type { Scheduler } from './machine.ts'
import { ExhaustiveSearch, RandomScheduler, Seen } from './scheduler.ts'
import { CheckWorld } from './world.ts'

export interface ExploreOptions {
  readonly ranks: number
  readonly stage?: 'recorded' | 'lowered'
  readonly residency?: number
  /** Random schedules. */
  readonly schedules?: number
  readonly seed?: number
  /** Walk all schedules with at most this many preemptions, up to `limit` of them. */
  readonly preemptions?: number
  readonly limit?: number
  /** Go on after the first run with a finding. */
  readonly keepGoing?: boolean
  readonly onProgress?: (done: number) => void
}

export interface Exploration {
  readonly findings: readonly Finding[]
  /** Runs that took place; those cut short because their continuation had been seen count too. */
  readonly schedules: number
  /** Of a search: whether it saw everything within its bound. */
  readonly complete: boolean
  /** Of a random run that found something: its seed, to see it again. */
  readonly seed?: number
  /** What the scenario returned, from each run that came to its end, and whether anything was found on the way. */
  readonly results: readonly { readonly value: unknown; readonly clean: boolean }[]
}

export async function explore(
  scenario: Pick<Scenario, 'name' | 'run' | 'residency'>,
  options: ExploreOptions,
): Promise<Exploration> {
  return options.preemptions === undefined
    ? exploreRandom(scenario, options)
    : exploreAll(scenario, options, options.preemptions)
}

interface Run {
  readonly findings: readonly Finding[]
  readonly ended?: { readonly value: unknown; readonly clean: boolean }
}

async function runOnce(
  scenario: Pick<Scenario, 'name' | 'run' | 'residency'>,
  options: ExploreOptions,
  scheduler: Scheduler,
): Promise<Run> {
  const residency = options.residency ?? scenario.residency
  const world = new CheckWorld({ ranks: options.ranks, residency, stage: options.stage, scheduler })
  try {
    const value = await scenario.run(world)
    await world.close()
    return { findings: world.findings, ended: { value, clean: world.findings.length === 0 } }
  } catch (error) {
    if (error instanceof Seen) return { findings: world.findings }
    if (error instanceof StopRun) return { findings: [...world.findings, error.finding] }
    // What comes after a race is its consequence.
    if (world.findings.length > 0) return { findings: world.findings }
    if (error instanceof Error && error.name === 'Error')
      return { findings: [wrongResult(scenario.name, error)] }
    throw error
  }
}

/** Errors of the scenario itself, as opposed to results that are not what it expects. */
function isMisuse(error: unknown): boolean {
  return [KernelError, WorldError, TypeError, ReferenceError, SyntaxError].some(
    (misuse) => error instanceof misuse,
  )
}

function wrongResult(name: string, error: unknown): Finding {
  const message = error instanceof Error ? error.message : String(error)
  return { kind: 'wrong-result', kernel: name, message, parties: [] }
}

async function exploreRandom(
  scenario: Pick<Scenario, 'name' | 'run' | 'residency'>,
  options: ExploreOptions,
): Promise<Exploration> {
  const schedules = options.schedules ?? 1000
  const seed = options.seed ?? 1
  const found = new Map<string, Finding>()
  const results: { value: unknown; clean: boolean }[] = []
  for (let i = 0; i < schedules; i++) {
    const run = await runOnce(scenario, options, new RandomScheduler(seed + i))
    for (const finding of run.findings)
      if (!found.has(findingKey(finding))) found.set(findingKey(finding), finding)
    if (run.ended) results.push(run.ended)
    if (run.findings.length > 0 && !options.keepGoing)
      return { findings: [...found.values()], schedules: i + 1, complete: false, seed: seed + i, results }
    options.onProgress?.(i + 1)
  }
  return { findings: [...found.values()], schedules, complete: false, results }
}

async function exploreAll(
  scenario: Pick<Scenario, 'name' | 'run' | 'residency'>,
  options: ExploreOptions,
  preemptions: number,
): Promise<Exploration> {
  const limit = options.limit ?? 50_000
  const search = new ExhaustiveSearch(preemptions)
  const found = new Map<string, Finding>()
  const results: { value: unknown; clean: boolean }[] = []
  for (let schedules = 1; ; schedules++) {
    search.begin()
    const run = await runOnce(scenario, options, search)
    for (const finding of run.findings)
      if (!found.has(findingKey(finding))) found.set(findingKey(finding), finding)
    if (run.ended) results.push(run.ended)
    options.onProgress?.(schedules)
    const stop = found.size > 0 && !options.keepGoing
    const more = !stop && search.advance()
    if (!more) return { findings: [...found.values()], schedules, complete: !stop, results }
    if (schedules >= limit) return { findings: [...found.values()], schedules, complete: false, results }
  }
}
