/**
 * Flash Decode in a chain that the audit found: attention of one query token for each sequence, whose result goes into an
 * all-gather or an all-reduce. How many tokens a rank's part of a paged cache has room for is not among the shapes.
 */
import type { FoundChain, Recognised } from '../../taxes/recognition.ts'
import { operandDType } from '../gatheredProduct.ts'

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
