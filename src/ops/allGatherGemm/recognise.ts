/** All-Gather + GEMM in a chain that the audit found; whatever came before the all-gather is not part of it. */
import type { FoundChain, Recognised } from '../../taxes/recognition.ts'
import { gatheredProduct } from '../gatheredProduct.ts'

export function recogniseAllGatherGemm(chain: FoundChain): Recognised | null {
  const product = gatheredProduct(chain)
  return product && { ...product, replaces: ['collective', 'after'] }
}
