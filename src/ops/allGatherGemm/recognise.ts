/**
 * Recognises All-Gather + GEMM in a chain of kernels that the audit found. Kernels before the all-gather do not belong
 * to the operation.
 */
import type { FoundChain, Recognised } from '../../taxes/recognition.ts'
import { gatheredProduct } from '../gathered/recognise.ts'

export function recogniseAllGatherGemm(chain: FoundChain): Recognised | null {
  const product = gatheredProduct(chain)
  if (!product) return null
  const { shard, ...options } = product
  return { ...options, layout: { shard }, replaces: ['collective', 'after'] }
}
