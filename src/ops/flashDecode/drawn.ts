/** The inputs of Flash Decode that a benchmark generates on the device: the queries and the caches. See ../drawn.ts. */
import type { Drawing } from '../drawn.ts'
import type { FlashDecodeOptions } from './index.ts'

export const drawing: Drawing<FlashDecodeOptions> = {
  inputs: { q: { isEqual: true }, k: {}, v: {} },
  constants: ({ tokens }) => ({ lengths: tokens }),
  /**
   * The attention of the first and the last head. The rows of keys and values repeat. Each distinct row is therefore
   * computed once and multiplied by its number of occurrences.
   */
  samples({ ranks, shape: { batch, queryHeads, kvHeads, D, tokens } }, drawn) {
    const G = queryHeads / kvHeads
    const heads = batch * queryHeads
    const rows = [...new Set([0, heads - 1])]
    const columns = Array.from({ length: D }, (_, d) => d)
    const query = drawn('q', 0).element
    const expected = new Float64Array(rows.length * D)
    rows.forEach((head, at) => {
      const q = columns.map((d) => query(head * D + d) / Math.sqrt(D))
      const from = Math.floor(head / G) * tokens
      const sums = expected.subarray(at * D, (at + 1) * D)
      let total = 0
      for (let rank = 0; rank < ranks; rank++) {
        const [keys, values] = [drawn('k', rank), drawn('v', rank)]
        for (let token = 0; token < Math.min(tokens, keys.period); token++) {
          const count = Math.ceil((tokens - token) / keys.period)
          const [key, value] = [keys.place(from + token), values.place(from + token)]
          let score = 0
          for (let d = 0; d < D; d++) score += q[d] * keys.values[key + d]
          // Scores are small, so the softmax does not need to subtract the maximum.
          const weight = count * Math.exp(score)
          total += weight
          for (let d = 0; d < D; d++) sums[d] += weight * values.values[value + d]
        }
      }
      for (let d = 0; d < D; d++) sums[d] /= total
    })
    return Array.from({ length: ranks }, () => ({ rows, columns, expected }))
  },
}
