/**
 * Writes the measurements by which the option `auto` chooses a variant (measurements.ts in the folder of each
 * operation), from the output of `arke bench --json` and bench/gpu/run.ts:
 *
 *   arke bench all-gather-gemm --sweep M=1,4,16,64,256,1024 --json > k.json
 *   npx tsx bench/choices.ts k.json … docs/results/h200.json
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { format, resolveConfig } from 'prettier'
import { layoutOf, type Measurement } from '../src/operation/choice.ts'
import { operations, type AnyDefinition } from '../src/ops/operations.ts'
import type { BenchResult, Point, VariantResult } from '../src/runs/results.ts'
import { operationOf, type CellResult } from './gpu/cells.ts'
import type { Results } from './gpu/store.ts'

const files = process.argv.slice(2)
if (files.length === 0) {
  console.error('pass files with the output of arke bench --json')
  process.exit(1)
}

/**
 * The time of a variant in microseconds. Ratios of interleaved rounds distinguish variants more reliably than medians
 * do, because the machine's speed varies.
 */
function microseconds({ time, speedup }: VariantResult, bsp: VariantResult | undefined): number {
  const nanoseconds = bsp && speedup ? bsp.time.median / speedup.median : time.median
  return Math.round(nanoseconds / 100) / 10
}

const definitionOf = (operation: string): AnyDefinition => {
  const found = operations.find(({ name }) => name === operation)
  if (!found) throw new Error(`unknown operation: ${operation}`)
  return found
}

const measurementOf = (target: string, point: Point): Measurement => ({
  operation: point.operation,
  target,
  ranks: point.ranks,
  dtype: point.dtype,
  shape: point.shape,
  layout: layoutOf(definitionOf(point.operation), point.choices),
  times: Object.fromEntries(
    point.variants.map((one) => [
      one.variant,
      microseconds(
        one,
        point.variants.find(({ variant }) => variant === 'bsp'),
      ),
    ]),
  ),
})

/**
 * The measurements on a GPU, only of variants that were launched kernel by kernel and not as a CUDA graph. The
 * measurements may also contain names that are not variants, because `auto` looks up names of variants only.
 */
const measurementsOf = (cell: CellResult): Measurement[] => {
  const { section, ranks, dtype, shape, timings } = cell
  const found = operationOf(cell)
  if (found?.gpu.section !== section) return []
  const { definition } = found
  const times = timings
    .filter(({ name, role, form }) => form === 'launches' && role !== 'alone' && !name.includes('cuBLASLt'))
    .map(({ name, median }) => [name, Math.round(10 * median) / 10] as const)
  // In old result files, the layout options are fields of the measurement cell itself.
  const layout = layoutOf(definition, { ...cell, ...cell.layout })
  return [
    {
      operation: definition.name,
      target: 'cuda',
      ranks,
      dtype,
      shape,
      layout,
      times: Object.fromEntries(times),
    },
  ]
}

const results = files.map((file) => JSON.parse(readFileSync(file, 'utf8')) as BenchResult | Results)
const measurements = results.flatMap((result) =>
  'cells' in result
    ? result.cells.flatMap(measurementsOf)
    : result.points.filter(({ skew }) => skew === 0).map((point) => measurementOf(result.target, point)),
)
const machineOf = (result: BenchResult | Results): string =>
  'cells' in result
    ? String(result.machine.device)
    : `${result.machine.processor}, ${result.machine.cores} cores`
const machines = [...new Set(results.map(machineOf))]
for (const { name } of operations) {
  const own = measurements.filter(({ operation }) => operation === name)
  if (own.length === 0) continue
  const path = new URL(`../src/ops/${name}/measurements.ts`, import.meta.url)
  const text = `/** What \`auto\` goes by where a program has measured nothing itself. Written by bench/choices.ts; do not edit. */
import type { Measurement } from '../../operation/choice.ts'

/** On ${machines.join('; ')}; in microseconds. */
export const measurements: readonly Measurement[] = ${JSON.stringify(own)}
`
  writeFileSync(path, await format(text, { ...(await resolveConfig(path.pathname)), parser: 'typescript' }))
  console.log(`${name}: ${own.length} points`)
}
