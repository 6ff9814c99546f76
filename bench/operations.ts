/**
 * The operations from bulk synchronous to fused on CPU ranks, two ranks on two cores, all variants in turns:
 *
 *   npx tsx bench/operations.ts [--only gemm|decode] [--target native|wasm] [--seconds S] [--dtype f32] [--json]
 *
 * For each point the best fused variant over `bsp`, with its interval, and what is left to gain at most (`bsp` over the limit);
 * `bsp` over the sum of its kernels, each measured alone; how much of the difference between `bsp` and the best fused variant the
 * launch and bulk synchronous taxes of their ledgers explain, where they differ by more than 3 %; with the last rank late by 20 %,
 * how much of what the other ranks lose with `bsp` they keep.
 */
import { openWorld, type World } from '../src/index.ts'
import { allGatherGemmOperation } from '../src/ops/allGatherGemm/index.ts'
import { flashDecodeOperation } from '../src/ops/flashDecode/index.ts'
import type { OperandDType, OperationDefinition, OperationOptions } from '../src/ops/operation.ts'
import { readBandwidth } from '../src/runs/bandwidth.ts'
import { Contest } from '../src/runs/contest.ts'
import { measure } from '../src/runs/measure.ts'
import { quantityOf } from '../src/runs/quantity.ts'
import type { Point, Quantity, VariantResult } from '../src/runs/results.ts'

if (process.argv.includes('--help')) {
  console.log(
    'npx tsx bench/operations.ts [--only gemm|decode] [--target native|wasm] [--seconds S] [--dtype f32] [--json]',
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
const now = (): number => performance.now() * 1e6
const open = (record: boolean): Promise<World> => openWorld({ target, ranks, record, heap: 1.75 * 2 ** 30 })

interface Row {
  readonly point: Point
  readonly best: VariantResult
  readonly bsp: VariantResult
  /** `bsp` over the limit: what a fused variant could gain at most. */
  readonly most: number
  /** `bsp` over the sum of its kernels. */
  readonly parts: Quantity
  /** Of the difference between the two, in recorded executions. */
  readonly explained: number | null
  /** Of what ranks that are not late lose with `bsp`, with the last one late by 20 %: what the best fused variant keeps. */
  readonly kept: number
}

async function row<Options extends OperationOptions, Contents>(
  definition: OperationDefinition<Options, Contents>,
  options: Omit<Options, 'variant' | 'stream'>,
  bandwidth: number,
): Promise<Row> {
  const { variants, fused } = definition
  const settings = { options, variants, open, now, spin: true, seconds, bandwidth, skews: [0, 20] }
  const [point, late] = await measure(definition, settings)
  const of = ({ variants: found }: Point, name: string): VariantResult =>
    found.find(({ variant }) => variant === name)!
  const best = fused
    .map((name) => of(point, name))
    .reduce((a, b) => (a.speedup!.median >= b.speedup!.median ? a : b))
  const bsp = of(point, 'bsp')
  const lost = (variant: string): number =>
    of(late, variant).punctual.median - of(point, variant).punctual.median
  const kept = fused.map((variant) => 1 - Math.max(0, lost(variant)) / lost('bsp'))
  const taxes = ({ ledger: { parts } }: VariantResult): number => parts.launch + parts.wait + parts.transfer
  const gained = bsp.ledger.wall - best.ledger.wall
  return {
    point,
    best,
    bsp,
    most: bsp.time.median / point.limit.time.median,
    parts: await bspOverParts(definition, options),
    explained: gained > 0.03 * bsp.ledger.wall ? (taxes(bsp) - taxes(best)) / gained : null,
    kept: Math.max(...kept),
  }
}

async function bspOverParts<Options extends OperationOptions, Contents>(
  definition: OperationDefinition<Options, Contents>,
  options: Omit<Options, 'variant' | 'stream'>,
): Promise<Quantity> {
  const world = await open(false)
  try {
    const contest = await Contest.make(
      definition,
      { options, variants: ['bsp'], rotate: 64e6, now, spin: true },
      world,
    )
    contest.fill(2)
    await contest.pack()
    const { whole, steps } = contest.stepsOf('bsp')
    let turn = 0
    const executions = () => [whole, ...steps].map((at) => at(turn++))
    for (let warm = 0; warm < 3; warm++) await contest.gate.time(executions())
    const ratios: number[] = []
    const start = now()
    for (let round = 0; round < 201 && (round < 15 || now() - start < seconds * 0.5e9); round++) {
      const [all, ...alone] = (await contest.gate.time(executions())).map(({ time }) => time)
      ratios.push(all / alone.reduce((sum, time) => sum + time, 0))
    }
    return quantityOf(ratios)
  } finally {
    await world.close()
  }
}

const powers = (from: number, to: number, by: number): number[] => {
  const found: number[] = []
  for (let value = from; value <= to; value *= by) found.push(value)
  return found
}

const machine = await open(false)
const bandwidth = await readBandwidth(machine, now, true)
await machine.close()
const rows: Row[] = []
const columns = ['point', 'bsp', 'best fused', 'over bsp', 'at most', 'bsp / parts', 'explained', 'kept']
const print = (cells: readonly string[]): void => {
  if (!json) console.log(cells.map((cell, i) => cell.padEnd([34, 9, 22, 20, 8, 20, 10, 6][i])).join(' '))
}
const interval = ({ median, interval: [low, high] }: Quantity): string =>
  `${median.toFixed(3)} (${low.toFixed(2)}…${high.toFixed(2)})`
const us = (nanoseconds: number): string => `${(nanoseconds / 1e3).toFixed(0)} us`
function add(name: string, found: Row): void {
  rows.push(found)
  const { best, bsp, most, parts, explained, kept } = found
  print([
    name,
    us(bsp.time.median),
    `${best.variant} ${us(best.time.median)}`,
    interval(best.speedup!),
    most.toFixed(3),
    interval(parts),
    explained?.toFixed(2) ?? '-',
    kept.toFixed(2),
  ])
}

print([`${target}, ${dtype}, ${ranks} ranks, memory ${(bandwidth / 1e9).toFixed(1)} GB/s`])
print(columns)
if (only !== 'decode')
  for (const shard of ['K', 'M'] as const)
    for (const M of powers(1, 1024, 4)) {
      const options = { shape: { M, N: 1024, K: 2048 }, dtype, shard }
      add(`AG+GEMM along ${shard}, M=${M}`, await row(allGatherGemmOperation, options, bandwidth))
    }
if (only !== 'gemm')
  for (const tokens of powers(256, 65536, 4)) {
    const shape = { batch: 1, queryHeads: 32, kvHeads: 8, D: 128, tokens }
    add(`Flash Decode, KV=${tokens}`, await row(flashDecodeOperation, { shape, dtype }, bandwidth))
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
