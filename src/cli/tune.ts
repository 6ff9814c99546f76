/**
 * Implements `arke tune`, which finds the fastest tile sizes of an operation's variants on this machine and stores them
 * in the user's cache.
 */
import type { AnyOperation } from '../operation/definition.ts'
import { columns, digits, plural } from '../report/format.ts'
import { headed, plain, type Style } from '../report/style.ts'
import { groupedBy } from '../report/runs/points.ts'
import { reportPage } from '../report/runs/recordedPage.ts'
import { ledgerLegend, ledgersTable } from '../report/runs/recordedTable.ts'
import { reach } from '../report/runs/terminal.ts'
import { time } from '../report/units.ts'
import { ledgerOf } from '../runs/ledger.ts'
import type { Picture, RunLedger } from '../runs/results.ts'
import { remember } from '../tune/cache.ts'
import { recordTiles } from '../tune/ledgers.ts'
import { shippedTables } from '../tune/shipped.ts'
import { namedNumbers, tableSource, withTiles } from '../tune/tables.ts'
import { tune, type Tuned } from '../tune/tune.ts'
import { isStaged } from '../targets/stages.ts'
import { openWorld } from '../world/open.ts'
import type { World } from '../world/world.ts'
import { expectRecording, fastestTarget, heapFor, machineOf, now, progressLine, stallsOn } from './bench.ts'
import { dtypeOf, layoutOf, operationCalled, shapesOf, variantsOf } from './benchOptions.ts'
import { notesOnLaunches } from './notes.ts'
import { UsageError } from './errors.ts'
import { checkOutputs, writeOutput } from './output.ts'
import type { Progress } from './progress.ts'
import { pageFacts, speedupHeadline, speedupText, storedLine } from './tunePage.ts'

export interface TuneCommand {
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
  /** The time budget for each variant of a benchmark point, in seconds. */
  readonly seconds: number
  readonly seed: number
  readonly json?: boolean
  readonly out?: string
  readonly write?: string
  readonly report?: string
}

/** The result of tuning one benchmark point, with notes for the author about the chosen kernels on a GPU. */
export interface TunedPoint extends Tuned {
  readonly notes?: readonly string[]
  /**
   * Two ledgers, each averaged over all ranks: with the default tiles, and with the best tiles. Absent after an
   * interrupt.
   */
  readonly ledgers?: { readonly fallback: RunLedger; readonly best: RunLedger }
}

/** A tuned point, with one recorded execution for the default tiles and one for the best tiles, if these differ. */
interface Shown {
  readonly tuned: TunedPoint
  readonly pictures: readonly Picture[]
}

/** The document that `--json` prints. */
export interface TuneResult {
  readonly arke: string
  readonly target: string
  readonly tuned: readonly TunedPoint[]
  /**
   * The path of the file with the tuned tiles, or null. If no candidate is faster, the default tiles are stored. If
   * tuning of a benchmark point was interrupted, no tile sizes are stored for the point.
   */
  readonly kept: string | null
  /** True if a signal ended tuning before all points were complete. */
  readonly interrupted?: true
}

/**
 * If `interrupt` aborts tuning, the function prints the results so far and returns. If there are no results after an
 * interrupt, the function throws an error.
 */
export async function tuneCommand(
  operation: string | AnyOperation,
  command: TuneCommand,
  version: string,
  print: (text: string) => void,
  progress: Progress,
  interrupt?: AbortSignal,
  style: Style = plain,
): Promise<TuneResult> {
  const { ranks, seconds, seed, json, write, report } = command
  const definition = typeof operation === 'string' ? operationCalled(operation) : operation
  const variants = variantsOf(definition, command.variant)
  const dtype = dtypeOf(definition, command.dtype)
  const shapes = shapesOf(definition, command.shape, command.sweep)
  const layout = layoutOf(definition, command)
  if (write !== undefined) {
    if (!write.endsWith('.ts'))
      throw new UsageError(`--write ${write}: the table is a source file, such as table.ts`)
  }
  checkOutputs({ out: command.out, write, report })
  const target = command.target ?? (await fastestTarget())
  expectRecording(target, 'the checker has no speed to measure')
  const heap = heapFor(target, ranks, 1)
  const points = shapes.flatMap((shape) => variants.map((variant) => ({ shape, variant })))
  const tuned: TunedPoint[] = []
  const shown: Shown[] = []
  let kept: string | null = null
  const open = (record: boolean): Promise<World> =>
    openWorld({ target, ranks, record, heap, onStall: stallsOn(progress) })
  const { machine, spin } = await machineOf(await open(false))
  for (const [place, { shape, variant }] of points.entries()) {
    const world = await open(false)
    let notes: readonly string[] = []
    const options = { ...definition.defaults, ...layout, shape, dtype, variant }
    try {
      const found = await tune(definition, world, {
        ...{ options, seconds, now, spin, seed: seed + place },
        interrupt,
        onChosen: isStaged(target)
          ? (launches) => void (notes = notesOnLaunches(target, launches, ranks))
          : undefined,
        onProgress: (what, done) =>
          progress.show(() => progressLine(`${variant}, ${what}`, (place + done) / points.length, shape)),
      })
      tuned.push({ ...found, ...(notes.length > 0 && { notes }) })
      if (found.interrupted) break
      // Tiles are stored after each benchmark point, so that an interrupt loses the tiles of at most one point.
      kept = remember([{ asked: found.asked, tiles: found.best.tiles }])
    } catch (error) {
      if (!interrupt?.aborted || tuned.length === 0) throw error
      break
    } finally {
      await closed(world, interrupt)
    }
    progress.show(() => progressLine(`${variant}, recording`, (place + 1) / points.length, shape))
    const recording = await open(true)
    try {
      const { fallback, best } = tuned[place]
      const tiles = isDefault(tuned[place]) ? [fallback.tiles] : [fallback.tiles, best.tiles]
      const bandwidth = machine.bandwidth / ranks
      const pictures = await recordTiles(definition, recording, {
        ...{ options, tiles, now, spin, bandwidth, seed: seed + place, interrupt },
      })
      const [usual, other = usual] = pictures.map(ledgerOf)
      tuned[place] = { ...tuned[place], ledgers: { fallback: usual, best: other } }
      shown.push({ tuned: tuned[place], pictures })
    } catch (error) {
      if (!interrupt?.aborted) throw error
      break
    } finally {
      await closed(recording, interrupt)
    }
  }
  progress.clear()
  const whole: TuneResult = { arke: version, target, tuned, kept }
  const interrupted = interrupt?.aborted ?? false
  const result: TuneResult = interrupted ? { ...whole, interrupted: true } : whole
  if (json) print(JSON.stringify(result, undefined, 2))
  else {
    print(`${definition.name} on ${ranks} ranks of ${target}, ${dtype}`)
    for (const line of tuneTables(tuned, style)) print(line)
    for (const line of tuneNotes(tuned)) print(line)
    if (shown.length > 0) {
      const rows = shown.flatMap(({ tuned: { asked }, pictures }) =>
        pictures.map((picture, n) => [rowName(asked, n === 0 ? 'default' : 'best'), picture] as const),
      )
      print(`\n${ledgersTable('mean of ranks', rows, style)}\n`)
      for (const line of ledgerLegend) print(line)
    }
    print('')
    for (const { asked } of tuned.filter((one) => one.interrupted))
      print(`${asked.variant}: interrupted; the best candidate so far was not stored`)
    const stored = tuned.filter((one) => !one.interrupted)
    if (kept !== null) print(storedLine(kept, stored.map(isDefault)))
  }
  if (report !== undefined && !interrupted) {
    const page = pageOf(definition.title, shown, [
      plural(ranks, 'rank'),
      dtype,
      ...pageFacts(target, machine),
    ])
    await writeOutput(report, page, interrupt)
    if (!json) print(`the ledgers before and after: ${report}`)
  }
  if (write !== undefined && !interrupted) {
    await writeOutput(write, [sourceOf(tuned)], interrupt)
    if (!json) print(`written to ${write}`)
  }
  return result
}

/** Closes the world after tuning. The error that an interrupted world throws when it is closed is ignored. */
async function closed(world: World, interrupt: AbortSignal | undefined): Promise<void> {
  try {
    await world.close()
  } catch (error) {
    if (!interrupt?.aborted) throw error
  }
}

/** The TypeScript source of the device's shipped table, updated with the tuned tiles. */
function sourceOf(tuned: readonly Tuned[]): string {
  const { device } = tuned[0].asked
  const found = tuned.map(({ asked, best }) => ({ asked, tiles: best.tiles }))
  const name = device.split(' ').at(-1)!.toLowerCase()
  return tableSource(name, device, withTiles(shippedTables, found)[device])
}

/** Formats one table per shape, at most 100 columns wide. */
export function tuneTables(tuned: readonly Tuned[], style: Style = plain): string[] {
  const byShape = groupedBy(tuned, ({ asked }) => namedNumbers(asked.shape))
  return [...byShape].flatMap(([shape, own]) => [
    '',
    `${shape}: ${plural(
      own.reduce((sum, { tried }) => sum + tried, 0),
      'candidate',
    )}`,
    ...headed(columns([['variant', 'default', '', 'best', '', 'faster'], ...own.map(row)], [0, 1, 3]), style),
    ...own.flatMap(({ dropped }) =>
      dropped.map(({ tiles, why }) => `  ${namedNumbers(tiles)} was dropped: ${why}`),
    ),
  ])
}

export const tuneNotes = (tuned: readonly TunedPoint[]): string[] =>
  tuned.flatMap(({ asked, best, notes = [] }) =>
    notes.map(
      (note) => `note: ${asked.variant}, ${namedNumbers(asked.shape)}, ${namedNumbers(best.tiles)}: ${note}`,
    ),
  )

const isDefault = ({ best, fallback }: Pick<Tuned, 'best' | 'fallback'>): boolean =>
  best.tiles === fallback.tiles

const pointName = ({ variant = '', shape }: Tuned['asked']): string => `${variant}, ${namedNumbers(shape)}`
const rowName = (asked: Tuned['asked'], which: string): string => `${pointName(asked)}: ${which}`

function pageOf(title: string, shown: readonly Shown[], facts: readonly string[]): Iterable<string> {
  const speedupOf = (tuned: TunedPoint): Tuned['speedup'] | undefined =>
    isDefault(tuned) ? undefined : tuned.speedup
  return reportPage({
    ...{ title, command: 'tune', facts },
    headline: speedupHeadline(
      shown.map(({ tuned }) => ({ title: pointName(tuned.asked), speedup: speedupOf(tuned) })),
    ),
    tables: [
      {
        title: 'Default and best tiles',
        head: ['Variant', 'Default', 'Time', 'Best', 'Time', 'Faster', 'Tried'],
        rows: shown.map(({ tuned }) => {
          const { asked, fallback, best, speedup, tried } = tuned
          const found = isDefault(tuned)
            ? ['the default', '', '–']
            : [namedNumbers(best.tiles), time(best.time.median), speedupText(speedup)]
          const usual = [namedNumbers(fallback.tiles), time(fallback.time.median)]
          return [pointName(asked), ...usual, ...found, String(tried)]
        }),
      },
    ],
    runs: shown.map(({ tuned: { asked, fallback, best }, pictures: [usual, other] }) => ({
      name: pointName(asked),
      label: `default, ${namedNumbers(fallback.tiles)}`,
      run: usual,
      note: 'Each timeline is the recorded execution of median length.',
      ...(other && { beside: { label: `best, ${namedNumbers(best.tiles)}`, run: other } }),
    })),
    warnings: shown.flatMap(({ tuned: { asked, dropped } }) =>
      dropped.map(({ tiles, why }) => `${pointName(asked)}: ${namedNumbers(tiles)} was dropped: ${why}`),
    ),
  })
}

function row(tuned: Tuned): string[] {
  const { asked, fallback, best, speedup } = tuned
  const usual = [asked.variant ?? '', namedNumbers(fallback.tiles), time(fallback.time.median)]
  if (isDefault(tuned)) return [...usual, 'the default', '', '–']
  const faster = `${digits(speedup.median)} ${reach(speedup)}`
  return [...usual, namedNumbers(best.tiles), time(best.time.median), faster]
}
