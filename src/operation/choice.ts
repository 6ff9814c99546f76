/**
 * Chooses the variant of an operation for `variant: 'auto'`. For `auto`, the chosen variant is the fastest one at the
 * measured point (shape, dtype and ranks) that is nearest to the requested point. Only measurements from the same
 * family of machines, with the same layout and the same kind of memory, are considered. The kind of memory is either
 * one memory that all ranks share, or several memories with links between them. The distance between two points is the
 * number of doublings by which their extents and their numbers of ranks differ, all added up; different dtypes add one
 * half. Measurements that the program made itself (`rememberMeasurements`, from the output of `arke bench --json`) take
 * precedence over shipped measurements.
 */
import { isOneMemory } from '../world/machine.ts'
import type { OperationDefinition, OperationOptions, TilingWorld } from './definition.ts'

/** The times of the variants at one benchmark point, in microseconds. */
export interface Measurement {
  readonly operation: string
  readonly target: string
  readonly ranks: number
  /**
   * True if, during the measurement, each rank had its own memory, with links between the memories. Virtual ranks and
   * CPU ranks share one memory.
   */
  readonly hasLinks?: boolean
  readonly dtype: string
  readonly shape: Readonly<Record<string, number>>
  /** Options that must be equal for a measurement to apply, such as { shard: 'K' }. */
  readonly layout: Readonly<Record<string, string>>
  readonly times: Readonly<Record<string, number>>
}
export type Asked = Omit<Measurement, 'times'>

export interface Choice {
  readonly variant: string
  /** A sentence that tells the user why the variant was chosen. */
  readonly reason: string
}

const remembered: Measurement[] = []

/** Adds measurements that take precedence over the shipped measurements in this process. */
export function rememberMeasurements(measurements: readonly Measurement[]): void {
  remembered.unshift(...measurements)
}

/**
 * The requested variant, or the variant chosen for `auto`. The argument `machine` may be the machine of a world, or the
 * description of a machine that is not present.
 */
export function variantOf<Options extends OperationOptions>(
  definition: Pick<OperationDefinition<Options, never>, 'name' | 'variants' | 'layouts' | 'measurements'>,
  { ranks, machine }: TilingWorld,
  options: Options,
): { readonly variant: string; readonly reason?: string } {
  if (options.variant !== 'auto') return { variant: options.variant }
  const { name, variants, measurements } = definition
  const { dtype, shape } = options
  const layout = layoutOf(definition, options as unknown as Readonly<Record<string, unknown>>)
  const hasLinks = ranks > 1 && !isOneMemory(machine)
  return choose(
    { operation: name, target: machine.family, ranks, hasLinks, dtype, shape, layout },
    variants,
    measurements,
  )
}

/** Extracts the options that describe the layout of the inputs. */
export function layoutOf(
  { layouts = {} }: { readonly layouts?: OperationDefinition<OperationOptions, never>['layouts'] },
  given: Readonly<Record<string, unknown>>,
): Measurement['layout'] {
  return Object.fromEntries(Object.keys(layouts).map((name) => [name, String(given[name])]))
}

/** Chooses one of the variants in the list `variants`. If no measurement applies, the last variant is chosen. */
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
  const links = asked.hasLinks ? ' with links between ranks' : ''
  return {
    variant,
    reason: `nothing was measured for ${asked.operation} on ${asked.target}${links}, so the default is ${variant}`,
  }
}

function nearestOf(asked: Asked, table: readonly Measurement[]): Measurement | undefined {
  let [nearest, least]: [Measurement | undefined, number] = [undefined, Infinity]
  for (const measurement of table) {
    const distance = distanceBetween(asked, measurement)
    if (distance < least) [nearest, least] = [measurement, distance]
  }
  return nearest
}

/**
 * The distance between the requested and the measured point, as a number of doublings; infinity if the measurement does
 * not apply to the requested point.
 */
function distanceBetween(asked: Asked, measured: Asked): number {
  if (asked.operation !== measured.operation || asked.target !== measured.target) return Infinity
  if ((asked.hasLinks ?? false) !== (measured.hasLinks ?? false)) return Infinity
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
