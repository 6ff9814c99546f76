/**
 * Summarises samples by their median and its 95 % confidence interval. The confidence interval is computed from order
 * statistics, which assume nothing about the distribution.
 */
import type { Quantity } from './results.ts'

export function quantityOf(samples: readonly number[]): Quantity {
  if (samples.length === 0) throw new RangeError('no samples')
  const sorted = Float64Array.from(samples).sort()
  const last = sorted.length - 1
  const reach = Math.ceil(0.98 * Math.sqrt(sorted.length))
  const at = (index: number): number => sorted[Math.min(Math.max(Math.round(index), 0), last)]
  return {
    median: (sorted[Math.floor(last / 2)] + sorted[Math.ceil(last / 2)]) / 2,
    interval: [at(last / 2 - reach), at(last / 2 + reach)],
    samples: sorted.length,
  }
}

export const medianOf = (samples: readonly number[]): number => quantityOf(samples).median
