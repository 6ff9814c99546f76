/**
 * Flash Decode with work stealing, in random shapes: ragged and empty shards, more splits than tokens, one or many
 * heads, on 1 to 8 ranks.
 */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { openWorld } from '../../../src/index.ts'
import { flashDecode } from '../../../src/ops/flashDecode/index.ts'
import { operandDTypes } from '../../../src/operation/definition.ts'
import { expectClose } from '../../../src/world/world.ts'
import { partlyFilled, withLengths } from './lengths.ts'

const numRuns = Number(process.env.ARKE_KERNELS ?? 8)

const setting = fc.record({
  ranks: fc.integer({ min: 1, max: 8 }),
  dtype: fc.constantFrom(...operandDTypes),
  batch: fc.integer({ min: 1, max: 5 }),
  kvHeads: fc.integer({ min: 1, max: 7 }),
  group: fc.integer({ min: 1, max: 9 }),
  D: fc.constantFrom(1, 3, 8, 33, 128),
  tokens: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.constantFrom(64, 129, 300)),
  tiles: fc.record({ BN: fc.constantFrom(1, 4, 16, 64), splits: fc.integer({ min: 1, max: 6 }) }),
  /** The filled fraction of a rank's part of the KV cache, by rank and batch entry. */
  filled: fc.array(fc.constantFrom(0, 0.01, 0.3, 0.9, 1), { minLength: 1, maxLength: 7 }),
})

it('computes correct results in wasm', async () => {
  await fc.assert(
    fc.asyncProperty(setting, async ({ ranks, dtype, group, tiles, filled, ...extents }) => {
      const shape = { ...extents, queryHeads: extents.kvHeads * group }
      const world = await openWorld({ target: 'wasm', ranks })
      try {
        const options = { shape, dtype, tiles, variant: 'fused', stealing: true } as const
        const operation = flashDecode(world, options)
        const contents = withLengths(operation.random(7), partlyFilled(filled, shape.tokens), shape)
        operation.fill(contents)
        for (let launch = 0; launch < 3; launch++) operation.launch()
        const expected = operation.reference(contents, 0)
        const first = await operation.result(0)
        expectClose(first, expected, { atol: operation.tolerance })
        for (let rank = 1; rank < ranks; rank++) expect(await operation.result(rank)).toEqual(first)
      } finally {
        await world.close()
      }
    }),
    { numRuns },
  )
})
