/**
 * Which variant `auto` is: the one that was fastest at the measured point nearest to what is asked for, on the same target and
 * with the same layout. Extents and ranks count by their ratio, since times go with products of them. What a program has
 * measured itself (`rememberMeasurements`, from what `arke bench --json` writes) goes before what is shipped.
 */
import type { OperationDefinition, OperationOptions, TilingWorld } from './operation.ts'

/** The times of the variants at one point, in microseconds. */
export interface Measurement {
  readonly operation: string
  readonly target: string
  readonly ranks: number
  readonly dtype: string
  readonly shape: Readonly<Record<string, number>>
  /** What must be the same for a measurement to say anything: { shard: 'K' }. */
  readonly layout: Readonly<Record<string, string>>
  readonly times: Readonly<Record<string, number>>
}
export type Asked = Omit<Measurement, 'times'>

export interface Choice {
  readonly variant: string
  /** In words. */
  readonly reason: string
}

const remembered: Measurement[] = []

/** Choose by these first, in this process. */
export function rememberMeasurements(measurements: readonly Measurement[]): void {
  remembered.unshift(...measurements)
}

/** The variant that is asked for, or chosen for `auto`: on a world, or on a machine that is only described. */
export function variantOf<Options extends OperationOptions>(
  definition: Pick<OperationDefinition<Options, never>, 'name' | 'variants' | 'layouts' | 'measurements'>,
  { ranks, machine }: TilingWorld,
  options: Options,
): { readonly variant: string; readonly reason?: string } {
  if (options.variant !== 'auto') return { variant: options.variant }
  const { name, variants, measurements } = definition
  const { dtype, shape } = options
  const layout = layoutOf(definition, options as unknown as Readonly<Record<string, unknown>>)
  return choose(
    { operation: name, target: machine.family, ranks, dtype, shape, layout },
    variants,
    measurements,
  )
}

/** Of options or results, those that say how inputs are laid out. */
export function layoutOf(
  { layouts = {} }: { readonly layouts?: OperationDefinition<OperationOptions, never>['layouts'] },
  given: Readonly<Record<string, unknown>>,
): Measurement['layout'] {
  return Object.fromEntries(Object.keys(layouts).map((name) => [name, String(given[name])]))
}

/** `variants` are those there are; the last is taken where nothing was measured. */
export function choose(asked: Asked, variants: readonly string[], shipped: readonly Measurement[]): Choice {
  for (const table of [remembered, shipped]) {
    const nearest = nearestOf(asked, table)
    if (!nearest) continue
    const times = Object.entries(nearest.times)
      .filter(([variant]) => variants.includes(variant))
      .sort(([, a], [, b]) => a - b)
    if (times.length === 0) continue
    const [variant, time] = times[0]
    const { bsp } = nearest.times
    const gain =
      bsp !== undefined && variant !== 'bsp' ? `, ${(bsp / time).toFixed(2)} times as fast as bsp` : ''
    return { variant, reason: `${variant} was the fastest at ${describe(nearest)}${gain}` }
  }
  const variant = variants[variants.length - 1]
  return { variant, reason: `nothing was measured for ${asked.operation} on ${asked.target}: ${variant}` }
}

function nearestOf(asked: Asked, table: readonly Measurement[]): Measurement | undefined {
  let [nearest, least]: [Measurement | undefined, number] = [undefined, Infinity]
  for (const measurement of table) {
    const distance = distanceBetween(asked, measurement)
    if (distance < least) [nearest, least] = [measurement, distance]
  }
  return nearest
}

/** In doublings; infinite where one says nothing about the other. */
function distanceBetween(asked: Asked, measured: Asked): number {
  if (asked.operation !== measured.operation || asked.target !== measured.target) return Infinity
  if (Object.entries(asked.layout).some(([name, value]) => measured.layout[name] !== value)) return Infinity
  const doublings = (a: number, b: number): number => Math.abs(Math.log2(a / b))
  let distance = doublings(asked.ranks, measured.ranks) + (asked.dtype === measured.dtype ? 0 : 0.5)
  for (const [name, extent] of Object.entries(asked.shape)) {
    if (!(measured.shape[name] > 0)) return Infinity
    distance += doublings(extent, measured.shape[name])
  }
  return distance
}

const describe = ({ shape, ranks, dtype, target }: Asked): string =>
  `${Object.entries(shape)
    .map(([name, extent]) => `${name}=${extent}`)
    .join(', ')} (${dtype}, ${ranks} ranks on ${target}), the nearest point measured`
