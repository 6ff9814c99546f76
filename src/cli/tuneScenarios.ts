/**
 * `arke tune FILE` for a file that exports scenarios and no operation: finds the fastest values of the parameters that
 * each scenario lists in `tune`, stores them for later runs, and shows the ledgers before and after tuning.
 */
import { resolve } from 'node:path'
import { digits, plural } from '../report/format.ts'
import { headed, plain, type Style } from '../report/style.ts'
import { columns } from '../report/format.ts'
import { reportPage } from '../report/runs/recordedPage.ts'
import { ledgerLegend, ledgersTable } from '../report/runs/recordedTable.ts'
import { reach } from '../report/runs/terminal.ts'
import { time } from '../report/units.ts'
import { ledgerOf } from '../runs/ledger.ts'
import { recordedRun, type RecordedRun } from '../runs/recorded.ts'
import type { Quantity, RunLedger } from '../runs/results.ts'
import type { Timeline } from '../timeline/timeline.ts'
import { remember } from '../tune/cache.ts'
import {
  askedFor,
  combinationsOf,
  mostCombinations,
  tuneScenario,
  type TunedScenario,
} from '../tune/scenario.ts'
import { namedNumbers } from '../tune/tables.ts'
import type { Dropped } from '../tune/tune.ts'
import { openWorld } from '../world/open.ts'
import type { Chosen, Scenario, World } from '../world/world.ts'
import { expectRecording, fastestTarget, heapFor, machineOf, now, stallsOn } from './bench.ts'
import { UsageError } from './errors.ts'
import type { Source } from './load.ts'
import { checkOutputs, writeOutput } from './output.ts'
import type { Progress } from './progress.ts'
import { closed, plan, problemOf, runOnce } from './scenarioRuns.ts'
import { Strays } from './strays.ts'
import { pageFacts, speedupHeadline, speedupText, storedLine } from './tunePage.ts'

export interface TuneScenariosCommand {
  /** If set, only the scenario with this name is tuned. */
  readonly scenario?: string
  readonly target?: string
  /** If set, this world size replaces the world sizes of the scenarios. */
  readonly ranks?: number
  /** The time budget for each scenario and world size, in seconds. */
  readonly seconds: number
  readonly seed: number
  readonly json?: boolean
  readonly out?: string
  readonly report?: string
}

/** The outcome of one scenario at one world size. Times are in nanoseconds. */
export interface ScenarioTuned {
  readonly file: string
  readonly scenario: string
  readonly ranks: number
  readonly fallback: { readonly chosen: Chosen; readonly time: Quantity; readonly ledger: RunLedger }
  readonly best: { readonly chosen: Chosen; readonly time: Quantity; readonly ledger: RunLedger }
  readonly speedup: Quantity
  readonly tried: number
  readonly dropped: readonly Dropped[]
  readonly interrupted?: true
}

/** The document that `--json` prints. */
export interface TuneScenariosResult {
  readonly arke: string
  readonly target: string
  readonly tuned: readonly ScenarioTuned[]
  /** The path of the file with the tuned parameters, or null if nothing was stored. */
  readonly kept: string | null
  /** True if a signal ended tuning before all scenarios were complete. */
  readonly interrupted?: true
}

/** The scenarios to tune. Throws an error if no scenario lists parameters to tune. */
export function tunable(source: Source, command: Pick<TuneScenariosCommand, 'scenario' | 'ranks'>) {
  const planned = plan(source, command)
  const wanted = planned.filter(({ scenario }) => scenario.tune !== undefined)
  if (wanted.length === 0) {
    const metas = source.kernels.flatMap(({ name, meta }) => {
      const names = Object.keys(meta).filter((one) => typeof meta[one] === 'number')
      return names.length > 0 ? [`${names.join(', ')} of ${name}`] : []
    })
    const known =
      metas.length > 0 ? `; the kernels of the file have the meta-parameters ${metas.join('; ')}` : ''
    const which =
      command.scenario === undefined
        ? 'none of its scenarios has'
        : `the scenario "${command.scenario}" has not`
    throw new UsageError(
      `${source.file}: ${which} anything to tune. List numbers in the scenario, and launch kernels with the chosen numbers: ` +
        `scenario(name, { tune: { BLOCK: [64, 128] } }, async (world, { BLOCK }) => … meta: { BLOCK } …)${known}`,
    )
  }
  for (const { scenario } of wanted) {
    const count = combinationsOf(scenario.tune!).length
    if (count > mostCombinations)
      throw new UsageError(
        `${source.file}: the scenario "${scenario.name}" has ${count} combinations of numbers, of which at most ${mostCombinations} are tried; shorten the lists of numbers`,
      )
  }
  return wanted
}

/**
 * After `interrupt`, the function prints the results so far and returns, or throws an error if there are no results.
 */
export async function tuneScenarios(
  source: Source,
  command: TuneScenariosCommand,
  version: string,
  print: (text: string) => void,
  progress: Progress,
  interrupt?: AbortSignal,
  style: Style = plain,
): Promise<TuneScenariosResult> {
  const { seconds, seed, json, report } = command
  const planned = tunable(source, command)
  checkOutputs({ out: command.out, report }, [source.file])
  const target = command.target ?? (await fastestTarget())
  expectRecording(target, 'it does not record')
  const open = (record: boolean, ranks: number, workers?: number): Promise<World> =>
    openWorld({
      ...{ target, ranks, record, workers, heap: heapFor(target, ranks, 1), onStall: stallsOn(progress) },
      // The output of `t.print` is dropped, because every combination of parameters would print the same lines.
      onPrint: () => {},
    })
  const say = (line: string): void => {
    if (!json) print(line)
  }
  const { machine } = await machineOf(await open(false, planned[0].ranks))
  const found: { readonly title: string; readonly tuned: TunedScenario }[] = []
  const results: ScenarioTuned[] = []
  const strays = new Strays<Scenario>()
  let kept: string | null = null
  try {
    for (const { scenario, ranks } of planned) {
      const title = `${scenario.name}, ${plural(ranks, 'rank')}`
      const runner = new Runner(scenario, () => open(true, ranks, scenario.residency), {
        strays,
        bandwidth: machine.bandwidth / ranks,
      })
      let tuned: TunedScenario
      try {
        tuned = await tuneScenario(scenario.tune!, {
          run: (chosen) => runner.run(chosen),
          ...{ seconds, now, seed, interrupt },
          onProgress: (what, done) =>
            progress.show(() => `${title} on ${target}: ${what}, ${Math.round(100 * done)} %`),
        })
        if (!tuned.interrupted) {
          const asked = askedFor(resolve(source.file), scenario, runner.world!.machine)
          kept = remember([{ asked, tiles: tuned.best.chosen }])
        }
      } catch (error) {
        if (interrupt?.aborted && found.length > 0) break
        if (interrupt?.aborted) throw error
        throw new UsageError(problemOf(error, scenario), { cause: error })
      } finally {
        await runner.close(interrupt)
      }
      progress.clear()
      found.push({ title, tuned })
      results.push(resultOf(source.file, scenario, ranks, tuned))
      say(style.heading(`${source.file}: ${title} on ${target}`))
      for (const line of linesOf(tuned, style)) say(line === '' ? '' : `  ${line}`)
      say('')
      if (tuned.interrupted) break
    }
  } finally {
    strays.close()
    progress.clear()
  }
  const interrupted = interrupt?.aborted ?? false
  const whole: TuneScenariosResult = { arke: version, target, tuned: results, kept }
  const result: TuneScenariosResult = interrupted ? { ...whole, interrupted: true } : whole
  if (json) print(JSON.stringify(result, undefined, 2))
  else {
    for (const line of ledgerLegend) print(line)
    const stored = found.flatMap(({ tuned }) => (tuned.interrupted ? [] : [isDefault(tuned)]))
    if (kept !== null) print(`\n${storedLine(kept, stored)}; arke run and arke bench use the stored numbers`)
  }
  if (report !== undefined && !interrupted) {
    await writeOutput(report, pageOf(source.file, found, pageFacts(target, machine)), interrupt)
    say(`the ledgers before and after: ${report}`)
  }
  return result
}

/**
 * Runs a scenario with different parameters on one world that records events. A world in which a run failed is
 * replaced.
 */
class Runner {
  world: World | undefined
  readonly #scenario: Scenario
  readonly #open: () => Promise<World>
  readonly #options: { readonly strays: Strays<Scenario>; readonly bandwidth: number }
  #before: Timeline | undefined

  constructor(
    scenario: Scenario,
    open: () => Promise<World>,
    options: { readonly strays: Strays<Scenario>; readonly bandwidth: number },
  ) {
    this.#scenario = scenario
    this.#open = open
    this.#options = options
  }

  async run(chosen: Chosen): Promise<RecordedRun> {
    const { strays, bandwidth } = this.#options
    this.world ??= await this.#open()
    try {
      await runOnce(this.world, this.#scenario, strays, chosen)
      const timeline = this.world.timeline()
      const run = recordedRun(timeline, { bandwidth, after: this.#before })
      this.#before = timeline
      return run
    } catch (error) {
      await this.close(undefined)
      throw error
    }
  }

  async close(interrupt: AbortSignal | undefined): Promise<void> {
    const { world } = this
    this.world = this.#before = undefined
    if (world) await closed(world, interrupt)
  }
}

const resultOf = (
  file: string,
  { name }: Scenario,
  ranks: number,
  { fallback, best, ...others }: TunedScenario,
): ScenarioTuned => {
  const of = ({ chosen, time: taken, run }: TunedScenario['best']): ScenarioTuned['best'] => ({
    ...{ chosen, time: taken, ledger: ledgerOf(run) },
  })
  return { file, scenario: name, ranks, fallback: of(fallback), best: of(best), ...others }
}

const isDefault = ({ fallback, best }: TunedScenario): boolean => fallback.chosen === best.chosen

function linesOf(tuned: TunedScenario, style: Style): string[] {
  const { fallback, best, speedup, tried, dropped } = tuned
  const chosen = isDefault(tuned)
    ? ['the default', '', '–']
    : [namedNumbers(best.chosen), time(best.time.median), `${digits(speedup.median)} ${reach(speedup)}`]
  const rows = [
    ['default', '', 'best', '', 'faster'],
    [namedNumbers(fallback.chosen), time(fallback.time.median), ...chosen],
  ]
  const pictures = [
    ['default', fallback.run] as const,
    ...(isDefault(tuned) ? [] : [['best', best.run] as const]),
  ]
  return [
    `${plural(tried, 'combination')}${tuned.interrupted ? '; interrupted, and the best so far was not stored' : ''}`,
    ...headed(columns(rows, [0, 2]), style),
    ...dropped.map(({ tiles, why }) => `${namedNumbers(tiles)} was dropped: ${why}`),
    '',
    ...ledgersTable('mean of ranks', pictures, style).split('\n'),
  ]
}

function pageOf(
  file: string,
  found: readonly { readonly title: string; readonly tuned: TunedScenario }[],
  facts: readonly string[],
): Iterable<string> {
  const label = (what: string, chosen: Chosen): string => `${what}, ${namedNumbers(chosen)}`
  return reportPage({
    title: file,
    command: 'tune',
    headline: speedupHeadline(
      found.map(({ title, tuned }) => ({ title, speedup: isDefault(tuned) ? undefined : tuned.speedup })),
    ),
    facts,
    tables: [
      {
        title: 'Default and best',
        head: ['Scenario', 'Default', 'Time', 'Best', 'Time', 'Faster', 'Tried'],
        rows: found.map(({ title, tuned }) => [
          title,
          namedNumbers(tuned.fallback.chosen),
          time(tuned.fallback.time.median),
          isDefault(tuned) ? 'the default' : namedNumbers(tuned.best.chosen),
          isDefault(tuned) ? '' : time(tuned.best.time.median),
          isDefault(tuned) ? '–' : speedupText(tuned.speedup),
          String(tuned.tried),
        ]),
      },
    ],
    runs: found.map(({ title, tuned }) => ({
      name: title,
      label: label('default', tuned.fallback.chosen),
      run: tuned.fallback.run,
      note: 'Each timeline is the recorded run of median length.',
      ...(!isDefault(tuned) && { beside: { label: label('best', tuned.best.chosen), run: tuned.best.run } }),
    })),
    warnings: found.flatMap(({ title, tuned }) =>
      tuned.dropped.map(({ tiles, why }) => `${title}: ${namedNumbers(tiles)} was dropped: ${why}`),
    ),
  })
}
