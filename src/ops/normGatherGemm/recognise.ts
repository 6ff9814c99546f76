/**
 * LayerNorm → all-gather of rows → GEMM in a chain that the audit found: the rows that a rank brings are those that it has
 * normalised. RMS norm is another operation.
 */
import type { FoundChain, Recognised } from '../../taxes/recognition.ts'
import { gatheredProduct } from '../gatheredProduct.ts'

export function recogniseNormGatherGemm(chain: FoundChain): Recognised | null {
  const norm = chain.before?.computes
  const product = gatheredProduct(chain)
  if (norm?.kind !== 'norm' || norm.norm !== 'layer' || product?.shard !== 'M') return null
  const { shape, dtype, ranks } = product
  const isWhatIsSent =
    norm.input.elements * ranks === shape.M * shape.K && norm.input.shape.at(-1) === shape.K
  if (!isWhatIsSent || norm.input.type.name !== dtype) return null
  return { shape, dtype, ranks, replaces: ['before', 'collective', 'after'] }
}
