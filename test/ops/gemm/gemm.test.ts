/** Runs the plain matrix product under the checker, in each dtype and in odd shapes. */
import { describe, it } from 'vitest'
import { openWorld } from '../../../src/index.ts'
import { realTargets } from '../../targets/differential/targets.ts'
import { matrixProduct } from '../../../src/ops/gathered/reference.ts'
import { gemmKernel } from '../../../src/ops/gemm.ts'
import { operandDTypes, randomNumbers } from '../../../src/operation/definition.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { expectClean } from '../clean.ts'

const targets = await realTargets()
const tolerance = { f32: 1e-5, f16: 4e-3, bf16: 3e-2 }

describe.each(operandDTypes)('gemm in %s', (dtype) => {
  it.each([
    { M: 1, N: 1, K: 1 },
    { M: 1, N: 5, K: 9 },
    { M: 7, N: 3, K: 2 },
    { M: 4, N: 4, K: 4 },
  ])('of $M x $N x $K', async (shape) => {
    const { M, N, K } = shape
    const [a, b] = [randomNumbers(dtype, M * K, 1), randomNumbers(dtype, K * N, 2)]
    const subject = scenario('gemm', { ranks: 1 }, async (world) => {
      const c = world.empty(dtype, [M, N])
      const args = { a: world.from(dtype, [M, K], a), b: world.from(dtype, [K, N], b), c }
      world.launch(gemmKernel(dtype), args, { grid: 2, meta: { BM: 4, BN: 4, BK: 4, stages: 2 } })
      expectClose(await world.read(c, 0), matrixProduct(a, b, shape), { atol: tolerance[dtype] })
    })
    await expectClean(subject, { schedules: 4, limit: 4 })
  })
})

describe('gemm in clusters', () => {
  it.each([
    { M: 12, N: 8, K: 8, CM: 2, CN: 1 },
    { M: 7, N: 13, K: 5, CM: 2, CN: 2 },
    { M: 4, N: 20, K: 9, CM: 1, CN: 4 },
  ])('of $M x $N x $K, $CM x $CN programs', async ({ M, N, K, CM, CN }) => {
    const [a, b] = [randomNumbers('f32', M * K, 1), randomNumbers('f32', K * N, 2)]
    const subject = scenario('gemm', { ranks: 1 }, async (world) => {
      const c = world.empty('f32', [M, N])
      const args = { a: world.from('f32', [M, K], a), b: world.from('f32', [K, N], b), c }
      const meta = { BM: 4, BN: 4, BK: 4, stages: 2, CM, CN }
      world.launch(gemmKernel('f32'), args, { grid: CM * CN, meta })
      expectClose(await world.read(c, 0), matrixProduct(a, b, { M, N, K }), { atol: tolerance.f32 })
    })
    await expectClean(subject, { schedules: 4, limit: 4 })
    const run = async (target: (typeof targets)[number]): Promise<void> => {
      await using world = await openWorld({ target, ranks: 1 })
      await subject.run(world)
    }
    for (const target of targets) await run(target)
  })
})
