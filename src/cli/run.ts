/**
 * Implements `arke run`, which runs the scenarios of a file on real ranks of a target, with recording, and prints the
 * tax ledger of each rank. `arke run` runs a scenario once to compile its kernels, and then a few times. The ledger and
 * the HTML page show the run of median length, and the trace shows all runs. If a scenario fails, `arke run` reports
 * its error with the source line and continues with the next scenario.
 */
import { resolve } from 'node:path'
import { plural } from '../report/format.ts'
import { sentenceOf } from '../report/headline.ts'
import { reportPage, type ReportRun } from '../report/runs/recordedPage.ts'
import { ledgerLegend, ledgerTable, recordedHeadline } from '../report/runs/recordedTable.ts'
import { plain, type Style } from '../report/style.ts'
import { time } from '../report/units.ts'
import { breathe } from '../runs/breath.ts'
import { recordedRun, type RecordedRun } from '../runs/recorded.ts'
import type { BenchResult, RunLedger } from '../runs/results.ts'
import { writeChrome } from '../timeline/chrome.ts'
import type { Timeline } from '../timeline/timeline.ts'
import { openWorld } from '../world/open.ts'
import type { OnPrint } from '../world/prints.ts'
import { tunedNumbers } from '../tune/scenario.ts'
import { namedNumbers } from '../tune/tables.ts'
import type { Chosen, Scenario, World } from '../world/world.ts'
import { expectRecording, fastestTarget, heapFor, machineOf, stallsOn } from './bench.ts'
import { UsageError } from './errors.ts'
import type { Source } from './load.ts'
import { checkOutputs, writeOutput } from './output.ts'
import { printAbove, type Progress } from './progress.ts'
import { closed, plan, problemOf, runOnce } from './scenarioRuns.ts'
import { Strays } from './strays.ts'

export interface RunCommand {
  /** If set, only the scenario with this name runs. */
  readonly scenario?: string
  readonly target?: string
  /** If set, the given world sizes replace those of the scenarios. */
  readonly ranks?: number
  /** The maximum number of recorded runs of each scenario. */
  readonly runs: number
  /** If set, the time in seconds after which a scenario is not repeated, once it has run at least three times. */
  readonly seconds?: number
  readonly json?: boolean
  readonly out?: string
  readonly report?: string
  readonly trace?: string
}

/** The outcome of one scenario at one world size. All times in the outcome are in nanoseconds. */
export interface ScenarioRun {
  readonly file: string
  readonly scenario: string
  readonly ranks: number
  /** The wall time of each recorded run, in order. */
  readonly walls: readonly number[]
  /** The number of kernels that ran on the rank with the most kernels. */
  readonly launches: number
  readonly stretches: number
  /**
   * The tuned parameters with which the scenario ran. The tuned parameters are absent if the scenario ran with its
   * default parameters.
   */
  readonly chosen?: Chosen
  /** The ledgers of the run of median length. The ledgers are empty if the scenario failed. */
  readonly ledgers: readonly (RunLedger & { readonly rank: number })[]
  /** The differences between the kernels of a run with recording and the kernels of a run without recording. */
  readonly recordedUnlike: readonly string[]
  /** The reason why the scenario failed, with the author's line. */
  readonly problem?: string
}

/** The document that `--json` prints. */
export interface RunResult {
  readonly arke: string
  readonly target: string
  readonly machine: BenchResult['machine']
  readonly scenarios: readonly ScenarioRun[]
  /** True if a signal ended the command before all scenarios had run. */
  readonly interrupted?: true
}

/**
 * If `interrupt` aborts the run, the function prints the results so far and returns. If there are no results after an
 * interrupt, the function throws an error.
 */
export async function runCommand(
  source: Source,
  command: RunCommand,
  version: string,
  print: (text: string) => void,
  progress: Progress,
  interrupt?: AbortSignal,
  style: Style = plain,
): Promise<RunResult> {
  const { json, report, trace } = command
  const planned = plan(source, command)
  checkOutputs({ out: command.out, report, trace }, [source.file])
  if (trace !== undefined && planned.length > 1)
    throw new UsageError(
      `--trace shows one scenario at one world size, but ${planned.length} are selected; choose with --scenario and --ranks`,
    )
  const target = command.target ?? (await fastestTarget())
  expectRecording(target, 'this target cannot record')
  const say = (line: string): void => {
    if (!json) print(line)
  }
  // The command shows the output of `t.print` in the first run of a scenario only.
  let isFirst = false
  const printLine = printAbove(progress)
  const onPrint: OnPrint = (line) => {
    if (isFirst) printLine(line)
  }
  const open = (record: boolean, ranks: number, workers?: number): Promise<World> => {
    const heap = heapFor(target, ranks, 1)
    return openWorld({ target, ranks, record, heap, workers, onStall: stallsOn(progress), onPrint })
  }
  const [{ ranks: first }] = planned
  const { machine } = await machineOf(await open(false, first))
  const scenarios: ScenarioRun[] = []
  const shown: ReportRun[] = []
  const strays = new Strays<Scenario>()
  let interrupted = false
  try {
    for (const { scenario, ranks } of planned) {
      const title = `${scenario.name}, ${plural(ranks, 'rank')}`
      progress.show(() => `${title} on ${target}`)
      let ended: Ended
      let chosen: Chosen | undefined
      try {
        interrupt?.throwIfAborted()
        const world = await open(true, ranks, scenario.residency)
        chosen = tunedNumbers(resolve(source.file), scenario, world.machine)
        ended = await runScenario(world, scenario, {
          ...{
            runs: command.runs,
            seconds: command.seconds,
            bandwidth: machine.bandwidth / ranks,
            strays,
            interrupt,
          },
          chosen,
          onRun(n) {
            isFirst = n === 0
            progress.show(() => `${title} on ${target}: run ${n} of ${command.runs}`)
          },
        })
      } catch (error) {
        if (!interrupt?.aborted) throw error
        if (scenarios.length === 0) throw error
        interrupted = true
        break
      }
      progress.clear()
      const { run, walls, problem, recordedUnlike, timeline } = ended
      scenarios.push({
        ...{ file: source.file, scenario: scenario.name, ranks, walls, recordedUnlike },
        ...{ launches: run?.launches ?? 0, stretches: run?.stretches ?? 0 },
        ...(chosen && { chosen }),
        ledgers: (run?.ranks ?? []).map(({ rank, ledger }) => ({ rank, ...ledger })),
        ...(problem !== undefined && { problem }),
      })
      say(style.heading(`${source.file}: ${title} on ${target}`))
      if (!run || problem !== undefined) {
        say(
          `  ${style.bad('failed')}: ${problem?.replaceAll('\n', '\n  ')}${chosen ? ` (with ${namedNumbers(chosen)}, as tuned on this machine)` : ''}\n`,
        )
        continue
      }
      const note = [
        noteOn(run, walls),
        ...(chosen ? [`The scenario ran with ${namedNumbers(chosen)}, as tuned on this machine.`] : []),
      ].join(' ')
      shown.push({ name: title, run, note })
      say(`  ${sentenceOf(recordedHeadline(run))}`)
      if (run.wall > 0) say(ledgerTable(run, style))
      say(`  ${note}`)
      for (const difference of recordedUnlike)
        say(
          `  The recorded kernels differ from those that run without recording: ${difference}. The times are of the recorded kernels.`,
        )
      say('')
      if (trace !== undefined && timeline)
        await writeOutput(trace, writeChrome(timeline, { recordedUnlike }), interrupt)
    }
  } finally {
    strays.close()
  }
  const whole: RunResult = { arke: version, target, machine, scenarios }
  const result: RunResult = interrupted ? { ...whole, interrupted: true } : whole
  if (shown.length > 0) for (const line of ledgerLegend) say(line)
  if (json) print(JSON.stringify(result, undefined, 2))
  if (report !== undefined && !interrupted) {
    const failed = scenarios.flatMap(({ scenario, problem }) => (problem ? `${scenario}: ${problem}` : []))
    const unlike = new Set(scenarios.flatMap(({ recordedUnlike }) => recordedUnlike))
    const page = reportPage({
      title: source.file,
      facts: [`target ${target}`, machine.processor, `node ${machine.node}`],
      runs: shown,
      warnings: [...failed, ...[...unlike].map((one) => `Recorded, ${one}.`)],
    })
    await writeOutput(report, page, interrupt)
    say(`\nthe timelines and the ledgers: ${report}`)
  }
  return result
}

function noteOn({ launches, stretches, wall }: RecordedRun, walls: readonly number[]): string {
  const range = `${time(Math.min(...walls))} to ${time(Math.max(...walls))}`
  return (
    `${plural(launches, 'kernel')} on the busiest rank, in ${stretches === 1 ? 'one stretch' : `${stretches} stretches`} between host waits. ` +
    `Shown is the median of ${plural(walls.length, 'run')} (${walls.length > 1 ? range : time(wall)}).`
  )
}

interface Ended {
  /** The run of median length. The run is absent if the scenario failed. */
  readonly run?: RecordedRun
  readonly timeline?: Timeline
  readonly walls: readonly number[]
  readonly recordedUnlike: readonly string[]
  readonly problem?: string
}

interface Running {
  readonly runs: number
  readonly seconds: number | undefined
  readonly bandwidth: number
  readonly strays: Strays<Scenario>
  readonly interrupt: AbortSignal | undefined
  readonly onRun: (n: number) => void
  /** The tuned parameters of the scenario, or undefined for its default parameters. */
  readonly chosen: Chosen | undefined
}

/**
 * Runs a scenario on a world that records events, and closes the world. The function throws an error only after an
 * interrupt.
 */
async function runScenario(
  world: World,
  scenario: Scenario,
  { runs, seconds = Infinity, bandwidth, strays, interrupt, onRun, chosen }: Running,
): Promise<Ended> {
  const found: RecordedRun[] = []
  let timeline: Timeline | undefined
  let problem: string | undefined
  try {
    // The first run compiles the kernels. The results of the first run are checked like those of the other runs, but
    // its times are not in the ledger.
    const start = performance.now()
    const isOver = (n: number): boolean => n > 3 && performance.now() - start > 1000 * seconds
    for (let n = 0; n <= runs && !isOver(n); n++) {
      await breathe(interrupt)
      onRun(n)
      await runOnce(world, scenario, strays, chosen)
      const now = world.timeline()
      if (n > 0) found.push(recordedRun(now, { bandwidth, after: timeline }))
      timeline = now
    }
  } catch (error) {
    if (interrupt?.aborted) throw error
    problem = problemOf(error, scenario)
  } finally {
    await closed(world, interrupt)
  }
  const walls = found.map(({ wall }) => wall)
  const run = [...found].sort((a, b) => a.wall - b.wall)[Math.floor((found.length - 1) / 2)]
  const { recordedUnlike } = world
  return problem === undefined
    ? { run, timeline, walls, recordedUnlike }
    : { walls: [], recordedUnlike: [], problem }
}
