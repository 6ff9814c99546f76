/** What `arke bench` was asked to measure, from the words of the command: which operation, variants, shapes and skews. */
import { allGatherGemmOperation } from '../ops/allGatherGemm/index.ts'
import { flashDecodeOperation } from '../ops/flashDecode/index.ts'
import {
  operandDTypes,
  type OperandDType,
  type OperationDefinition,
  type OperationOptions,
} from '../ops/operation.ts'
import { UsageError } from './errors.ts'

type Shape = Readonly<Record<string, number>>
/** The command line knows operations by what they have in common; each checks its own options. */
export type AnyDefinition = OperationDefinition<OperationOptions, unknown>

interface Known {
  readonly definition: AnyDefinition
  /** What a shape may name, in lower case, and the extents that are meant. */
  readonly extents: Readonly<Record<string, string>>
}

const known: Readonly<Record<string, Known>> = {
  'all-gather-gemm': {
    definition: allGatherGemmOperation as unknown as AnyDefinition,
    extents: { m: 'M', n: 'N', k: 'K' },
  },
  'flash-decode': {
    definition: flashDecodeOperation as unknown as AnyDefinition,
    extents: {
      batch: 'batch',
      queryheads: 'queryHeads',
      q: 'queryHeads',
      kvheads: 'kvHeads',
      d: 'D',
      tokens: 'tokens',
      kv: 'tokens',
    },
  },
}
export const operationNames = Object.keys(known)

export function operationCalled(name: string): Known {
  const plain = (text: string): string => text.toLowerCase().replaceAll('-', '')
  const found = operationNames.find((one) => plain(one) === plain(name))
  if (found === undefined)
    throw new UsageError(`there is no operation ${name}; there is ${operationNames.join(' and ')}`)
  return known[found]
}

/** Where A is sharded; nothing for an operation without shards, whose weights are not packed either. */
export function layoutOf(
  { definition }: Known,
  { shard, pack = true }: { readonly shard: string; readonly pack?: boolean },
): { readonly shard?: string } {
  if ('shard' in definition.defaults) {
    if (shard === 'K' || shard === 'M') return { shard }
    throw new UsageError(`--shard ${shard}: A is sharded along K or along M`)
  }
  if (shard === 'K' && pack) return {}
  throw new UsageError(`${definition.name} has no shards and packs nothing: leave out --shard and --no-pack`)
}

export function variantsOf({ name, variants }: AnyDefinition, text: string): readonly string[] {
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

/** One, or one for each value of the sweep. */
export function shapesOf(
  { definition, extents }: Known,
  shape: string | undefined,
  sweep: string | undefined,
): readonly Shape[] {
  const usual: Shape = definition.defaults.shape
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

function assignment(
  extents: Known['extents'],
  option: string,
  text: string,
): readonly [name: string, value: string] {
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

/** `1..1024` by powers of two, both ends included; or `1,3,7`. */
function valuesOf(text: string, values: string): readonly number[] {
  const range = /^(\d+)\s*\.\.\s*(\d+)$/.exec(values)
  if (!range) return values.split(',').map((value) => extentOf('--sweep', text, value.trim()))
  const [from, to] = [extentOf('--sweep', text, range[1]), extentOf('--sweep', text, range[2])]
  if (from > to) throw new UsageError(`--sweep ${text}: it goes from the smaller to the larger`)
  const found: number[] = []
  for (let value = from; value < to; value *= 2) found.push(value)
  return [...found, to]
}

/** Percentages, the first 0. */
export function skewsOf(text: string): readonly number[] {
  const skews = text.split(',').map((part) => {
    const value = part.trim() === '' ? NaN : Number(part)
    if (!(value >= 0 && value <= 1000))
      throw new UsageError(`--skew ${text}: percentages from 0 to 1000, with commas between`)
    return value
  })
  return [...new Set([0, ...skews])]
}
