/** A product on the whole GPU: ours, the fastest that cuBLASLt proposes, PyTorch's and Triton's. */
import { gemmKernel } from '../../src/ops/gemm.ts'
import { gemmTiles } from '../../src/ops/tiles.ts'
import { timesAlongside } from './alongside.ts'
import { limitOf, setsFor, type Cell, type CellResult } from './cells.ts'
import type { Pattern } from './pattern.ts'
import { productCheck, sampleProduct, vendorProducts } from './products.ts'
import { Stage, stageOptions, type Effort } from './stage.ts'

const numbers = { a: 0, b: 1 } as const

export async function measureGemm(
  cell: Cell,
  pattern: Pattern,
  effort: Effort,
  triton: boolean,
): Promise<CellResult> {
  const { dtype } = cell
  const { M, N, K } = cell.shape
  const bytes = 2 * (M * K + K * N)
  const heap = setsFor(bytes) * (bytes + 2 * 2 * M * N) + 64 * 2 ** 20
  const stage = await Stage.open({ ranks: 1, heap })
  const { world, stream } = stage
  try {
    const sets = Array.from({ length: setsFor(bytes) }, () => ({
      a: world.empty(dtype, [M, K], { name: 'a' }),
      b: world.empty(dtype, [K, N], { name: 'b' }),
      c: world.empty(dtype, [M, N], { name: 'c' }),
    }))
    for (const { a, b } of sets) {
      pattern.fill(world, a, numbers.a, 0)
      pattern.fill(world, b, numbers.b, 0)
    }
    const [valueOfA, valueOfB] = [pattern.elements(numbers.a, 0), pattern.elements(numbers.b, 0)]
    const samples = [sampleProduct({ M, N, K }, (row, k) => valueOfA(row * K + k), valueOfB)]
    const check = productCheck(
      stage,
      sets.map(({ c }) => c),
      samples,
    )
    const multiprocessors = world.multiprocessors(0)
    const meta = gemmTiles(world.target, { m: M, n: N, k: K, dtype, multiprocessors })
    const options = { grid: 'resident', stream, meta } as const
    const executions = sets.map((operands) => ({
      launches: 1,
      launch: () => world.launch(gemmKernel(dtype), operands, options),
    }))
    await stage.enter('Arke', 'ours', executions, check)
    await stage.try('cuBLASLt', async () => {
      if (!stageOptions.isMeasuring) return
      const operands = sets.map(({ a, b, c }) => [
        { a: world.addressOf(a, 0), b: world.addressOf(b, 0), c: world.addressOf(c, 0) },
      ])
      const products = await vendorProducts(stage, { M, N, K, dtype }, operands)
      await stage.enterForeign('cuBLASLt', 'peer', products, check)
    })
    return {
      ...cell,
      ...(await timesAlongside(stage, effort, { do: 'gemm', M, N, K, triton })),
      limit: limitOf({ bytes: bytes + 2 * M * N, flops: 2 * M * N * K, multiprocessors }),
    }
  } finally {
    await stage.close()
  }
}
