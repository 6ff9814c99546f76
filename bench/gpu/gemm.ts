/**
 * Measures a GEMM on the whole GPU. The contestants are Arke's GEMM, the fastest algorithm that cuBLASLt proposes,
 * PyTorch's GEMM and Triton's.
 */
import { gemmKernel } from '../../src/ops/gemm.ts'
import { sampleProduct } from '../../src/ops/drawn.ts'
import { gemmTiles } from '../../src/ops/tiles.ts'
import type { CudaWorld } from '../../src/targets/cuda/world.ts'
import { timesAlongside } from './alongside.ts'
import { limitOf, setsFor, type Cell, type CellResult } from './cells.ts'
import type { Pattern } from './pattern.ts'
import { productCheck, vendorProducts } from './products.ts'
import { Stage, stageOptions, type Effort } from './stage.ts'

const numbers = { a: 0, b: 1 } as const

const bytesOf = ({ M, N, K }: Cell['shape']): number => 2 * (M * K + K * N)
/** The heap size in bytes that all sets of operands need. */
export const gemmHeap = ({ shape }: Cell): number =>
  setsFor(bytesOf(shape)) * (bytesOf(shape) + 2 * 2 * shape.M * shape.N) + 64 * 2 ** 20

export function gemmInputs(world: CudaWorld, { dtype, shape }: Cell, pattern: Pattern) {
  const { M, N, K } = shape
  const sets = Array.from({ length: setsFor(bytesOf(shape)) }, () => ({
    a: world.empty(dtype, [M, K], { name: 'a' }),
    b: world.empty(dtype, [K, N], { name: 'b' }),
    c: world.empty(dtype, [M, N], { name: 'c' }),
  }))
  for (const { a, b } of sets) {
    pattern.fill(world, a, numbers.a, 0)
    pattern.fill(world, b, numbers.b, 0)
  }
  const [valueOfA, valueOfB] = [pattern.elements(numbers.a, 0), pattern.elements(numbers.b, 0)]
  return { sets, samples: [sampleProduct({ M, N, K }, (row, k) => valueOfA(row * K + k), valueOfB)] }
}

export async function measureGemm(
  cell: Cell,
  pattern: Pattern,
  effort: Effort,
  triton: boolean,
): Promise<CellResult> {
  const { dtype } = cell
  const { M, N, K } = cell.shape
  const bytes = bytesOf(cell.shape)
  const stage = await Stage.open({ ranks: 1, heap: gemmHeap(cell), repeats: 6 })
  const { world, stream } = stage
  try {
    const { sets, samples } = gemmInputs(world, cell, pattern)
    const check = productCheck(
      stage,
      sets.map(({ c }) => c),
      samples,
    )
    const [multiprocessors] = world.machine.processors
    const meta = gemmTiles(world.machine, { m: M, n: N, k: K, dtype })
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
