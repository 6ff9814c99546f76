/** Products in even shares: under the checker, and by random shapes and numbers of programs on the targets that run for real. */
import fc from 'fast-check'
import { describe, it } from 'vitest'
import { openWorld, type World } from '../../../src/index.ts'
import { matrixProduct } from '../../../src/ops/allGatherGemm/reference.ts'
import { gemmInSharesKernel } from '../../../src/ops/gemmInShares.ts'
import { operandDTypes, randomNumbers, type OperandDType } from '../../../src/ops/operation.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { expectClean } from '../clean.ts'

const tolerance = { f32: 1e-5, f16: 4e-3, bf16: 3e-2 }

interface Product {
  readonly M: number
  readonly N: number
  readonly K: number
  readonly programs: number
}
const tiles = { BM: 4, BN: 4, BK: 4, stages: 2 }

/** A few launches in a row, each of fresh inputs, the result poisoned. */
async function multiply(world: World, dtype: OperandDType, product: Product, meta = tiles): Promise<void> {
  const { M, N, K, programs } = product
  const [a, b, c] = [world.empty(dtype, [M, K]), world.empty(dtype, [K, N]), world.empty(dtype, [M, N])]
  const sums = world.empty('f32', [programs, meta.BM, meta.BN])
  const ready = world.flags([programs])
  for (let launch = 0; launch < 2; launch++) {
    const [left, right] = [
      randomNumbers(dtype, M * K, 2 * launch + 1),
      randomNumbers(dtype, K * N, 2 * launch + 2),
    ]
    world.write(a, 0, left)
    world.write(b, 0, right)
    world.write(c, 0, new Float32Array(M * N).fill(NaN))
    world.launch(gemmInSharesKernel(dtype), { a, b, c, sums, ready }, { grid: programs, meta })
    expectClose(await world.read(c, 0), matrixProduct(left, right, product), tolerance[dtype] * Math.sqrt(K))
  }
}

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
