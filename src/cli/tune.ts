/**
 * `arke tune`: finds the fastest tiles of an operation's variants on this machine and stores them in the user's cache.
 */
import { cpus } from 'node:os'
import type { AnyOperation } from '../operation/definition.ts'
import { columns, digits, plural } from '../report/format.ts'
import { headed, plain, type Style } from '../report/style.ts'
import { groupedBy } from '../report/runs/points.ts'
import { reach } from '../report/runs/terminal.ts'
import { time } from '../report/units.ts'
import { remember } from '../tune/cache.ts'
import { shippedTables } from '../tune/shipped.ts'
import { namedNumbers, tableSource, withTiles } from '../tune/tables.ts'
import { tune, type Tuned } from '../tune/tune.ts'
import { isStaged } from '../targets/stages.ts'
import { maySpin } from '../world/machine.ts'
import { openWorld } from '../world/open.ts'
import type { World } from '../world/world.ts'
import { expectRecording, fastestTarget, heapFor, now, progressLine, stallsOn } from './bench.ts'
import { dtypeOf, layoutOf, operationCalled, shapesOf, variantsOf } from './benchOptions.ts'
import { notesOnLaunches } from './notes.ts'
import { UsageError } from './errors.ts'
import { checkOutputs, writeOutput } from './output.ts'
import type { Progress } from './progress.ts'

export interface TuneCommand {
  /** `all`, or the names of variants, separated by commas. */
  readonly variant: string
  readonly target?: string
  readonly ranks: number
  readonly shape?: string
  /** The operation's default if absent. */
  readonly dtype?: string
  readonly layout?: readonly string[]
  readonly shard?: string
  readonly sweep?: string
  /** The time budget for each variant of a point, in seconds. */
  readonly seconds: number
  readonly seed: number
  readonly json?: boolean
  readonly out?: string
  readonly write?: string
}

/** The result of tuning one point, with notes for the author about the chosen kernels on a GPU. */
export interface TunedPoint extends Tuned {
  readonly notes?: readonly string[]
}

/** The document that `--json` prints. */
export interface TuneResult {
  readonly arke: string
  readonly target: string
  readonly tuned: readonly TunedPoint[]
  /** The path of the file with the tuned tiles, or null. Tiles of an interrupted point are not stored. */
  readonly kept: string | null
  /** A signal ended tuning before all points were complete. */
  readonly interrupted?: true
}

/** After `interrupt` the function prints the results so far and returns. It throws if there are no results. */
export async function tuneCommand(
  operation: string | AnyOperation,
  command: TuneCommand,
  version: string,
  print: (text: string) => void,
  progress: Progress,
  interrupt?: AbortSignal,
  style: Style = plain,
): Promise<TuneResult> {
  const { ranks, seconds, seed, json, write } = command
  const definition = typeof operation === 'string' ? operationCalled(operation) : operation
  const variants = variantsOf(definition, command.variant)
  const dtype = dtypeOf(definition, command.dtype)
  const shapes = shapesOf(definition, command.shape, command.sweep)
  const layout = layoutOf(definition, command)
  if (write !== undefined) {
    if (!write.endsWith('.ts'))
      throw new UsageError(`--write ${write}: it is a source file, such as table.ts`)
  }
  checkOutputs({ out: command.out, write })
  const target = command.target ?? (await fastestTarget())
  expectRecording(target, 'it has no speed')
  const heap = heapFor(target, ranks, 1)
  const points = shapes.flatMap((shape) => variants.map((variant) => ({ shape, variant })))
  const tuned: TunedPoint[] = []
  let kept: string | null = null
  for (const [place, { shape, variant }] of points.entries()) {
    const world = await openWorld({ target, ranks, heap, onStall: stallsOn(progress) })
    let notes: readonly string[] = []
    try {
      const found = await tune(definition, world, {
        options: { ...definition.defaults, ...layout, shape, dtype, variant },
        seconds,
        now,
        spin: maySpin(world.machine, cpus().length),
        seed: seed + place,
        interrupt,
        onChosen: isStaged(target)
          ? (launches) => void (notes = notesOnLaunches(target, launches, ranks))
          : undefined,
        onProgress: (what, done) =>
          progress.show(() => progressLine(`${variant}, ${what}`, (place + done) / points.length, shape)),
      })
      tuned.push({ ...found, ...(notes.length > 0 && { notes }) })
      if (found.interrupted) break
      // Tiles are stored after each point, so that an interrupt loses at most one point.
      kept = remember([{ asked: found.asked, tiles: found.best.tiles }])
    } catch (error) {
      if (!interrupt?.aborted || tuned.length === 0) throw error
      break
    } finally {
      await closed(world, interrupt)
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
    print('')
    for (const { asked } of tuned.filter((one) => one.interrupted))
      print(`${asked.variant}: interrupted; the best candidate so far was not stored`)
    if (kept !== null) print(`kept in ${kept}`)
  }
  if (write !== undefined && !interrupted) {
    await writeOutput(write, [sourceOf(tuned)], interrupt)
    if (!json) print(`written to ${write}`)
  }
  return result
}

/** Closes the world. Ignores the error that an interrupted world throws when it is closed. */
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

function row({ asked, fallback, best, speedup }: Tuned): string[] {
  const usual = [asked.variant ?? '', namedNumbers(fallback.tiles), time(fallback.time.median)]
  if (best.tiles === fallback.tiles) return [...usual, 'the default', '', '–']
  const faster = `${digits(speedup.median)} ${reach(speedup)}`
  return [...usual, namedNumbers(best.tiles), time(best.time.median), faster]
}
