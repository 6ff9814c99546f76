/** Tests that the checker finds errors in the synchronisation of Flash Decode. */
import { describe, it } from 'vitest'
import { flashDecode } from '../../../src/ops/flashDecode/index.ts'
import { repeated } from '../clean.ts'
import { expectFound } from '../mutants.ts'
import { choices } from './choices.ts'

const shape = { batch: 1, queryHeads: 1, kvHeads: 1, D: 1, tokens: 2 }

describe.each(choices)('%s', (_, choice) => {
  it.each([1, 2])('with %i programs per rank', async (grid) => {
    const options = { shape, dtype: 'f32', tiles: { BN: 2 }, grid, ...choice } as const
    await expectFound(repeated(2, (world) => flashDecode(world, options), { factor: 'v', tolerance: 1e-5 }))
  })
})
