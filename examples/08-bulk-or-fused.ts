/**
 * 08: ready-made operations. The matrix product of example 07 in two variants: bulk synchronous, and in one fused
 * kernel.
 *
 * An operation of `arke/ops` is created once on a world, where it allocates its buffers and flags. An operation can be
 * launched any number of times. An earlier launch on the same stream may write the operation's inputs, as `double` does
 * here. Neither a host wait nor a barrier is needed between launches, because each variant synchronises with the other
 * ranks inside its kernels. All variants compute the same result. The variants differ in the number of kernels and in
 * the signals for which the kernels wait.
 */
import { expectClose, f32, kernel, scenario, tensor } from 'arke'
import { allGatherGemm, type OperandDType } from 'arke/ops'
import { show } from './show.ts'

/** Stands for the kernels of a model that compute a new A in every step. */
export const double = kernel('double', { a: tensor<OperandDType, 2>(f32, 2) }, (t, { a }) =>
  t.persistent(a.tiles([2, 2]), (tile) => t.store(tile, t.load(tile).to(f32).mul(2).to(a.dtype))),
)

const steps = 2

export const bulkOrFused = scenario('one operation in two variants', { ranks: 2 }, async (world) => {
  const shape = { M: 2, N: 4, K: 2 * world.ranks } // every rank holds two columns of A
  const lines: string[] = []
  for (const variant of ['bsp', 'fused'] as const) {
    const tiles = { BM: 2, BN: 4, BK: 2 }
    const operation = allGatherGemm(world, { shape, dtype: 'f32', variant, shard: 'K', tiles, grid: 1 })
    const a = Array.from({ length: shape.M * shape.K }, (_, i) => ((i * 5) % 7) - 3)
    const b = Array.from({ length: shape.K * shape.N }, (_, i) => ((i * 3) % 5) - 2)
    operation.fill({ a, b: Array.from({ length: world.ranks }, () => b) })
    for (let step = 0; step < steps; step++) {
      world.launch(double, { a: operation.inputs.a }, { grid: 1 })
      operation.launch()
    }

    const expected = new Array<number>(shape.M * shape.N).fill(0)
    for (let i = 0; i < shape.M; i++)
      for (let j = 0; j < shape.N; j++)
        for (let k = 0; k < shape.K; k++)
          expected[i * shape.N + j] += 2 ** steps * a[i * shape.K + k] * b[k * shape.N + j]
    for (let rank = 0; rank < world.ranks; rank++) expectClose(await operation.result(rank), expected)
    const { launches, remoteBytes } = operation.traffic
    const kernels = launches === 1 ? 'one kernel' : `${launches} kernels`
    lines.push(`${variant}: ${kernels}, ${remoteBytes} bytes from other ranks, the product is right`)
  }
  return lines
})

await show(import.meta.url, bulkOrFused)
