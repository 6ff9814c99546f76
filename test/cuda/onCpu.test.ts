/**
 * What random kernels become for a GPU, run on this CPU, thread by thread: the same as in the checker. ARKE_KERNELS sets how many of each
 * class are tried, ARKE_SEED which.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { matrixProduct } from '../../src/ops/allGatherGemm/reference.ts'
import { gemmInSharesKernel } from '../../src/ops/gemmInShares.ts'
import { randomNumbers } from '../../src/ops/operation.ts'
import { KernelError } from '../../src/ir/site.ts'
import { worlds } from '../../src/world/open.ts'
import { expectClose } from '../../src/world/world.ts'
import { genes } from '../targets/differential/choices.ts'
import { compareTargets } from '../targets/differential/compare.ts'
import { generate } from '../targets/differential/generator.ts'
import { NotOnCpu, openOnCpu, unavailable } from './onCpu/onCpu.ts'

const why = unavailable()
if (why) console.info(`emitted kernels are not run here: ${why}`)
;(worlds as Record<string, unknown>).cuda = ({ ranks }: { ranks: number }) => openOnCpu(ranks)

describe.skipIf(why !== undefined).each(['exact', 'bounded'] as const)('%s kernels for a GPU', (kind) => {
  it('give on this CPU what they give in the checker', async () => {
    let compared = 0
    const runs = Number(process.env.ARKE_KERNELS ?? 12)
    await fc.assert(
      fc.asyncProperty(genes(400), fc.nat(1000), async (list, inputs) => {
        try {
          await compareTargets(generate(list, kind), ['check', 'cuda'], inputs)
          compared++
        } catch (error) {
          if (error instanceof KernelError || error instanceof NotOnCpu) return
          throw error
        }
      }),
      {
        seed: Number(process.env.ARKE_SEED ?? 41),
        numRuns: runs,
        endOnFailure: process.env.ARKE_SHRINK !== '1',
      },
    )
    expect(compared).toBeGreaterThan(runs / 2)
  }, 300_000)
})

describe.skipIf(why !== undefined)('a product in shares for a GPU', () => {
  // Rows that the copy engine cannot take, without the matrix unit: neither is here.
  it.each([
    { M: 7, N: 37, K: 45, programs: 5 },
    { M: 1, N: 70, K: 333, programs: 7 },
  ])('$M x $N x $K by $programs programs', async ({ programs, ...shape }) => {
    const { M, N, K } = shape
    const meta = { BM: 16, BN: 32, BK: 16, stages: 3 }
    const world = openOnCpu(1)
    const [a, b, c] = [world.zeros('f32', [M, K]), world.zeros('f32', [K, N]), world.zeros('f32', [M, N])]
    const sums = world.zeros('f32', [programs, meta.BM, meta.BN])
    const ready = world.flags([programs])
    for (let launch = 0; launch < 3; launch++) {
      const [left, right] = [randomNumbers('f32', M * K, launch + 1), randomNumbers('f32', K * N, launch + 9)]
      world.write(a, 0, left)
      world.write(b, 0, right)
      world.write(c, 0, new Float32Array(M * N).fill(NaN))
      world.launch(gemmInSharesKernel('f32'), { a, b, c, sums, ready }, { grid: programs, meta })
      expectClose(await world.read(c, 0), matrixProduct(left, right, shape), 3e-5)
    }
    await world.close()
  })
})
