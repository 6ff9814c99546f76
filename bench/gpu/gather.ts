/**
 * All-Gather + GEMM: our variants, the vendor's product behind our all-gather, and both products alone. Rows and columns of every
 * result are compared with float64 before anything is timed.
 */
import { gatherKernel } from '../../src/ops/allGatherGemm/bulk.ts'
import { allGatherGemm } from '../../src/ops/allGatherGemm/index.ts'
import type { Timed } from '../../src/runs/gate.ts'
import type { CudaWorld } from '../../src/targets/cuda/world.ts'
import { device, gatherLimit, repeatsFor, type Cell, type CellResult } from './cells.ts'
import type { Pattern } from './pattern.ts'
import { productCheck, sampleProduct, vendorProducts } from './products.ts'
import { mostVendorLaunches, Stage, stageOptions, type Effort } from './stage.ts'

const numbers = { a: 0, b: 1 } as const
/** Of B, which is larger than the caches, but not by so much that nothing of it would be found there in the next turn. */
export const sets = 2

/** Extents of a rank's A, and of what is gathered. */
export function gatherExtents({ ranks, shard = 'K', shape: { M, K } }: Cell) {
  const rows = shard === 'K' ? M : Math.ceil(M / ranks)
  const depth = shard === 'K' ? Math.ceil(K / ranks) : K
  const [gatheredRows, height] = shard === 'K' ? [M, depth * ranks] : [rows * ranks, K]
  return { rows, depth, gatheredRows, height }
}

/** Matrices of all ranks, of B more than one, all alike, and elements of the results that they should give. */
export function gatherInputs(world: CudaWorld, cell: Cell, pattern: Pattern) {
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

export async function measureGather(cell: Cell, pattern: Pattern, effort: Effort): Promise<CellResult> {
  const { ranks, dtype, shard = 'K', multiprocessors } = cell
  const { M, N, K } = cell.shape
  const { rows, depth, gatheredRows, height } = gatherExtents(cell)
  // Inputs, five results, two gathered matrices, two inboxes of two slots.
  const perSet = height * N + 5 * M * N + 6 * gatheredRows * height
  const heap = 2 * (rows * depth + sets * perSet) + 64 * 2 ** 20
  const repeats = repeatsFor(gatherLimit(cell, multiprocessors ?? device.multiprocessors / ranks))
  const stage = await Stage.open({ ranks, heap, multiprocessors, repeats })
  const { world, stream } = stage
  try {
    const { a, bs, samples } = gatherInputs(world, cell, pattern)

    let tiles: { BM: number; BK: number } | undefined
    for (const variant of ['bsp', 'pull', 'push', 'fused'] as const)
      await stage.try(variant, async () => {
        const options = { shape: { M, N, K }, dtype, shard, variant, stream: stream.id }
        const operations = bs.map((b) => allGatherGemm(world, options, { a, b }))
        const [{ steps, tiles: chosen }] = operations
        const results = operations.map(({ outputs }) => outputs.c)
        const check = productCheck(stage, results, samples)
        const executions = operations.map((operation): Timed => ({
          launches: steps.length,
          launch: () => operation.launch(),
        }))
        await stage.enter(variant, variant === 'bsp' ? 'baseline' : 'fused', executions, check)
        if (variant !== 'bsp') return
        tiles = { BM: chosen.BM, BK: chosen.BK }
        // What was gathered stays, so the product can be computed alone, too.
        const multiplications = operations.map(({ steps }): Timed => {
          const multiply = steps.find(({ name }) => name === 'multiply')!
          return { launches: 1, launch: () => multiply.launch() }
        })
        await stage.enter('GEMM', 'alone', multiplications, check)
      })

    await stage.try('cuBLASLt', async () => {
      if (!stageOptions.isMeasuring) return
      const gathered = world.empty(dtype, [gatheredRows, height], { name: 'gathered' })
      const cs = bs.map(() => world.empty(dtype, [M, N], { name: 'c' }))
      const entered = world.flags([ranks], { name: 'entered' })
      const left = world.flags([ranks], { name: 'left' })
      const gather = (): void => {
        const launch = { grid: 'resident', stream, meta: tiles } as const
        world.launch(gatherKernel({ dtype, shard }), { a, gathered, entered, left }, launch)
      }
      gather()
      await world.synchronize()
      const operands = bs.map((b, set) =>
        world.localRanks.map((rank) => ({
          a: world.addressOf(gathered, rank),
          b: world.addressOf(b, rank),
          c: world.addressOf(cs[set], rank),
        })),
      )
      const multiplications = await vendorProducts(stage, { M, N, K, dtype }, operands)
      const check = productCheck(stage, cs, samples)
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
      await stage.enter('bsp, cuBLASLt', 'baseline', once, check, inLoop)
      await stage.enterForeign('GEMM, cuBLASLt', 'alone', multiplications, check)
    })

    const [found] = world.machine.processors
    return {
      ...cell,
      multiprocessors: found,
      ...(await stage.bothTimes(effort)),
      limit: gatherLimit(cell, found),
      remoteBytes: 2 * (shard === 'K' ? M * (K - depth) : (M - rows) * K),
    }
  } finally {
    await stage.close()
  }
}
