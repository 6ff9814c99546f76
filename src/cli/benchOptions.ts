/** Parses the options of `arke bench`: operation, variants, shapes and skews. */
import { layoutOf as usualLayout } from '../operation/choice.ts'
import { operandDTypes, type AnyOperation, type OperandDType } from '../operation/definition.ts'
import { commandName, operations, type AnyDefinition } from '../ops/operations.ts'
import { UsageError } from './errors.ts'

type Shape = Readonly<Record<string, number>>

const operationNames = operations.map(commandName)

/** Finds an operation by name, with or without hyphens. If no operation has the name, the result is undefined. */
export function operationNamed(name: string): AnyDefinition | undefined {
  const plain = (text: string): string => text.toLowerCase().replaceAll('-', '')
  return operations.find((one) => plain(one.name) === plain(name))
}

export function operationCalled(name: string): AnyDefinition {
  const found = operationNamed(name)
  if (found === undefined)
    throw new UsageError(`there is no operation ${name}; there is ${operationNames.join(', ')}`)
  return found
}

/** The options of the command line that describe the layout of the inputs. */
export interface LayoutOptions {
  /** The option `--layout`: NAME=VALUE, any number of times. */
  readonly layout?: readonly string[]
  /** The option `--shard`, which is short for `--layout shard=VALUE`. */
  readonly shard?: string
  readonly pack?: boolean
}

/**
 * The layout of the inputs: a value for each layout option of the operation. The layout is empty for an operation with
 * only one layout.
 */
export function layoutOf(
  operation: AnyOperation,
  { layout = [], shard, pack = true }: LayoutOptions,
): Readonly<Record<string, string>> {
  const { name, layouts = {}, packs } = operation
  if (!pack && !packs) throw new UsageError(`${name} has no weights to pack: leave out --no-pack`)
  const given = [
    ...layout.map((text) => [`--layout ${text}`, ...namedValue('--layout', text)] as const),
    ...(shard === undefined ? [] : [[`--shard ${shard}`, 'shard', shard] as const]),
  ]
  const chosen = { ...usualLayout(operation, { ...operation.defaults }) }
  const names = Object.keys(layouts)
  for (const [option, of, value] of given) {
    if (names.length === 0) throw new UsageError(`${option}: the inputs of ${name} have only one layout`)
    if (!Object.hasOwn(layouts, of))
      throw new UsageError(`${option}: ${name} has no layout option ${of}; it has ${names.join(', ')}`)
    if (!layouts[of].includes(value)) throw new UsageError(`${option}: ${of} is ${layouts[of].join(' or ')}`)
    chosen[of] = value
  }
  return chosen
}

function namedValue(option: string, text: string): readonly [name: string, value: string] {
  const match = /^\s*(\w+)\s*=\s*(.+?)\s*$/.exec(text)
  if (!match) throw new UsageError(`${option} ${text.trim()}: write it as NAME=VALUE, such as shard=M`)
  return [match[1], match[2]]
}

export function variantsOf({ name, variants }: AnyOperation, text: string): readonly string[] {
  if (text === 'all') return variants
  const wanted = text.split(',').map((variant) => variant.trim())
  const strange = wanted.find((variant) => !variants.includes(variant))
  if (strange !== undefined)
    throw new UsageError(`--variant ${strange}: ${name} has ${variants.join(', ')}, or all`)
  return variants.filter((variant) => wanted.includes(variant))
}

export function dtypeCalled(name: string): OperandDType {
  const dtype = operandDTypes.find((one) => one === name)
  if (!dtype) throw new UsageError(`--dtype ${name}: there is ${operandDTypes.join(', ')}`)
  return dtype
}

/**
 * The dtype that the user requested, or the operation's default. An error is thrown if the kernels do not accept the
 * dtype.
 */
export function dtypeOf({ name, dtypes, defaults }: AnyOperation, given: string | undefined): OperandDType {
  const dtype = dtypeCalled(given ?? defaults.dtype)
  if (dtypes && !dtypes.includes(dtype))
    throw new UsageError(`--dtype ${dtype}: ${name} accepts ${dtypes.join(', ')}`)
  return dtype
}

/** Returns one shape, or one shape for each value of the sweep. */
export function shapesOf(
  { defaults, aliases = {} }: AnyOperation,
  shape: string | undefined,
  sweep: string | undefined,
): readonly Shape[] {
  const usual: Shape = defaults.shape
  const names = Object.keys(usual).map((name) => [name.toLowerCase(), name])
  const extents = { ...Object.fromEntries(names), ...aliases } as Extents
  const given: Record<string, number> = {}
  for (const part of (shape ?? '').split(',').filter((part) => part.trim() !== '')) {
    const [name, value] = assignment(extents, '--shape', part)
    if (Object.hasOwn(given, name)) throw new UsageError(`--shape ${shape}: ${name} is given twice`)
    given[name] = extentOf('--shape', part, value)
  }
  const one = { ...usual, ...given }
  if (sweep === undefined) return [one]
  const [name, values] = assignment(extents, '--sweep', sweep)
  return valuesOf(sweep, values).map((value) => ({ ...one, [name]: value }))
}

/** Maps the names that a shape may use, in lower case, to the names of the extents. */
type Extents = Readonly<Record<string, string>>

function assignment(extents: Extents, option: string, text: string): readonly [name: string, value: string] {
  const match = /^\s*(\w+)\s*=\s*(.+)$/.exec(text)
  if (!match) throw new UsageError(`${option} ${text.trim()}: write it as NAME=VALUE, such as M=64`)
  const name = match[1].toLowerCase()
  if (!Object.hasOwn(extents, name)) {
    const others = (extent: string): string[] =>
      Object.keys(extents).filter((one) => extents[one] === extent && one !== extent.toLowerCase())
    const there = [...new Set(Object.values(extents))].map((extent) =>
      [extent, ...others(extent).map((one) => `or ${one.toUpperCase()}`)].join(' '),
    )
    throw new UsageError(`${option} ${text.trim()}: there is no ${match[1]}; there is ${there.join(', ')}`)
  }
  return [extents[name], match[2].trim()]
}

function extentOf(option: string, text: string, value: string): number {
  if (!/^\d+$/.test(value) || Number(value) < 1)
    throw new UsageError(`${option} ${text.trim()}: extents are whole numbers from 1 up`)
  return Number(value)
}

/** Parses `1..1024` as all powers of two in the range, including both ends. Parses `1,3,7` as a list. */
function valuesOf(text: string, values: string): readonly number[] {
  const range = /^(\d+)\s*\.\.\s*(\d+)$/.exec(values)
  if (!range) return values.split(',').map((value) => extentOf('--sweep', text, value.trim()))
  const [from, to] = [extentOf('--sweep', text, range[1]), extentOf('--sweep', text, range[2])]
  if (from > to) throw new UsageError(`--sweep ${text}: write the smaller number first`)
  const found: number[] = []
  for (let value = from; value < to; value *= 2) found.push(value)
  return [...found, to]
}

/** Parses a list of skews in percent. The first skew of the parsed list is 0. */
export function skewsOf(text: string): readonly number[] {
  const skews = text.split(',').map((part) => {
    const value = part.trim() === '' ? NaN : Number(part)
    if (!(value >= 0 && value <= 1000))
      throw new UsageError(`--skew ${text}: write percentages from 0 to 1000, separated by commas`)
    return value
  })
  return [...new Set([0, ...skews])]
}
