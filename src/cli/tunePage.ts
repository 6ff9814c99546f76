/** Formats what `arke tune` prints for operations and for scenarios: the headline, the machine, and what was stored. */
import { digits, plural } from '../report/format.ts'
import type { Headline } from '../report/headline.ts'
import { reach } from '../report/runs/terminal.ts'
import type { BenchResult, Quantity } from '../runs/results.ts'

export const speedupText = (speedup: Quantity): string => `${digits(speedup.median)}× ${reach(speedup)}`

/** The largest speed-up. `speedup` is undefined for a benchmark point at which the default is the fastest. */
export function speedupHeadline(
  points: readonly { readonly title: string; readonly speedup: Quantity | undefined }[],
): Headline {
  const faster = points.flatMap(({ title, speedup }) => (speedup ? [{ title, median: speedup.median }] : []))
  const [best] = faster.sort((a, b) => b.median - a.median)
  if (!best) return { figure: '', text: 'No candidate is significantly faster than the default.' }
  const where = points.length > 1 ? `at best (${best.title})` : `(${best.title})`
  return { figure: `${digits(best.median)}×`, text: `as fast as with the default, ${where}.` }
}

/**
 * Says what `arke tune` has stored in the file. `defaults` states for each stored point whether the default is the
 * fastest.
 */
export function storedLine(file: string, defaults: readonly boolean[]): string {
  const usual = defaults.filter((one) => one).length
  const faster = defaults.length - usual
  const why = 'no candidate is significantly faster'
  if (faster === 0) return `stored in ${file}: the default, because ${why}`
  if (usual === 0) return `stored in ${file}: the best`
  return `stored in ${file}: the best of ${plural(faster, 'point')}, and the default of ${plural(usual, 'point')} for which ${why}`
}

export const pageFacts = (target: string, { processor, node }: BenchResult['machine']): string[] => [
  `target ${target}`,
  processor,
  `node ${node}`,
]
