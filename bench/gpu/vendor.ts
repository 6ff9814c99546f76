/**
 * Runs the vendor's matrix product in place of the product of `bsp`, both after the other steps of `bsp` and alone, so
 * that the baseline is tuned as hard as Arke's own kernels.
 */
import type { Operation } from '../../src/operation/definition.ts'
import type { Timed } from '../../src/runs/gate.ts'
import type { Cell } from './cells.ts'
import type { Product } from './cublas.ts'
import type { Check } from './inputs.ts'
import { vendorProducts } from './products.ts'
import { mostVendorLaunches, stageOptions, Wrong, type Stage } from './stage.ts'

/**
 * Adds the contestants in which cuBLASLt replaces step `at` of `bsp`, if that step is only a matrix product. The
 * argument `made` has one operation of the variant `bsp` per set of inputs, which has already run once. `alone` is the
 * name of the step when it is measured alone.
 */
export async function enterVendor(
  stage: Stage,
  { dtype }: Cell,
  made: readonly Operation<unknown>[],
  at: number,
  alone: string,
  check: Check,
): Promise<void> {
  if (!made[0].steps[at].product) return
  await stage.try('cuBLASLt', async () => {
    const products = made.map(({ steps }) => steps[at].product!)
    const [{ a, b, c }] = products
    const [[M, N], [K]] = [c.shape, b.shape]
    if (a.shape.length !== 2 || a.shape[1] !== K || b.shape[1] !== N)
      throw new Wrong(`${alone}: [${a.shape.join()}] x [${b.shape.join()}] is not a product of ${M} x ${N}`)
    if (!stageOptions.isMeasuring) return
    const { world } = stage
    const operands = products.map((product) =>
      world.localRanks.map((rank) => ({
        a: world.addressOf(product.a, rank),
        b: world.addressOf(product.b, rank),
        c: world.addressOf(product.c, rank),
      })),
    )
    const result = c.dtype as NonNullable<Product['result']>
    const multiplications = await vendorProducts(stage, { M, N, K, dtype, result }, operands)
    const withOthers = (multiply: () => void, set: number): Timed => ({
      launches: made[set].steps.length - 1 + mostVendorLaunches,
      launch: () => made[set].steps.forEach((step, n) => (n === at ? multiply() : step.launch())),
    })
    const [once, inLoop] = [multiplications.once, multiplications.inLoop].map((all) => all.map(withOthers))
    await stage.enter('bsp, cuBLASLt', 'baseline', once, check, inLoop)
    await stage.enterForeign(`${alone}, cuBLASLt`, 'alone', multiplications, (set, run) =>
      check(set, () => {
        run()
        for (const step of made[set].steps.slice(at + 1)) step.launch()
      }),
    )
  })
}
