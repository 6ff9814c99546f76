/**
 * Compares the variants of the operations, from bulk synchronous to fused, on CPU ranks: two ranks on two cores, all
 * variants interleaved:
 *
 *   npx tsx bench/operations.ts [--only OPERATION] [--target native|wasm] [--seconds S] [--dtype f32] [--json]
 *
 * The columns of the output for each benchmark point:
 *
 *   speed-up over bsp     the speed-up of the best fused variant over `bsp`, with its interval
 *   upper bound           the largest possible speed-up: the time of `bsp` over the lower bound
 *   bsp / sum of kernels  the time of `bsp` over the sum of the times of its kernels, each measured alone
 *   shorter               the relative reduction in time of the best fused variant against `bsp`, in recorded executions
 *   taxes                 the share of that reduction that the launch and bulk synchronous taxes of the ledgers explain
 *   + locality            the share that these taxes and the upper bound on the locality tax explain
 *   kept                  the share of the ranks' loss under `bsp` that the best fused variant avoids
 *   can keep              the upper bound on `kept`
 *
 * Variants that divide work between ranks can exceed `upper bound` if the ranks differ in speed. The column `taxes` has
 * a bootstrap 95 % interval, and is empty if the reduction is at most 3 % or not statistically significant. For `kept`,
 * the last rank is late by 20 % of an execution, and the loss is the time that the other ranks lose. The column `can
 * keep` accounts for the data that the other ranks need from the late rank, or for the late rank's work that the other
 * ranks do.
 */
import { openWorld, type World } from '../src/index.ts'
import type { OperandDType, OperationDefinition, OperationOptions } from '../src/operation/definition.ts'
import { commandName, operations } from '../src/ops/operations.ts'
import type { Without } from '../src/ops/points.ts'
import { readBandwidth } from '../src/runs/bandwidth.ts'
import { Contest, randomOrder, type Contestant } from '../src/runs/contest.ts'
import type { Lap } from '../src/runs/gate.ts'
import { measure, punctualOf } from '../src/runs/measure.ts'
import { quantityOf } from '../src/runs/quantity.ts'
import type { Point, Quantity, RunLedger, VariantResult } from '../src/runs/results.ts'
import { uniform } from '../src/world/random.ts'

if (process.argv.includes('--help')) {
  console.log(
    'npx tsx bench/operations.ts [--only OPERATION] [--target native|wasm] [--seconds S] [--dtype f32] [--json]',
  )
  process.exit(0)
}
const option = (name: string, usual: string): string => {
  const at = process.argv.indexOf(`--${name}`)
  return at < 0 ? usual : process.argv[at + 1]
}
const target = option('target', 'native')
const seconds = Number(option('seconds', '4'))
const dtype = option('dtype', 'f32') as OperandDType
const only = option('only', '')
const json = process.argv.includes('--json')
const ranks = 2
/** The number of recorded executions per variant, which is enough to resolve differences of a few per cent. */
const recorded = 75
const now = (): number => performance.now() * 1e6
const open = (record: boolean): Promise<World> => openWorld({ target, ranks, record, heap: 1.75 * 2 ** 30 })

interface Row {
  readonly point: Point
  readonly best: VariantResult
  readonly bsp: VariantResult
  /** The time of `bsp` divided by the lower bound, which is the largest possible speed-up of a fused variant. */
  readonly most: number
  /** The time of `bsp` divided by the sum of the times of its kernels. */
  readonly parts: Quantity
  readonly explained: Explained
  readonly kept: Kept
}

/** Compares the recorded executions of the best fused variant with those of `bsp`, round by round. */
interface Explained {
  /** The relative reduction of the time by the best fused variant, compared with `bsp`. */
  readonly shorter: Quantity
  /**
   * The share of the reduction that the taxes explain, once without and once with the upper bound on the locality tax.
   * The explained share is null if the reduction is at most 3 % or not statistically significant.
   */
  readonly by: { readonly taxes: Quantity; readonly withLocality: number } | null
}

/** The time that the other ranks lose if the last rank is late. */
interface Kept {
  /**
   * The fused variant that avoids the largest share of the time that the other ranks lose under `bsp`. The variant is
   * null if the ranks' loss of time under `bsp` is not statistically significant.
   */
  readonly best: { readonly variant: string; readonly share: number } | null
  /** The time that the ranks that are not late lose, for each variant. */
  readonly lost: Readonly<Record<string, Quantity>>
}

const lateness = 0.2
/**
 * The upper bound on the share of the lost time that a fused variant can avoid. If the other ranks need data of the
 * late rank, they can do only a share of an execution until this data arrives. If the other ranks also do the late
 * rank's work, R ranks do R executions' worth of work until the common end time E, and one of them starts at
 * `lateness`. Solving (R - 1) E + (E - lateness) = R for E shows that the other ranks lose (E - 1), which is
 * lateness / R.
 */
const canKeep = (without: Without): number =>
  without === 'its work' ? 1 - 1 / ranks : Math.min(without.share / lateness, 1)

async function row<Options extends OperationOptions, Contents>(
  definition: OperationDefinition<Options, Contents>,
  options: Omit<Options, 'variant' | 'stream'>,
  bandwidth: number,
): Promise<Row> {
  const { variants, fused } = definition
  const ledgers = new Map<string, readonly RunLedger[]>()
  const onLedgers = (variant: string, all: readonly RunLedger[]): void => void ledgers.set(variant, all)
  const settings = { options, variants, open, now, spin: true, seconds, bandwidth, recorded, onLedgers }
  const [point] = await measure(definition, settings)
  const of = (name: string): VariantResult => point.variants.find(({ variant }) => variant === name)!
  const best = fused.map(of).reduce((a, b) => (a.speedup!.median >= b.speedup!.median ? a : b))
  const bsp = of('bsp')
  return {
    point,
    best,
    bsp,
    most: bsp.time.median / point.limit.time.median,
    parts: await bspOverParts(definition, options),
    explained: explained(ledgers.get('bsp')!, ledgers.get(best.variant)!),
    kept: await keptOf(definition, options, lateness * bsp.time.median),
  }
}

function explained(bsp: readonly RunLedger[], best: readonly RunLedger[]): Explained {
  const taxes = ({ parts }: RunLedger): number => parts.launch + parts.wait + parts.transfer
  const rounds = bsp.map((before, n) => ({
    shorter: (before.wall - best[n].wall) / before.wall,
    gained: before.wall - best[n].wall,
    taxes: taxes(before) - taxes(best[n]),
    locality: before.locality.time[1] - best[n].locality.time[1],
  }))
  type Round = (typeof rounds)[number]
  /**
   * Drops the quarter of the rounds with the largest gain and the quarter with the smallest gain, because the machine
   * was disturbed in them.
   */
  const middle = (all: readonly Round[]): readonly Round[] => {
    const quarter = Math.floor(all.length / 4)
    return [...all].sort((a, b) => a.gained - b.gained).slice(quarter, all.length - quarter)
  }
  const share = (all: readonly Round[], of: (round: Round) => number): number => {
    const kept = middle(all)
    return kept.reduce((sum, round) => sum + of(round), 0) / kept.reduce((sum, { gained }) => sum + gained, 0)
  }
  const shorter = quantityOf(rounds.map((round) => round.shorter))
  if (shorter.median <= 0.03 || shorter.interval[0] <= 0) return { shorter, by: null }
  const draw = uniform(1, 0)
  const again = Array.from({ length: 1000 }, () =>
    share(
      rounds.map(() => rounds[Math.floor(draw() * rounds.length)]),
      (round) => round.taxes,
    ),
  ).sort((a, b) => a - b)
  const median = share(rounds, (round) => round.taxes)
  return {
    shorter,
    by: {
      taxes: { median, interval: [again[25], again[974]], samples: rounds.length },
      withLocality: share(rounds, (round) => round.taxes + round.locality),
    },
  }
}

/**
 * Executions with and without a straggler are interleaved, so that drift of the machine does not affect the difference
 * of their times.
 */
async function keptOf<Options extends OperationOptions, Contents>(
  definition: OperationDefinition<Options, Contents>,
  options: Omit<Options, 'variant' | 'stream'>,
  late: number,
): Promise<Kept> {
  const { variants, fused } = definition
  return contested(definition, options, variants, async (contest) => {
    const inTime = await contest.contestants(0)
    const behind = await contest.contestants(late)
    const runs = variants.flatMap((name) =>
      [inTime, behind].map((all) => all.find((one) => one.name === name)!.at),
    )
    const laps = await inTurns(contest, runs)
    const lost = Object.fromEntries(
      variants.map((name, n) => [
        name,
        quantityOf(laps.map((round) => punctualOf(round[2 * n + 1]) - punctualOf(round[2 * n]))),
      ]),
    )
    const shares = fused.map((variant) => ({
      variant,
      share: 1 - Math.max(0, lost[variant].median) / lost.bsp.median,
    }))
    const best = shares.reduce((a, b) => (a.share >= b.share ? a : b))
    return { best: lost.bsp.interval[0] > 0 ? best : null, lost }
  })
}

async function bspOverParts<Options extends OperationOptions, Contents>(
  definition: OperationDefinition<Options, Contents>,
  options: Omit<Options, 'variant' | 'stream'>,
): Promise<Quantity> {
  return contested(definition, options, ['bsp'], async (contest) => {
    const { whole, steps } = contest.stepsOf('bsp')
    const laps = await inTurns(contest, [whole, ...steps])
    return quantityOf(
      laps.map(([all, ...alone]) => all.time / alone.reduce((sum, { time }) => sum + time, 0)),
    )
  })
}

/** Runs the comparison on a separate world that does not record. */
async function contested<Options extends OperationOptions, Contents, Result>(
  definition: OperationDefinition<Options, Contents>,
  options: Omit<Options, 'variant' | 'stream'>,
  variants: readonly Options['variant'][],
  run: (contest: Contest<Options, Contents>) => Promise<Result>,
): Promise<Result> {
  const world = await open(false)
  try {
    const contest = await Contest.make(
      definition,
      { options, variants, rotate: 64e6, now, spin: true },
      world,
    )
    await contest.fill(2)
    await contest.pack()
    return await run(contest)
  } finally {
    await world.close()
  }
}

/** The times of all runs for each round, in the order of `runs`. Each round executes the runs in random order. */
async function inTurns(
  { gate }: Pick<Contest<OperationOptions, unknown>, 'gate'>,
  runs: readonly Contestant['at'][],
): Promise<Lap[][]> {
  const random = randomOrder(2)
  let turn = 0
  const round = async (): Promise<Lap[]> => {
    const order = random(runs.length)
    const found = await gate.time(order.map((n) => runs[n](turn++)))
    const laps: Lap[] = []
    order.forEach((n, place) => (laps[n] = found[place]))
    return laps
  }
  for (let warm = 0; warm < 3; warm++) await round()
  const rounds: Lap[][] = []
  const start = now()
  while (rounds.length < 201 && (rounds.length < 15 || now() - start < seconds * 1e9))
    rounds.push(await round())
  return rounds
}

const machine = await open(false)
const bandwidth = await readBandwidth(machine, now, true)
await machine.close()
const rows: Row[] = []
const columns = [
  ...['point', 'bsp', 'best fused', 'speed-up over bsp', 'upper bound', 'bsp / sum of kernels'],
  ...['shorter', 'taxes', '+ locality', 'kept', 'can keep'],
]
const widths = [42, 9, 22, 20, 8, 20, 22, 20, 11, 15, 8]
const print = (cells: readonly string[]): void => {
  if (!json) console.log(cells.map((cell, i) => cell.padEnd(widths[i])).join(' '))
}
const interval = ({ median, interval: [low, high] }: Quantity): string =>
  `${median.toFixed(3)} (${low.toFixed(2)}…${high.toFixed(2)})`
const us = (nanoseconds: number): string => `${(nanoseconds / 1e3).toFixed(0)} us`
function add(name: string, keepable: number, found: Row): void {
  rows.push(found)
  const { best, bsp, most, parts, kept } = found
  const { shorter, by } = found.explained
  print([
    name,
    us(bsp.time.median),
    `${best.variant} ${us(best.time.median)}`,
    interval(best.speedup!),
    most.toFixed(3),
    interval(parts),
    interval(shorter),
    by ? interval(by.taxes) : '-',
    by?.withLocality.toFixed(2) ?? '-',
    kept.best ? `${kept.best.share.toFixed(2)} ${kept.best.variant}` : '-',
    keepable.toFixed(2),
  ])
}

print([`${target}, ${dtype}, ${ranks} ranks, memory ${(bandwidth / 1e9).toFixed(1)} GB/s`])
print(columns)
for (const definition of operations) {
  if (only !== '' && only !== commandName(definition)) continue
  for (const { name, options, without } of definition.points.cpu)
    add(
      `${definition.title} ${name}`,
      canKeep(without(ranks)),
      await row(definition, { ...definition.defaults, ...options, dtype }, bandwidth),
    )
}
const geometric = (values: readonly number[]): number =>
  Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length)
const summary = {
  geometricMean: geometric(rows.map(({ best }) => best.speedup!.median)),
  geometricMeanAtMost: geometric(rows.map(({ most }) => most)),
  lowest: Math.min(...rows.map(({ best }) => best.speedup!.interval[1])),
  below300us: rows
    .filter(({ bsp }) => bsp.time.median < 300e3)
    .map(({ best, most }) => ({ speedup: best.speedup!.median, most })),
}
if (json) console.log(JSON.stringify({ target, dtype, ranks, bandwidth, rows, summary }, undefined, 2))
else console.log(`\n${JSON.stringify(summary)}`)
