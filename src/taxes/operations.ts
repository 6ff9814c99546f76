/**
 * Which operation of Arke does what a chain does, where the shapes of both are known and match:
 *
 * - `allGatherGemm`: an all-gather in bf16 whose result has as many elements as the first operand, M x K, of the product
 *   after it, and to which each rank brings a slice along K: what the all-gather was called with, or what the kernel
 *   before it wrote, is M x K over the ranks. Slices of rows, as of tokens, are not what Arke's operation gathers.
 * - `flashDecode`: attention of one query token a sequence in bf16, whose result goes into an all-gather or all-reduce.
 */
import { NONE, type Operands, type RankTimeline } from '../timeline/timeline.ts'
import { bfloat16, elementType } from './dtypes.ts'
import { communicationTraffic, productShape, type Traffic, trafficOf } from './shapes.ts'

export interface Operation {
  readonly name: 'allGatherGemm' | 'flashDecode'
  readonly shapes: string
}

/** Where the operands of a product are, and whether the second is transposed. */
const products: Readonly<Record<string, readonly [a: number, b: number, transposed: boolean]>> = {
  'aten::mm': [0, 1, false],
  'aten::matmul': [0, 1, false],
  'aten::addmm': [1, 2, false],
  'aten::linear': [0, 1, true],
}

/** Where queries and keys are, and which extents are batch, heads and tokens; tokens -1: one a sequence by definition. */
type Layout = readonly [q: number, k: number, batch: number, heads: number, tokens: number]
const attentions: Readonly<Record<string, Layout>> = {
  'aten::scaled_dot_product_attention': [0, 1, 0, 1, 2],
  'aten::_scaled_dot_product_flash_attention': [0, 1, 0, 1, 2],
  'aten::_scaled_dot_product_efficient_attention': [0, 1, 0, 1, 2],
  'aten::_scaled_dot_product_cudnn_attention': [0, 1, 0, 1, 2],
  'aten::_flash_attention_forward': [0, 1, 0, 2, 1],
  'flash_attn::_flash_attn_forward': [0, 1, 0, 2, 1],
  '_C::paged_attention_v1': [1, 2, 0, 1, -1],
  '_C::paged_attention_v2': [4, 5, 0, 1, -1],
}

/** The operation for `before`, then a collective of this kind, then `after`; events of the rank. */
export function operationOf(
  rank: RankTimeline,
  names: readonly string[],
  kind: string | null,
  before: number,
  collective: number,
  after: number,
): Operation | null {
  if (kind !== 'allGather' && kind !== 'allReduce') return null
  const traffic = messageOf(rank, names, collective)
  if (!traffic) return null
  return (
    (kind === 'allGather' ? allGatherGemm(rank, names, traffic, before, collective, after) : null) ??
    flashDecode(rank, names, traffic, before)
  )
}

function callOf(rank: RankTimeline, names: readonly string[], event: number): [string, Operands] | null {
  const { operator, operands, name } = rank.events
  const call = operator[event]
  if (call === NONE || operands[call] === NONE) return null
  return [names[name[call]], rank.operands[operands[call]]]
}

function messageOf(rank: RankTimeline, names: readonly string[], event: number): Traffic | null {
  const communication = rank.events.communication[event]
  const told = communication === NONE ? null : communicationTraffic(rank.communications[communication])
  if (told) return told
  const call = callOf(rank, names, event)
  return call && trafficOf(...call)
}

const count = (shape: readonly number[]): number => shape.reduce((product, extent) => product * extent, 1)

function allGatherGemm(
  rank: RankTimeline,
  names: readonly string[],
  { reads, writes }: Traffic,
  before: number,
  collective: number,
  after: number,
): Operation | null {
  const call = callOf(rank, names, after)
  if (!call || !Object.hasOwn(products, call[0])) return null
  const [a, b, transposed] = products[call[0]]
  const { shapes, types } = call[1]
  const [left, right] = [shapes[a] ?? [], shapes[b] ?? []]
  const product = productShape(left, right, transposed)
  if (!product || left.length < 2 || right.length !== 2) return null
  if (elementType(types[a] ?? '') !== bfloat16 || elementType(types[b] ?? '') !== bfloat16) return null
  if (!writes.some(({ elements, type }) => type === bfloat16 && elements === count(left))) return null
  const depth = left[left.length - 1]
  const world = worldOf(rank, collective) ?? (reads.length === 1 ? count(left) / reads[0].elements : NaN)
  if (!Number.isInteger(world) || depth % world !== 0) return null
  const slice = [count(left) / depth, depth / world]
  const brought = [
    ...(callOf(rank, names, collective)?.[1].shapes ?? []),
    ...(writesOf(rank, names, before) ?? []).map(({ shape }) => shape),
  ]
  if (!brought.some((shape) => shape.length === 2 && shape[0] === slice[0] && shape[1] === slice[1]))
    return null
  const width = product[product.length - 1]
  return {
    name: 'allGatherGemm',
    shapes: `M=${count(left) / depth}, N=${width}, K=${depth} over ${world} ranks`,
  }
}

function writesOf(rank: RankTimeline, names: readonly string[], event: number): Traffic['writes'] | null {
  const call = callOf(rank, names, event)
  return call && (trafficOf(...call)?.writes ?? null)
}

function worldOf({ events, communications }: RankTimeline, event: number): number | null {
  const communication = events.communication[event]
  return communication === NONE ? null : communications[communication].groupSize
}

function flashDecode(
  rank: RankTimeline,
  names: readonly string[],
  { reads }: Traffic,
  before: number,
): Operation | null {
  const call = callOf(rank, names, before)
  if (!call || !Object.hasOwn(attentions, call[0])) return null
  const [q, k, batch, heads, tokens] = attentions[call[0]]
  const { shapes, types } = call[1]
  const [query, key] = [shapes[q] ?? [], shapes[k] ?? []]
  if (query.length !== (tokens < 0 ? 3 : 4) || (tokens >= 0 && query[tokens] !== 1)) return null
  if (elementType(types[q] ?? '') !== bfloat16) return null
  if (!reads.some(({ elements }) => elements === count(query))) return null
  // Pages of a cache keep the heads in the same place as queries do, behind the number of the page.
  const groups = query[heads] / key[heads]
  if (!Number.isInteger(groups)) return null
  return {
    name: 'flashDecode',
    shapes: `batch=${query[batch]}, KV heads=${key[heads]}, G=${groups}, D=${query[query.length - 1]}`,
  }
}
