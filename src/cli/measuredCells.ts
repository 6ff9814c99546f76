/**
 * Formats results of the GPU benchmark that ship with Arke (docs/results/h200.json) for a terminal. Each variant is a
 * bar. The lines compare bulk synchronous with fused: the measured ratio, its confidence interval and its lower bound.
 */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { packageFile } from '../files.ts'

interface Timing {
  readonly name: string
  readonly role: string
  readonly form: string
  /** The median time in microseconds. */
  readonly median: number
}
interface Cell {
  readonly key: string
  readonly ranks: number
  readonly dtype: string
  readonly shape: Readonly<Record<string, number>>
  readonly timings: readonly Timing[]
  readonly speedup?: { readonly median: number; readonly interval: readonly [number, number] }
}
export interface MeasuredCells {
  readonly machine: Readonly<Record<string, string | number>>
  readonly date: string
  readonly cells: readonly Cell[]
}

/** The shipped results, or null if the installation does not contain them. */
export function shippedCells(): MeasuredCells | null {
  const path = fileURLToPath(packageFile('docs/results/h200.json'))
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as MeasuredCells) : null
}

const width = 40

/** The fastest variant with a given role (such as bulk synchronous or fused), among timings without a CUDA graph. */
const fastest = (timings: readonly Timing[], role: string): Timing | undefined =>
  timings
    .filter((timing) => timing.role === role && timing.form === 'launches')
    .reduce<Timing | undefined>((best, one) => (best && best.median <= one.median ? best : one), undefined)

/**
 * Formats one cell as bars: the fastest bulk synchronous variant, the fastest fused variant, and the computation alone
 * as the lower bound on the time.
 */
export function cellBars({ ranks, dtype, shape, timings, speedup }: Cell, title: string): string[] {
  const rows = [
    ['bulk synchronous', fastest(timings, 'baseline')],
    ['fused', fastest(timings, 'fused')],
    ['computation alone', fastest(timings, 'alone')],
  ] as const
  const longest = Math.max(...rows.map(([, timing]) => timing?.median ?? 0))
  const extents = Object.entries(shape).map(([name, extent]) => `${name}=${extent}`)
  const bars = rows.flatMap(([what, timing]) => {
    if (!timing) return []
    const bar = '█'.repeat(Math.max(1, Math.round((width * timing.median) / longest)))
    return [`    ${what.padEnd(18)} ${bar.padEnd(width)} ${timing.median.toFixed(1)} us  ${timing.name}`]
  })
  const ratio = speedup
    ? [
        `    speed-up of fused over bulk synchronous: ${speedup.median.toFixed(2)}x (95 % interval ${speedup.interval.map((end) => end.toFixed(2)).join(' to ')})`,
      ]
    : []
  return [`  ${title}, ${extents.join(' ')}, ${dtype}, ${ranks} ranks`, ...bars, ...ratio]
}
