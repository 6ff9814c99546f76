/**
 * Recognises an all-gather followed by a matrix product in a chain of kernels that the audit found.
 *
 * The result of the all-gather must have as many elements as the left operand of the product (M x K), and the same
 * dtype. The shape of one rank's contribution shows the sharded axis: M x (K / ranks) means sharding along K, (M /
 * ranks) x K means sharding along M.
 */
import type { FoundChain } from '../../taxes/recognition.ts'
import { type OperandDType, operandDTypes } from '../../operation/definition.ts'

export interface GatheredProduct {
  readonly shape: { readonly M: number; readonly N: number; readonly K: number }
  readonly dtype: OperandDType
  readonly shard: 'K' | 'M'
  readonly ranks: number
}

/** Returns the dtype with the given name, or null if operations do not support that dtype. */
export const operandDType = (name: string): OperandDType | null =>
  operandDTypes.find((dtype) => dtype === name) ?? null

export function gatheredProduct({ collective, after }: FoundChain): GatheredProduct | null {
  const product = after?.computes
  if (collective.kind !== 'allGather' || product?.kind !== 'product') return null
  const { left, right, columns } = product
  const dtype = operandDType(left.type.name)
  if (!dtype || right.type !== left.type) return null
  const { brings, sends, slices } = collective
  if (!brings.some(({ elements, type }) => type === left.type && elements === left.elements)) return null
  const ranks = collective.ranks ?? (sends.length === 1 ? left.elements / sends[0].elements : NaN)
  if (!Number.isInteger(ranks)) return null
  const K = left.shape[left.shape.length - 1]
  const M = left.elements / K
  const isSlice = (rows: number, depth: number): boolean =>
    slices.some((slice) => slice.at(-1) === depth && elementsOf(slice) === rows * depth)
  const shard = isSlice(M, K / ranks) ? 'K' : isSlice(M / ranks, K) ? 'M' : null
  return shard && { shape: { M, N: columns, K }, dtype, shard, ranks }
}

const elementsOf = (shape: readonly number[]): number =>
  shape.reduce((product, extent) => product * extent, 1)
