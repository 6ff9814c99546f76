/** Products in even shares: under the checker, and by random shapes and numbers of programs on the targets that run for real. */
import fc from 'fast-check'
import { describe, it } from 'vitest'
import { openWorld, type World } from '../../../src/index.ts'
import { operandDTypes, type OperandDType } from '../../../src/ops/operation.ts'
import { scenario } from '../../../src/world/world.ts'
import { expectClean } from '../clean.ts'
import { multiplyInShares, type Shares } from './inShares.ts'

const tolerance = { f32: 1e-5, f16: 4e-3, bf16: 3e-2 }
const tiles = { BM: 4, BN: 4, BK: 4, stages: 2 }

const multiply = (world: World, dtype: OperandDType, shares: Shares, meta = tiles): Promise<void> =>
  multiplyInShares(world, dtype, shares, meta, {
    launches: 3,
    tolerance: tolerance[dtype] * Math.sqrt(shares.K),
  })

describe.each(operandDTypes)('gemm in shares, in %s', (dtype) => {
  it.each([
    { M: 1, N: 1, K: 1, programs: 3 },
    { M: 5, N: 3, K: 22, programs: 4 },
    { M: 4, N: 9, K: 10, programs: 2 },
    { M: 3, N: 7, K: 17, programs: 6 },
  ])('of $M x $N x $K by $programs programs is clean', async (product) => {
    const subject = scenario('shares', { ranks: 1 }, (world) => multiply(world, dtype, product))
    await expectClean(subject, { schedules: 4, limit: 4 })
  })
})

describe('gemm in shares, on wasm', () => {
  it('is right for all shapes and numbers of programs', async () => {
    const setting = fc.record({
      M: fc.integer({ min: 1, max: 20 }),
      N: fc.integer({ min: 1, max: 20 }),
      K: fc.integer({ min: 1, max: 60 }),
      programs: fc.integer({ min: 1, max: 9 }),
      dtype: fc.constantFrom(...operandDTypes),
    })
    await fc.assert(
      fc.asyncProperty(setting, async ({ dtype, ...product }) => {
        const world = await openWorld({ target: 'wasm', ranks: 1, workers: product.programs })
        try {
          await multiply(world, dtype, product, { BM: 4, BN: 8, BK: 4, stages: 2 })
        } finally {
          await world.close()
        }
      }),
      { numRuns: 25 },
    )
  })
})
