/**
 * Implements `arke check` and returns its outcome as data. `arke check` runs every scenario of every file at every
 * world size and stage. First, a search runs all schedules with few preemptions. After the search of a scenario, random
 * schedules run. Kernels that no scenario launches are only recorded, verified and lowered.
 */
import { resolve } from 'node:path'
import type { KernelIR } from '../ir/node.ts'
import { KernelError } from '../ir/site.ts'
import { LOWERED, RECORDED } from '../ir/stages.ts'
import type { Kernel, Meta, Specialisation } from '../lang/kernel.ts'
import { breathe } from '../runs/breath.ts'
import { explore } from '../targets/check/explore.ts'
import { findingKey, type Cut, type Finding } from '../targets/check/findings.ts'
import { NotReproducible } from '../targets/check/scheduler.ts'
import { intercepted } from '../world/intercept.ts'
import type { OnPrint } from '../world/prints.ts'
import type { Scenario } from '../world/world.ts'
import { Chance, type Call } from '../targets/check/chance.ts'
import type { Shapes } from '../targets/cuda/facts.ts'
import { forms, type Given } from '../targets/forms.ts'
import { usualTarget, type StagedTarget } from '../targets/stages.ts'
import { notesOnKernel } from './notes.ts'
import { describeError, UsageError } from './errors.ts'
import type { Source } from './load.ts'
import { Stray, Strays, turn, unlessIdle } from './strays.ts'

/** The name of an IR stage of the target. */
export type Stage = string

export interface CheckOptions {
  /** If set, `arke check` checks only scenarios with this name and the kernels that they launch. */
  readonly scenario?: string
  /** If set, the given world sizes replace those of the scenarios. */
  readonly ranks?: number
  /** The number of random schedules; 0 for none. */
  readonly schedules: number
  readonly seed: number
  readonly preemptions: number
  /** The maximum number of schedules in the exhaustive search; 0 for no search. */
  readonly limit: number
  readonly stages: readonly Stage[]
  /** The target that defines the stages; by default `usualTarget`. */
  readonly target?: StagedTarget
  readonly severalDevices?: boolean
  readonly record?: boolean
  /**
   * The limits of the GPU for which kernels are lowered, which need not be present; by default the limits of an H200.
   */
  readonly sharedBytes?: number
  readonly registers?: number
  /** An abort signal that ends the check after the current schedule, with the findings so far. */
  readonly interrupt?: AbortSignal
}

/** The outcome of one scenario at one world size and one stage. */
export interface Run {
  readonly file: string
  readonly scenario: string
  readonly ranks: number
  readonly stage: Stage
  /**
   * The target, and the properties of a launch (facts) for which the kernels were specialised. The target is absent for
   * the stage `recorded`.
   */
  readonly facts?: string
  /** The target of the stage. The target is absent for the stage `recorded`. */
  readonly target?: StagedTarget
  /**
   * The command-line options that select the target, and the properties of a launch (facts) for which it specialises
   * kernels.
   */
  readonly factOptions?: readonly string[]
  readonly search?: Search
  readonly random?: { readonly seed: number; readonly schedules: number; readonly cuts: readonly Cut[] }
  /**
   * The findings that no earlier run of the scenario had. The number `repeated` counts the other findings, which an
   * earlier run of the scenario also had.
   */
  readonly findings: readonly FoundBy[]
  readonly repeated: number
  /** True if this run has no findings although the recorded kernels have some at the same world size. */
  readonly isOverruled?: true
  /**
   * Kernels that the target rejects, each with the reason for the rejection. Rejected kernels were checked at the stage
   * `lowered` instead.
   */
  readonly asLowered?: readonly string[]
  /** True if the run was interrupted before all schedules were complete. */
  readonly interrupted?: true
  /** The reason why the scenario could not be checked, with the author's line. */
  readonly problem?: string
  /** True if an earlier run of the scenario had the same problem. */
  readonly isKnownProblem?: boolean
}

export interface Search {
  readonly preemptions: number
  readonly limit: number
  /** The number of interleavings that were tried. */
  readonly schedules: number
  /** True if the search covered all interleavings within the bound. */
  readonly complete: boolean
  readonly cuts: readonly Cut[]
}

export interface FoundBy {
  readonly finding: Finding
  /**
   * The seed of the random schedule with the finding. The seed is absent for findings of the search, which needs no
   * seed.
   */
  readonly seed?: number
}

export interface CheckedKernel {
  readonly file: string
  readonly kernel: Kernel
  readonly scenarios: readonly string[]
  /** Notes for the author about the kernel in its lowered form and on a GPU. */
  readonly notes: readonly string[]
  /** The reason why the kernel cannot be recorded, with the author's line. */
  readonly problem?: string
}

export interface Checked {
  readonly scenarios: number
  readonly runs: readonly Run[]
  readonly kernels: readonly CheckedKernel[]
  /** True if the check was interrupted before all runs were complete. */
  readonly interrupted?: true
}

export interface CheckEvents {
  readonly onProgress?: (run: Pick<Run, 'scenario' | 'ranks' | 'stage'>, schedules: number) => void
  readonly onRun?: (run: Run) => void
  /**
   * A callback for each line that `t.print` prints at the stage `recorded`, in the first schedule of a scenario and
   * world size.
   */
  readonly onPrint?: OnPrint
}

export async function check(
  sources: readonly Source[],
  options: CheckOptions,
  events: CheckEvents = {},
): Promise<Checked> {
  for (const source of sources) expectSomething(source)
  const runs: Run[] = []
  const launched = new Map<Kernel, Launched>()
  const lastRun = new Map<Scenario, Run>()
  const chosen = choose(sources, options.scenario)
  const exported = new Set(chosen.flatMap(({ kernels }) => kernels))
  const strays = new Strays<Scenario>()
  const chance = new Chance()
  try {
    for (const { file, scenarios } of chosen)
      for (const scenario of scenarios) {
        const known = new Set<string>()
        /** The world sizes at which the recorded kernels have findings. */
        const hasFindings = new Set<number>()
        const watched = watch(file, scenario, launched, strays, chance)
        for (const ranks of options.ranks === undefined ? scenario.ranks : [options.ranks])
          for (const stage of options.stages) {
            if (options.interrupt?.aborted) break
            const what = { file, scenario: scenario.name, ranks, stage, ...factsAt(stage, options) }
            const checked = await attempt(() => checkOnce(what, watched, options, known, events))
            await turn()
            const problem = checked.error ?? strays.take(scenario)
            const isOverruled = hasFindings.has(ranks) && checked.value && countOf(checked.value) === 0
            const run: Run = {
              ...(checked.value ?? { ...what, findings: [], repeated: 0 }),
              ...(problem !== undefined && noteProblem(problemOf(problem, scenario, chance.seen), known)),
              ...(isOverruled && { isOverruled: true as const }),
            }
            if (stage === RECORDED && countOf(run) > 0) hasFindings.add(ranks)
            runs.push(run)
            lastRun.set(scenario, run)
            events.onRun?.(run)
          }
      }
    // Reports uncaught errors of a scenario that occurred after the result of the scenario was printed.
    for (const [scenario, stray] of await strays.rest()) {
      const run = scenario && lastRun.get(scenario)
      if (!run || run.problem !== undefined) continue
      const late = { ...run, problem: stray.message }
      runs[runs.indexOf(run)] = late
      events.onRun?.({ ...late, findings: [] })
    }
  } finally {
    chance.close()
    strays.close()
  }
  const interrupted = options.interrupt?.aborted
  return {
    scenarios: chosen.reduce((sum, source) => sum + source.scenarios.length, 0),
    runs,
    ...(interrupted && { interrupted }),
    kernels: [
      ...chosen.flatMap(({ file, kernels }) =>
        kernels.flatMap((kernel) => {
          const by = launched.get(kernel)
          if (!by && (interrupted || options.scenario !== undefined)) return []
          const scenarios = [...(by?.scenarios ?? [])]
          try {
            const notes = by?.notes ?? notesOf(kernel, { world: options.ranks ?? 2 })
            return { file, kernel, scenarios, notes }
          } catch (error) {
            return { file, kernel, scenarios, notes: [], problem: describeError(error) }
          }
        }),
      ),
      // Adds launched kernels that are defined in this file but not exported. Kernels that the file imports are not
      // added.
      ...[...launched].flatMap(([kernel, { file, scenarios, notes = [] }]) =>
        exported.has(kernel) || kernel.site.position?.file !== resolve(file)
          ? []
          : { file, kernel, scenarios: [...scenarios], notes },
      ),
    ],
  }
}

const countOf = ({ findings, repeated }: Run): number => findings.length + repeated

function expectSomething({ file, kernels, scenarios, operations }: Source): void {
  if (kernels.length > 0 || scenarios.length > 0) return
  throw new UsageError(
    `${file}: exports operations and no scenario; export what scenariosOf(${operations[0].name}, …) returns`,
  )
}

/** Removes all scenarios from the sources except those with the given name. */
function choose(sources: readonly Source[], name: string | undefined): readonly Source[] {
  if (name === undefined) return sources
  const chosen = sources.map((source) => ({
    ...source,
    scenarios: source.scenarios.filter((scenario) => scenario.name === name),
  }))
  if (chosen.some(({ scenarios }) => scenarios.length > 0)) return chosen
  const names = new Set(sources.flatMap(({ scenarios }) => scenarios.map((one) => JSON.stringify(one.name))))
  throw new UsageError(
    `--scenario ${JSON.stringify(name)}: there is no such scenario; there is ${[...names].join(', ') || 'none'}`,
  )
}

/** Calls `act` and returns either its value or its error. */
async function attempt<T>(act: () => Promise<T>): Promise<{ readonly value?: T; readonly error?: unknown }> {
  try {
    return { value: await act() }
  } catch (error) {
    return { error }
  }
}

function noteProblem(problem: string, known: Set<string>): Pick<Run, 'problem' | 'isKnownProblem'> {
  const isKnownProblem = known.has(problem)
  known.add(problem)
  return { problem, isKnownProblem }
}

/** Describes why a scenario cannot be checked, in one sentence that begins with the author's line. */
function problemOf(error: unknown, scenario: Scenario, seen: Call | undefined): string {
  if (error instanceof NotReproducible)
    return `${seen?.site ?? scenario.site}: ${error.message}${seen ? `; it calls ${seen.name} here` : ''}`
  const said = describeError(error)
  return /^\S+:\d+:\d+: /.test(said) || !scenario.site ? said : `${scenario.site}: ${said}`
}

/**
 * Lowers a recorded kernel up to the stage that turns pipelines into roles. The lowered kernel does not depend on
 * properties of a launch, such as the number of ranks.
 */
const lowered = (recorded: KernelIR): KernelIR => forms[usualTarget].ir(recorded, LOWERED, {})

/**
 * Kernels that the target rejects, by name, with the reason. Rejected kernels are checked at the stage `lowered`
 * instead.
 */
type Refused = Map<string, string>

/**
 * Returns a function that lowers the recorded kernels of a scenario to a stage, for the properties (facts) of each
 * launch.
 */
const formOf =
  (stage: Stage, options: CheckOptions, refused: Refused) =>
  (recorded: KernelIR, shapes: Shapes, hostSignals: boolean): KernelIR => {
    if (stage === RECORDED) return recorded
    try {
      return forms[options.target ?? usualTarget].ir(recorded, stage, {
        shapes,
        hostSignals,
        ...givenBy(options),
      })
    } catch (error) {
      if (!(error instanceof KernelError)) throw error
      refused.set(recorded.name, describeError(error))
      return lowered(recorded)
    }
  }

const givenBy = ({ severalDevices, record, sharedBytes, registers }: CheckOptions): Given => ({
  severalDevices,
  record,
  device: { sharedBytes, registers },
})

/** The properties of a launch (facts) for which the kernels of a run are specialised, as text. */
function factsAt(stage: Stage, options: CheckOptions): Pick<Run, 'facts' | 'factOptions' | 'target'> {
  if (stage === RECORDED) return {}
  const { target = usualTarget, severalDevices, record, sharedBytes, registers } = options
  const factOptions = [
    ...(target === usualTarget ? [] : [`--target ${target}`]),
    ...(severalDevices ? ['--several-devices'] : []),
    ...(record ? ['--record'] : []),
    ...(sharedBytes === undefined ? [] : [`--shared-bytes ${sharedBytes}`]),
    ...(registers === undefined ? [] : [`--registers ${registers}`]),
  ]
  return {
    target,
    facts: forms[target].summary(givenBy(options)),
    ...(factOptions.length > 0 && { factOptions }),
  }
}

async function checkOnce(
  what: Pick<Run, 'file' | 'scenario' | 'ranks' | 'stage' | 'facts' | 'factOptions' | 'target'>,
  scenario: Scenario,
  options: CheckOptions,
  known: Set<string>,
  events: CheckEvents,
): Promise<Run> {
  const { preemptions, limit, schedules, seed, interrupt } = options
  const { ranks } = what
  const refused: Refused = new Map()
  const stage = formOf(what.stage, options, refused)
  const shouldStop = (): boolean => interrupt?.aborted ?? false
  let done = 0
  const onProgress = (): void => events.onProgress?.(what, ++done)
  // The output of `t.print` is shown for the first schedule only, and only at the stage `recorded`.
  const onPrint: OnPrint = (line) => {
    if (what.stage === RECORDED && done === 0) events.onPrint?.(line)
  }
  const search =
    limit > 0
      ? await explore(scenario, { ranks, stage, preemptions, limit, onPrint, onProgress, shouldStop })
      : undefined
  const random =
    schedules > 0 && !search?.findings.length && !shouldStop()
      ? await explore(scenario, { ranks, stage, schedules, seed, onPrint, onProgress, shouldStop })
      : undefined
  const found = [
    ...(search?.findings ?? []).map((finding): FoundBy => ({ finding })),
    ...(random?.findings ?? []).map((finding, i): FoundBy => ({ finding, seed: random?.seeds?.[i] })),
  ]
  const findings = found.filter(({ finding }) => !known.has(findingKey(finding)))
  for (const { finding } of findings) known.add(findingKey(finding))
  return {
    ...what,
    search: search && {
      preemptions,
      limit,
      schedules: search.schedules,
      complete: search.complete,
      cuts: search.cuts,
    },
    random: random && { seed, schedules: random.schedules, cuts: random.cuts },
    findings,
    repeated: found.length - findings.length,
    ...(refused.size > 0 && { asLowered: [...refused].map(([name, why]) => `${name}: ${why}`) }),
    ...(shouldStop() && { interrupted: true }),
  }
}

interface Launched {
  /** The file of the first scenario that launched the kernel. */
  readonly file: string
  readonly scenarios: Set<string>
  /** The notes on the kernel, which are absent until a launch of the kernel has succeeded. */
  notes?: readonly string[]
}

function notesOf(kernel: Kernel, specialisation: Specialisation): readonly string[] {
  const { notes = [] } = lowered(kernel.record(specialisation))
  return [...notes, ...notesOnKernel(kernel, specialisation.world)]
}

/**
 * Wraps a scenario in a function that observes its launches. The wrapper remembers which kernels were launched, and
 * yields to the event loop now and then, so that the process can handle signals. The wrapper throws an error if a
 * promise of an earlier run was rejected.
 */
function watch(
  file: string,
  scenario: Scenario,
  launched: Map<Kernel, Launched>,
  strays: Strays<Scenario>,
  chance: Chance,
): Scenario {
  return {
    ...scenario,
    async run(world) {
      await breathe()
      const stray = strays.take(scenario)
      if (stray) throw stray
      const seen = intercepted(world, (launches, go) => {
        // A kernel also counts as launched by the scenario if the launch fails.
        const entries = launches.map(({ kernel, options }) => {
          const entry: Launched = launched.get(kernel) ?? { file, scenarios: new Set() }
          launched.set(kernel, entry)
          entry.scenarios.add(scenario.name)
          return { kernel, options, entry }
        })
        go()
        for (const { kernel, options, entry } of entries)
          entry.notes ??= notesOf(kernel, { world: world.ranks, meta: options.meta as Meta | undefined })
      })
      const value = await chance.watch(() =>
        strays.within(scenario, () => unlessIdle(async () => scenario.run(seen))),
      )
      if (chance.seen?.isChance)
        throw new Stray(
          `${chance.seen.site}: the scenario calls ${chance.seen.name}, so its runs differ and a finding could not be shown again: use world.rand or randn, which take a seed`,
        )
      return value
    },
  }
}
