/** What is said of a measured point in words and tables alike: its name, its quantities, and which variant is compared with which. */
import type { Point, Quantity, VariantResult } from '../../runs/results.ts'
import { digits, plural } from '../format.ts'
import { time } from '../units.ts'

/** The variant that all others are compared with. */
export const bulkOf = ({ variants }: Point): VariantResult | null =>
  variants.find(({ variant }) => variant === 'bsp') ?? null

export type Compared = VariantResult & { readonly speedup: Quantity }

const isCompared = (result: VariantResult): result is Compared => result.speedup !== null

/** The fastest of those that were compared with `bsp`. */
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

/** All that tells it from other points of its operation. */
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

/** Whether the interval leaves no doubt on which side of 1 a ratio lies. */
export function verdict({ interval: [low, high] }: Quantity): 'faster' | 'slower' | 'alike' {
  return low > 1 ? 'faster' : high < 1 ? 'slower' : 'alike'
}

/** In the order in which each key comes first. */
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
