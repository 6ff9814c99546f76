/**
 * Recognises LayerNorm → all-gather of rows → GEMM in a chain of kernels that the audit found. In the trace, each rank
 * must contribute the rows that it has normalised. RMS norm is a different operation and is not recognised.
 */
import type { FoundChain, Recognised } from '../../taxes/recognition.ts'
import { gatheredProduct } from '../gathered/recognise.ts'

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
