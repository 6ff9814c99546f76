/**
 * All-Gather + GEMM: our variants, the vendor's product behind our all-gather, and both products alone. Rows and columns of every
 * result are compared with float64 before anything is timed.
 */
import { gatherKernel } from '../../src/ops/allGatherGemm/bulk.ts'
import { allGatherGemm } from '../../src/ops/allGatherGemm/index.ts'
import type { Timed } from '../../src/runs/gate.ts'
import { gatherLimit, type Cell, type CellResult } from './cells.ts'
import type { Pattern } from './pattern.ts'
import { productCheck, sampleProduct, vendorProducts } from './products.ts'
import { Stage, stageOptions, type Effort } from './stage.ts'

const numbers = { a: 0, b: 1 } as const

export async function measureGather(cell: Cell, pattern: Pattern, effort: Effort): Promise<CellResult> {
  const { ranks, dtype, shard = 'K', multiprocessors } = cell
  const { M, N, K } = cell.shape
  const rows = shard === 'K' ? M : Math.ceil(M / ranks)
  const depth = shard === 'K' ? Math.ceil(K / ranks) : K
  const [gatheredRows, height] = shard === 'K' ? [M, depth * ranks] : [rows * ranks, K]
  // Inputs, five results, two gathered matrices, two inboxes of two slots.
  const heap = 2 * (height * N + rows * depth + 5 * M * N + 6 * gatheredRows * height) + 64 * 2 ** 20
  const stage = await Stage.open({ ranks, heap, multiprocessors })
  const { world, stream } = stage
  try {
    const a = world.empty(dtype, [rows, depth], { name: 'a' })
    const b = world.empty(dtype, [height, N], { name: 'b' })
    for (const rank of world.localRanks) {
      pattern.fill(world, a, numbers.a, rank)
      pattern.fill(world, b, numbers.b, rank)
    }
    const shards = world.localRanks.map((rank) => pattern.elements(numbers.a, rank))
    const valueOfA = (row: number, k: number): number =>
      shard === 'K'
        ? shards[Math.floor(k / depth)](row * depth + (k % depth))
        : shards[Math.floor(row / rows)]((row % rows) * depth + k)
    const samples = world.localRanks.map((rank) =>
      sampleProduct({ M, N, K }, valueOfA, pattern.elements(numbers.b, rank)),
    )

    let tiles: { BM: number; BK: number } | undefined
    for (const variant of ['bsp', 'pull', 'push', 'fused'] as const)
      await stage.try(variant, async () => {
        const options = { shape: { M, N, K }, dtype, shard, variant, stream: stream.id }
        const operation = allGatherGemm(world, options, { a, b })
        const { steps, outputs } = operation
        const check = productCheck(stage, [outputs.c], samples)
        const execution: Timed = { launches: steps.length, launch: () => operation.launch() }
        await stage.enter(variant, variant === 'bsp' ? 'baseline' : 'fused', [execution], check)
        if (variant !== 'bsp') return
        tiles = { BM: operation.tiles.BM, BK: operation.tiles.BK }
        // What was gathered stays, so the product can be computed alone, too.
        const multiply = steps.find(({ name }) => name === 'multiply')!
        await stage.enter('GEMM', 'alone', [{ launches: 1, launch: () => multiply.launch() }], check)
      })

    await stage.try('cuBLASLt', async () => {
      if (!stageOptions.isMeasuring) return
      const gathered = world.empty(dtype, [gatheredRows, height], { name: 'gathered' })
      const c = world.empty(dtype, [M, N], { name: 'c' })
      const entered = world.flags([ranks], { name: 'entered' })
      const left = world.flags([ranks], { name: 'left' })
      const gather = (): void => {
        const launch = { grid: 'resident', stream, meta: tiles } as const
        world.launch(gatherKernel({ dtype, shard }), { a, gathered, entered, left }, launch)
      }
      gather()
      await world.synchronize()
      const operands = world.localRanks.map((rank) => ({
        a: world.addressOf(gathered, rank),
        b: world.addressOf(b, rank),
        c: world.addressOf(c, rank),
      }))
      const [multiply] = await vendorProducts(stage, { M, N, K, dtype }, [operands])
      const check = productCheck(stage, [c], samples)
      const together = (): void => {
        gather()
        multiply()
      }
      await stage.enter('bsp, cuBLASLt', 'baseline', [{ launches: 2, launch: together }], check)
      await stage.enterForeign('GEMM, cuBLASLt', 'alone', [multiply], check)
    })

    const found = world.multiprocessors(0)
    return {
      ...cell,
      multiprocessors: found,
      timings: await stage.times(effort),
      failed: stage.failed,
      limit: gatherLimit(cell, found),
      remoteBytes: 2 * (shard === 'K' ? M * (K - depth) : (M - rows) * K),
    }
  } finally {
    await stage.close()
  }
}
