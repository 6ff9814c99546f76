/**
 * Recognises GEMM → reduce-scatter in a chain of kernels that the audit found. Kernels after the reduce-scatter do not
 * belong to the operation.
 *
 * The data that a rank sends must be the result of the product (M x N), with the dtype of its operands. The product sums
 * over the rank's slice of K. A reduce-scatter divides its data in row-major order, so it scatters the product along M.
 * Traces do not show scattering along N, which other kernels prepare.
 */
import { operandDType } from '../gathered/recognise.ts'
import type { FoundChain, Recognised } from '../../taxes/recognition.ts'

export function recogniseGemmReduceScatter({ before, collective }: FoundChain): Recognised | null {
  const product = before?.computes
  if (collective.kind !== 'reduceScatter' || product?.kind !== 'product') return null
  const { left, right, columns: N } = product
  const dtype = operandDType(left.type.name)
  if (!dtype || right.type !== left.type) return null
  const depth = left.shape[left.shape.length - 1]
  const M = left.elements / depth
  const { sends, brings } = collective
  if (!sends.some(({ elements, type }) => type === left.type && elements === M * N)) return null
  const ranks = collective.ranks ?? (brings.length === 1 ? (M * N) / brings[0].elements : NaN)
  if (!Number.isInteger(ranks) || M % ranks !== 0) return null
  const shape = { M, N, K: depth * ranks }
  return { shape, dtype, layout: { scatter: 'M' }, ranks, replaces: ['before', 'collective'] }
}
