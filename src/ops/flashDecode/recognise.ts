/**
 * Recognises Flash Decode in a chain of kernels that the audit found: attention with one query token per sequence,
 * followed by an all-gather or an all-reduce of the result. The recorded shapes do not show the capacity of a paged
 * cache, so `tokens` may be missing.
 */
import type { FoundChain, Recognised } from '../../taxes/recognition.ts'
import { operandDType } from '../gathered/recognise.ts'

export function recogniseFlashDecode({ before, collective }: FoundChain): Recognised | null {
  const attention = before?.computes
  if (collective.kind !== 'allGather' && collective.kind !== 'allReduce') return null
  if (attention?.kind !== 'attention' || attention.queryTokens !== 1) return null
  const { query, key, batch, queryHeads, kvHeads, D, tokens } = attention
  const dtype = operandDType(query.type.name)
  if (!dtype || key.type !== query.type || queryHeads % kvHeads !== 0) return null
  if (!collective.sends.some(({ elements }) => elements === query.elements)) return null
  const shape = { batch, queryHeads, kvHeads, D, ...(tokens === null ? {} : { tokens }) }
  return { shape, dtype, ranks: collective.ranks, replaces: ['before', 'collective'] }
}
