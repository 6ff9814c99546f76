/**
 * Creates the inputs of All-Gather + GEMM on a GPU, and the sampled elements that are compared with float64. Also adds
 * the vendor's product, both after Arke's all-gather and alone.
 */
import { gatherKernel } from '../../src/ops/allGatherGemm/bulk.ts'
import type { Timed } from '../../src/runs/gate.ts'
import type { CudaWorld } from '../../src/targets/cuda/world.ts'
import type { SymmetricTensor } from '../../src/world/world.ts'
import type { Cell } from './cells.ts'
import type { Inputs } from './inputs.ts'
import type { Pattern } from './pattern.ts'
import { productCheck, sampleProduct, vendorProducts } from './products.ts'
import { mostVendorLaunches, stageOptions } from './stage.ts'

const numbers = { a: 0, b: 1 } as const
/**
 * The number of copies of B. One B is larger than the L2 cache, but the next execution could still find a part of it in
 * the cache.
 */
const sets = 2

/** The extents of a rank's shard of A and of the gathered matrix. */
function gatherExtents({ ranks, shard = 'K', shape: { M, K } }: Cell) {
  const rows = shard === 'K' ? M : Math.ceil(M / ranks)
  const depth = shard === 'K' ? Math.ceil(K / ranks) : K
  const [gatheredRows, height] = shard === 'K' ? [M, depth * ranks] : [rows * ranks, K]
  return { rows, depth, gatheredRows, height }
}

/**
 * Allocates and fills A and several equal copies of B on all ranks. Also returns sampled elements of the results that
 * are expected.
 */
function matricesOf(world: CudaWorld, cell: Cell, pattern: Pattern) {
  const { dtype, shard = 'K' } = cell
  const { M, N, K } = cell.shape
  const { rows, depth, height } = gatherExtents(cell)
  const a = world.empty(dtype, [rows, depth], { name: 'a' })
  const bs = Array.from({ length: sets }, () => world.empty(dtype, [height, N], { name: 'b' }))
  for (const rank of world.localRanks) {
    pattern.fill(world, a, numbers.a, rank)
    for (const b of bs) pattern.fill(world, b, numbers.b, rank)
  }
  const shards = world.localRanks.map((rank) => pattern.elements(numbers.a, rank))
  const valueOfA = (row: number, k: number): number =>
    shard === 'K'
      ? shards[Math.floor(k / depth)](row * depth + (k % depth))
      : shards[Math.floor(row / rows)]((row % rows) * depth + k)
  const samples = world.localRanks.map((rank) =>
    sampleProduct({ M, N, K }, valueOfA, pattern.elements(numbers.b, rank)),
  )
  return { a, bs, samples }
}

export const gatherInputs: Inputs = {
  sets: () => sets,
  prepare(stage, cell, pattern) {
    const { a, bs, samples } = matricesOf(stage.world, cell, pattern)
    return {
      inputs: bs.map((b) => ({ a, b })),
      check: (results, mostRead) => productCheck(stage, results, samples, mostRead),
    }
  },
  // The bytes of the gathered matrix, and of one result for each copy of B.
  peerBytes(cell) {
    const { gatheredRows, height } = gatherExtents(cell)
    return 2 * (gatheredRows * height + sets * cell.shape.M * cell.shape.N)
  },
  enterPeers: (stage, cell, { inputs, check }, tiles) =>
    stage.try('cuBLASLt', async () => {
      if (!stageOptions.isMeasuring) return
      const { world, stream } = stage
      const { ranks, dtype, shard = 'K' } = cell
      const { M, N, K } = cell.shape
      const { gatheredRows, height } = gatherExtents(cell)
      const gathered = world.empty(dtype, [gatheredRows, height], { name: 'gathered' })
      const cs = inputs.map(() => world.empty(dtype, [M, N], { name: 'c' }))
      const entered = world.flags([ranks], { name: 'entered' })
      const left = world.flags([ranks], { name: 'left' })
      const a = inputs[0].a as SymmetricTensor<typeof dtype>
      const gather = (): void => {
        const launch = { grid: 'resident', stream, meta: { BM: tiles.BM, BK: tiles.BK } } as const
        world.launch(gatherKernel({ dtype, shard }), { a, gathered, entered, left }, launch)
      }
      gather()
      await world.synchronize()
      const operands = inputs.map(({ b }, set) =>
        world.localRanks.map((rank) => ({
          a: world.addressOf(gathered, rank),
          b: world.addressOf(b, rank),
          c: world.addressOf(cs[set], rank),
        })),
      )
      const multiplications = await vendorProducts(stage, { M, N, K, dtype }, operands)
      const checked = check(cs)
      const behindGather = (multiply: () => void): Timed => ({
        launches: 1 + mostVendorLaunches,
        launch: () => {
          gather()
          multiply()
        },
      })
      const [once, inLoop] = [multiplications.once, multiplications.inLoop].map((all) =>
        all.map(behindGather),
      )
      await stage.enter('bsp, cuBLASLt', 'baseline', once, checked, inLoop)
      await stage.enterForeign('GEMM, cuBLASLt', 'alone', multiplications, checked)
    }),
}
