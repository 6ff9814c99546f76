/**
 * Helpers for measurements: they run variants interleaved in one process, compute medians with a 95 % interval, and
 * give all benchmarks one table format and one JSON format.
 */
import { quantityOf } from '../src/runs/quantity.ts'
import type { Quantity } from '../src/runs/results.ts'

export interface Figure extends Quantity {
  readonly name: string
  readonly unit: string
  readonly goal?: string
  readonly reached?: boolean
}

export interface Variant {
  readonly name: string
  readonly unit: string
  /** Takes one sample, measured in the unit `unit`. */
  readonly sample: () => number | Promise<number>
  readonly goal?: { readonly text: string; readonly reached: (median: number) => boolean }
}

/** Samples every variant once per round, so that disturbances of the machine affect all variants. */
export async function measure(variants: readonly Variant[], rounds: number): Promise<Figure[]> {
  const samples = variants.map((): number[] => [])
  for (const variant of variants) await variant.sample()
  for (let round = 0; round < rounds; round++) {
    for (const [i, variant] of variants.entries()) samples[i].push(await variant.sample())
    if (process.stderr.isTTY) process.stderr.write(`\rround ${round + 1} of ${rounds} `)
  }
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K')
  return variants.map(({ name, unit, goal }, i) => figure(name, unit, samples[i], goal))
}

/** Computes a figure of the table from its samples. */
export function figure(
  name: string,
  unit: string,
  samples: readonly number[],
  goal?: Variant['goal'],
): Figure {
  const quantity = quantityOf(samples)
  return { name, unit, ...quantity, goal: goal?.text, reached: goal?.reached(quantity.median) }
}

/** Prints a table, or one JSON document if the command line has --json. */
export function present(title: string, figures: readonly Figure[]): void {
  if (process.argv.includes('--json')) {
    const machine = { node: process.version, platform: `${process.platform} ${process.arch}` }
    console.log(JSON.stringify({ title, machine, figures }, undefined, 2))
    return
  }
  const number = (x: number): string => (x >= 100 ? x.toFixed(0) : x.toPrecision(3))
  const rows = figures.map(({ name, unit, median, interval, goal, reached }) => [
    name,
    `${number(median)} ${unit}`,
    `${number(interval[0])} … ${number(interval[1])}`,
    goal ?? '',
    reached === undefined ? '' : reached ? 'yes' : 'NO',
  ])
  const table = [['', 'median', '95 % interval', 'goal', 'reached'], ...rows]
  const widths = table[0].map((_, column) => Math.max(...table.map((row) => row[column].length)))
  console.log(`${title} (Node ${process.version})`)
  for (const row of table)
    console.log(
      `  ${row
        .map((cell, i) => cell.padEnd(widths[i]))
        .join('  ')
        .trimEnd()}`,
    )
}
