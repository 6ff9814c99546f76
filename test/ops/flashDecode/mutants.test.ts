/** Mistakes in the synchronisation of Flash Decode are found. */
import { describe, it } from 'vitest'
import { flashDecode, flashDecodeOperation } from '../../../src/ops/flashDecode/index.ts'
import { repeated } from '../clean.ts'
import { expectFound } from '../mutants.ts'

const shape = { batch: 1, queryHeads: 1, kvHeads: 1, D: 1, tokens: 2 }

describe.each(flashDecodeOperation.variants)('%s', (variant) => {
  it.each([1, 2])('with %i programs a rank', async (grid) => {
    const options = { shape, dtype: 'f32', tiles: { BN: 2 }, grid, variant } as const
    await expectFound(repeated(2, (world) => flashDecode(world, options), { factor: 'v', tolerance: 1e-5 }))
  })
})
