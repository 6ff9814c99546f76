/**
 * Describes a measured point for sentences and tables: its name, its quantities, and which of its variants are
 * compared.
 */
import type { Contention, Point, Quantity, VariantResult } from '../../runs/results.ts'
import { digits, percent, plural } from '../format.ts'
import { time } from '../units.ts'

/** The variant with which all other variants are compared. */
export const bulkOf = ({ variants }: Point): VariantResult | null =>
  variants.find(({ variant }) => variant === 'bsp') ?? null

export type Compared = VariantResult & { readonly speedup: Quantity }

const isCompared = (result: VariantResult): result is Compared => result.speedup !== null

/** The fastest variant that was compared with `bsp`. */
export function bestOf({ variants }: Point): Compared | null {
  return variants
    .filter(isCompared)
    .reduce<Compared | null>(
      (best, one) => (best === null || one.speedup.median > best.speedup.median ? one : best),
      null,
    )
}

export const extentsOf = ({ shape }: Pick<Point, 'shape'>): string =>
  Object.entries(shape)
    .map(([name, extent]) => `${name}=${extent}`)
    .join(' ')

/** The name of a benchmark point lists everything that distinguishes it from the other points of its operation. */
export function pointName(point: Point): string {
  const { choices, dtype, ranks, skew } = point
  return [
    extentsOf(point),
    ...Object.entries(choices).map(([name, value]) => `${name} ${value}`),
    dtype,
    plural(ranks, 'rank'),
    ...(skew > 0 ? [`last rank ${skew} % late`] : []),
  ].join(', ')
}

export const timeInterval = ({ interval: [low, high] }: Quantity): string => `${time(low)} to ${time(high)}`

export const ratioInterval = ({ interval: [low, high] }: Quantity): string =>
  `${digits(low)} to ${digits(high)}`

/**
 * How many times faster than `bsp` a variant is in the recorded executions. The field `median` is the time ratio of the
 * two executions that the page draws. Each timeline shows the median execution of its variant. The confidence interval
 * of the speed-up is derived from the 95 % intervals of both medians.
 */
export function drawnRatio(bulk: VariantResult, own: VariantResult): Quantity {
  const [before, after] = [bulk.recorded, own.recorded]
  return {
    median: bulk.picture.wall / own.picture.wall,
    interval: [before.interval[0] / after.interval[1], before.interval[1] / after.interval[0]],
    samples: Math.min(before.samples, after.samples),
  }
}

export type Verdict = 'faster' | 'slower' | 'alike' | 'disputed'

/**
 * The result of comparing a variant with `bsp`. A variant counts as faster or slower than `bsp` only under two
 * conditions: the 95 % interval of its speed-up excludes 1, and the recorded executions that a page shows (as timelines
 * and bars) give the same result. No page can therefore claim what its own timelines contradict. The comparison with
 * `bsp` is `disputed` if the timelines on the page would contradict it.
 */
export function verdict(bulk: VariantResult, own: Compared): Verdict {
  const [low, high] = own.speedup.interval
  if (low <= 1 && high >= 1) return 'alike'
  const isFaster = low > 1
  const shown = [bulk.picture.wall / own.picture.wall, bulk.ledger.wall / own.ledger.wall]
  if (!shown.every((ratio) => (isFaster ? ratio > 1 : ratio < 1))) return 'disputed'
  return isFaster ? 'faster' : 'slower'
}

/** The load of the processors that was measured before the variants ran. */
export function contentionText({ interval, cores, steal, runnable }: Contention): string {
  const stolen = steal === null ? 'steal time unknown' : `steal time ${percent(steal, 1)}`
  const queue =
    runnable === null
      ? 'run queue unknown'
      : `${digits(runnable)} other runnable threads on ${plural(cores, 'core')}`
  return steal === null && runnable === null
    ? 'unknown (only Linux reports steal time and the run queue)'
    : `${stolen}, ${queue}, over ${time(interval)}`
}

/** Groups items by a key, in the order in which each key first occurs. */
export function groupedBy<Thing>(
  things: readonly Thing[],
  key: (thing: Thing) => string,
): Map<string, Thing[]> {
  const groups = new Map<string, Thing[]>()
  for (const thing of things) {
    const group = groups.get(key(thing))
    if (group === undefined) groups.set(key(thing), [thing])
    else group.push(thing)
  }
  return groups
}
