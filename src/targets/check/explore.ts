/**
 * Runs a scenario under many schedules: either a number of random schedules, or an exhaustive search up to a bound of
 * preemptions.
 */
import { Site } from '../../ir/site.ts'
import { mostRanks, WorldError, type Scenario } from '../../world/world.ts'
import { reportPrint, type OnPrint } from '../../world/prints.ts'
import { CutRun, findingKey, RunOver, StopRun, type Cut, type Finding } from './findings.ts'
import type { Scheduler } from './machine.ts'
import { ExhaustiveSearch, RandomScheduler } from './scheduler.ts'
import type { Stage } from './stage.ts'
import { CheckWorld } from './world.ts'

/** The facts about a scenario that the exploration needs. */
type Explored = Pick<Scenario, 'name' | 'run' | 'residency' | 'site'>

export interface ExploreOptions {
  readonly ranks: number
  readonly stage?: Stage
  readonly residency?: number
  /** The number of random schedules. */
  readonly schedules?: number
  readonly seed?: number
  /** An exhaustive search explores all schedules with at most this many preemptions, up to `limit` schedules. */
  readonly preemptions?: number
  readonly limit?: number
  /**
   * True if the search skips interleavings that are equivalent to others. Only tests of the reduction itself disable
   * the skipping of equivalent interleavings.
   */
  readonly reduce?: boolean
  /** True to continue after the first run with a finding. */
  readonly keepGoing?: boolean
  /** The number of scheduling points after which a run is cut. */
  readonly stepLimit?: number
  /**
   * A callback for each line of `t.print` in the first run. Without a callback for printed lines, the lines go to
   * stderr if the checker runs the kernels as recorded, and are ignored at later stages.
   */
  readonly onPrint?: OnPrint
  readonly onProgress?: (done: number) => void
  /**
   * A callback that is called after each run. If the callback returns true, the exploration ends with the findings so
   * far.
   */
  readonly shouldStop?: () => boolean
}

export interface Exploration {
  readonly findings: readonly Finding[]
  /** The number of runs, including runs that were cut short because their continuation had already been explored. */
  readonly schedules: number
  /** True if a search explored everything within its bound. */
  readonly complete: boolean
  /**
   * The reasons why the exploration did not cover everything within its bound. If a search stopped at a finding, the
   * list of reasons for incompleteness is empty, although the search is not complete.
   */
  readonly cuts: readonly Cut[]
  /** For each finding: the seed of the random run that showed the finding and can reproduce it. */
  readonly seeds?: readonly number[]
  /** The seed that reproduces the first finding. */
  readonly seed?: number
  /** For each run that finished: the scenario's return value, and whether the run was free of findings. */
  readonly results: readonly { readonly value: unknown; readonly clean: boolean }[]
}

export async function explore(scenario: Explored, options: ExploreOptions): Promise<Exploration> {
  const { ranks } = options
  if (!Number.isInteger(ranks) || ranks < 1 || ranks > mostRanks)
    throw new WorldError(`the number of ranks must be an integer from 1 to ${mostRanks}, not ${ranks}`)
  return options.preemptions === undefined
    ? exploreRandom(scenario, options)
    : exploreAll(scenario, options, options.preemptions)
}

interface Run {
  readonly findings: readonly Finding[]
  /** True if the run ended without a verdict, for example at a limit. */
  readonly isCut?: boolean
  readonly cuts: ReadonlySet<Cut>
  readonly ended?: { readonly value: unknown; readonly clean: boolean }
}

async function runOnce(
  scenario: Explored,
  options: ExploreOptions,
  scheduler: Scheduler,
  isFirst: boolean,
): Promise<Run> {
  const residency = options.residency ?? scenario.residency
  const { ranks, stage = 'recorded', stepLimit } = options
  const world = new CheckWorld({
    ranks,
    residency,
    stage,
    scheduler,
    stepLimit,
    watchPromises: isFirst,
    onPrint: isFirst ? (options.onPrint ?? (stage === 'recorded' ? reportPrint : undefined)) : undefined,
  })
  try {
    const value = await scenario.run(world)
    await world.close()
    return { ...seen(world), ended: { value, clean: world.findings.length === 0 } }
  } catch (error) {
    // The error that ended the run is reported, even if the scenario caught it or threw another error.
    const why = world.stopped ?? error
    if (why instanceof StopRun) return { ...seen(world), findings: [...world.findings, why.finding] }
    if (why instanceof RunOver) return { ...seen(world), isCut: why instanceof CutRun }
    // Errors after a race are consequences of the race.
    if (world.findings.length > 0) return seen(world)
    if (isMisuse(error)) throw error
    return { ...seen(world), findings: [wrongResult(scenario, error)] }
  }
}

const seen = ({ findings, interpreter }: CheckWorld): Pick<Run, 'findings' | 'cuts'> => ({
  findings,
  cuts: interpreter.cuts,
})

const misuses = new Set([
  'KernelError',
  'WorldError',
  'NotReproducible',
  'Stray',
  'TypeError',
  'ReferenceError',
  'SyntaxError',
  'RangeError',
])

/** True for an error in the scenario itself, as opposed to a result that differs from the expected result. */
function isMisuse(error: unknown): boolean {
  // Errors are compared by the name of their class, because a scenario may have been loaded with another copy of this
  // package.
  return error instanceof Error && misuses.has(error.name)
}

/**
 * If an error was not thrown in the author's code, as in the scenarios of an operation, the location of the scenario is
 * reported.
 */
function wrongResult({ name, site }: Pick<Scenario, 'name' | 'site'>, error: unknown): Finding {
  if (!(error instanceof Error))
    return {
      kind: 'wrong-result',
      kernel: name,
      message: `the scenario throws ${inWords(error)}`,
      parties: [],
    }
  const thrown = Site.of(error)
  const at = thrown.position ? thrown : (site ?? thrown)
  const party = { who: 'the scenario', what: 'expects another result', site: at }
  return { kind: 'wrong-result', kernel: name, message: error.message, parties: [party] }
}

function inWords(thrown: unknown): string {
  try {
    return String(thrown)
  } catch {
    return 'an object that cannot be converted to text'
  }
}

/**
 * The number of further schedules to try after a wrong result. The report of a wrong result names no kernel line, but
 * another schedule may show a finding that names a kernel line.
 */
const lookOn = 100

/**
 * The number of runs cut at their limit of scheduling points after which the exploration ends, because further runs
 * would be cut as well.
 */
const enoughCuts = 10

/** Collects the findings of all runs, without duplicates, and the values that the runs returned. */
class Found {
  readonly results: { value: unknown; clean: boolean }[] = []
  readonly cuts = new Set<Cut>()
  readonly #byKey = new Map<string, { readonly finding: Finding; readonly run: number }>()
  #first: number | undefined
  #cutRuns = 0

  add({ findings, isCut, cuts, ended }: Run, run: number): void {
    for (const cut of cuts) this.cuts.add(cut)
    for (const finding of findings) {
      this.#first ??= run
      const key = findingKey(finding)
      if (!this.#byKey.has(key)) this.#byKey.set(key, { finding, run })
    }
    if (ended) this.results.push(ended)
    if (!isCut) return
    this.cuts.add('steps')
    this.#cutRuns++
  }

  /** True if further runs are not expected to show other mistakes. */
  isEnough(run: number): boolean {
    if (this.#first === undefined) return false
    return this.#ordered().some(({ finding }) => isLocated(finding)) || run - this.#first >= lookOn
  }

  get isHopeless(): boolean {
    return this.#cutRuns >= enoughCuts
  }

  /** The findings, beginning with those that name a line of a kernel. */
  #ordered(): { finding: Finding; run: number }[] {
    return [...this.#byKey.values()].sort(
      (a, b) => Number(isLocated(b.finding)) - Number(isLocated(a.finding)),
    )
  }

  get findings(): Finding[] {
    return this.#ordered().map(({ finding }) => finding)
  }

  /** For each finding: the number of the run that showed it. */
  get runs(): number[] {
    return this.#ordered().map(({ run }) => run)
  }
}

const isLocated = (finding: Finding): boolean => finding.kind !== 'wrong-result'

async function exploreRandom(scenario: Explored, options: ExploreOptions): Promise<Exploration> {
  const schedules = options.schedules ?? 1000
  const first = options.seed ?? 1
  const found = new Found()
  let done = 0
  while (done < schedules && !found.isHopeless && (options.keepGoing || !found.isEnough(done))) {
    found.add(await runOnce(scenario, options, new RandomScheduler(first + done), done === 0), done)
    done++
    options.onProgress?.(done)
    if (done === schedules || !options.shouldStop?.()) continue
    found.cuts.add('interrupted')
    break
  }
  const { findings, results } = found
  const seeds = found.runs.map((run) => first + run)
  // Random runs do not vary everything anyway, so the exploration does not report that the order of lanes was not
  // varied.
  const cuts = [...found.cuts].filter((cut) => cut !== 'lanes')
  return { findings, schedules: done, complete: false, cuts, seeds, seed: seeds[0], results }
}

async function exploreAll(
  scenario: Explored,
  options: ExploreOptions,
  preemptions: number,
): Promise<Exploration> {
  const limit = options.limit ?? 50_000
  const search = new ExhaustiveSearch(preemptions, options.reduce)
  const found = new Found()
  for (let schedules = 1; ; schedules++) {
    search.begin()
    found.add(await runOnce(scenario, options, search, schedules === 1), schedules)
    options.onProgress?.(schedules)
    const stopsAtFinding = !options.keepGoing && found.isEnough(schedules)
    const isExhausted = !stopsAtFinding && !search.advance()
    const isOver = stopsAtFinding || isExhausted || found.isHopeless
    const isInterrupted = options.shouldStop?.() ?? false
    if (!isOver && !isInterrupted && schedules < limit) continue
    if (!isOver) found.cuts.add(isInterrupted ? 'interrupted' : 'limit')
    if (search.isUnfair) found.cuts.add('fairness')
    const { findings, results } = found
    const cuts = [...found.cuts]
    return { findings, schedules, complete: isExhausted && cuts.length === 0, cuts, results }
  }
}
