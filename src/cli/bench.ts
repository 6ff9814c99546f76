/**
 * Implements `arke bench`, which measures the variants of an operation side by side on a target, with the cost of each
 * tax. `arke bench` measures one point (a shape and options), or one point for each value of a sweep and each skew.
 */
import { cpus } from 'node:os'
import { choose } from '../operation/choice.ts'
import type { AnyOperation } from '../operation/definition.ts'
import { writeRunsPage } from '../report/runs/html.ts'
import { plural, wrap } from '../report/format.ts'
import { plain, type Style } from '../report/style.ts'
import { recordedNote, recordedWarning, unlikeOf } from '../report/runs/recordedNote.ts'
import { benchTable, tableLegend, unfinishedTable } from '../report/runs/terminal.ts'
import { sentenceOf } from '../report/headline.ts'
import { findings, headlineOf, ledgerInWords } from '../report/runs/words.ts'
import { readBandwidth } from '../runs/bandwidth.ts'
import { measure, type UnfinishedPoint } from '../runs/measure.ts'
import type { BenchResult, Point } from '../runs/results.ts'
import { writeChrome } from '../timeline/chrome.ts'
import type { Timeline } from '../timeline/timeline.ts'
import { descriptions } from '../targets/descriptions.ts'
import { isStaged, stagedTargets, type StagedTarget } from '../targets/stages.ts'
import { isOneMemory, maySpin } from '../world/machine.ts'
import { openWorld, worlds } from '../world/open.ts'
import type { Stall } from '../world/stops.ts'
import type { World } from '../world/world.ts'
import { commitOfCode } from './commit.ts'
import { dtypeOf, layoutOf, operationCalled, shapesOf, skewsOf, variantsOf } from './benchOptions.ts'
import { UsageError } from './errors.ts'
import { checkOutputs, writeOutput } from './output.ts'
import type { Progress } from './progress.ts'
import { targetStatus } from './targets.ts'

export interface BenchCommand {
  /** The value `all`, or the names of variants, separated by commas. */
  readonly variant: string
  readonly target?: string
  readonly ranks: number
  readonly shape?: string
  /** The dtype of the operands; the operation's default if absent. */
  readonly dtype?: string
  readonly layout?: readonly string[]
  readonly shard?: string
  readonly sweep?: string
  readonly skew: string
  /** The time budget for each benchmark point, in seconds. */
  readonly seconds: number
  /** True if weights are packed before they are used. If false, kernels read weights in their original layout. */
  readonly pack: boolean
  readonly seed: number
  readonly json?: boolean
  readonly out?: string
  readonly trace?: string
  readonly report?: string
}

/**
 * If `interrupt` aborts the measurement, the function prints the results so far and returns. If there are no results
 * after an interrupt, the function throws an error.
 */
export async function benchCommand(
  operation: string | AnyOperation,
  command: BenchCommand,
  version: string,
  print: (text: string) => void,
  progress: Progress,
  interrupt?: AbortSignal,
  style: Style = plain,
): Promise<BenchResult> {
  const { ranks, json, trace, report, pack, seconds } = command
  const definition = typeof operation === 'string' ? operationCalled(operation) : operation
  const variants = variantsOf(definition, command.variant)
  const dtype = dtypeOf(definition, command.dtype)
  const shapes = shapesOf(definition, command.shape, command.sweep)
  const skews = skewsOf(command.skew)
  const layout = layoutOf(definition, command)
  checkOutputs({ out: command.out, report, trace })
  if (trace !== undefined && shapes.length > 1)
    throw new UsageError('--trace shows one point; leave out --sweep')
  const say = (line: string): void => {
    if (!json) print(line)
  }
  const target = command.target ?? (await fastestTarget())
  expectRecording(target, 'this target cannot record')
  const heap = heapFor(target, ranks, 2)
  const open = (record: boolean): Promise<World> =>
    openWorld({ target, ranks, record, heap, onStall: stallsOn(progress) })
  const { machine, spin } = await machineOf(await open(false))
  say(
    `${definition.name} on ${ranks} ranks of ${target}, ${dtype}; ` +
      `${processorsText(machine, cpus().length)}, ` +
      `memory ${(machine.bandwidth / 1e9).toFixed(1)} GB/s, clock tick ${machine.tick.toFixed(0)} ns`,
  )
  if (!spin)
    say(
      `${ranks} ranks share ${plural(cpus().length, 'logical core')}: the ranks compete for cores, so the waiting times do not represent a machine with one core per rank`,
    )
  const points: Point[] = []
  let unfinished: readonly UnfinishedPoint[] = []
  let interrupted = false
  for (const [place, shape] of shapes.entries()) {
    const recorded: Timeline[] = []
    let found: readonly Point[]
    try {
      found = await measure(definition, {
        options: { ...definition.defaults, ...layout, shape, dtype },
        variants,
        skews,
        open,
        now,
        spin,
        seconds,
        pack,
        bandwidth: machine.bandwidth,
        seed: command.seed + place,
        choices: { ...layout, ...(definition.packs && { packed: pack }) },
        onProgress: (what, done) =>
          progress.show(() => progressLine(what, (place + Math.min(done, 1)) / shapes.length, shape)),
        onTimeline: (timeline) => void recorded.push(timeline),
        interrupt,
        onInterrupted: (parts) => void (unfinished = parts),
      })
    } catch (error) {
      if (!interrupt?.aborted) throw error
      progress.clear()
      for (const part of unfinished) say(`\n${unfinishedTable(definition.name, shape, part)}`)
      if (points.length + unfinished.length === 0) throw error
      interrupted = true
      break
    }
    progress.clear()
    for (const measured of found) {
      const asked = { operation: definition.name, target, ranks, dtype, shape, layout }
      const point: Point = { ...measured, auto: choose(asked, definition.variants, definition.measurements) }
      points.push(point)
      say(`\n${benchTable(point, style)}\n`)
      for (const line of ledgerInWords(point)) say(line)
      const { sample } = point.variants[0].deviation
      if (sample)
        say(
          `Results were compared with the reference in ${sample.rows} of ${sample.of} rows, chosen at random.`,
        )
    }
    if (trace !== undefined)
      await writeOutput(trace, writeChrome(recorded[0], { recordedUnlike: unlikeOf(found) }), interrupt)
  }
  if (points.length > 1)
    say(`\n${[sentenceOf(headlineOf(points)), ...findings(points).map(({ text }) => text)].join('\n')}`)
  const unlike = unlikeOf(points)
  if (unlike.length > 0) say(['', ...wrap(`${recordedNote} ${unlike.join('; ')}.`)].join('\n'))
  if (points.length > 0) say(`\n${tableLegend.join('\n')}`)
  const whole: BenchResult = {
    ...{ arke: version, commit: commitOfCode(), date: new Date().toISOString().slice(0, 10) },
    ...{ target, machine, points, warnings: warningsOf(points) },
  }
  const result: BenchResult = interrupted ? { ...whole, interrupted: true } : whole
  if (json) print(JSON.stringify(result, undefined, 2))
  if (report !== undefined && !interrupted) {
    await writeOutput(report, writeRunsPage(result), interrupt)
    say(`\nthe variants side by side: ${report}`)
  }
  return result
}

/** The processors of a machine: worker threads on the logical cores of a CPU, or multiprocessors of GPUs. */
export const processorsText = (
  { threads, cores, processor }: BenchResult['machine'],
  logical: number,
): string =>
  threads
    ? `${plural(cores, 'worker thread')} on ${plural(logical, 'logical core')} of ${processor}`
    : `${plural(cores, 'multiprocessor')} of ${processor}`

const warningsOf = (points: readonly Point[]): string[] => unlikeOf(points).map(recordedWarning)

const preference = (target: StagedTarget): number => descriptions[target].preference ?? Infinity

/** The targets whose worlds record the events for the ledger, in the order of preference for the default target. */
const recording = stagedTargets.toSorted((a, b) => (preference(a) < preference(b) ? -1 : 1))

/** Throws an error if the target does not exist, or if it cannot be measured because of `why`. */
export function expectRecording(target: string, why: string): void {
  if (recording.some((name) => name === target)) return
  const problem = Object.hasOwn(worlds, target) ? why : 'there is no such target'
  throw new UsageError(`--target ${target}: ${problem}; there is ${recording.join(', ')}`)
}

/** Returns a function that reports a stalled world on stderr, on a separate line. */
export const stallsOn =
  (progress: Progress) =>
  ({ message }: Stall): void => {
    progress.clear()
    process.stderr.write(`arke: ${message}\n`)
  }

export const now = (): number => performance.now() * 1e6

/**
 * The heap size per rank in bytes if `worlds` worlds are open at the same time. The heap size is undefined for a target
 * that does not exist.
 */
export const heapFor = (target: string, ranks: number, worlds: number): number | undefined =>
  isStaged(target) ? descriptions[target].measuredHeap(ranks, worlds) : undefined

export async function fastestTarget(): Promise<string> {
  const targets = await targetStatus()
  const usable = recording.filter((name) => targets.some((one) => one.name === name && one.usable))
  const [fastest] = usable.filter((name) => preference(name) < Infinity)
  if (fastest === undefined)
    throw new UsageError('no target of this machine can be measured; see arke targets')
  return fastest
}

/** The machine as the results describe it, and whether waiting threads may poll without sleeping. */
export interface MeasuredMachine {
  readonly machine: BenchResult['machine']
  readonly spin: boolean
}

export async function machineOf(world: World): Promise<MeasuredMachine> {
  try {
    const { name, model = name, processors, capabilities } = world.machine
    const spin = maySpin(world.machine, cpus().length)
    const machine: BenchResult['machine'] = {
      node: process.version,
      platform: `${process.platform} ${process.arch}`,
      processor: model,
      cores: processors.reduce((sum, count) => sum + count, 0),
      bandwidth: await readBandwidth(world, now, spin),
      tick: world.clockTick,
      threads: isOneMemory(world.machine) && capabilities.nearPeers,
      memories: world.machine.memories.length,
    }
    return { machine, spin }
  } finally {
    await world.close()
  }
}

export function progressLine(what: string, done: number, shape: Readonly<Record<string, number>>): string {
  const width = 20
  const filled = Math.round(width * done)
  const extents = Object.entries(shape).map(([name, extent]) => `${name}=${extent}`)
  return `[${'#'.repeat(filled)}${'.'.repeat(width - filled)}] ${extents.join(' ')}: ${what}`
}
