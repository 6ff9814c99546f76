/**
 * Every variant of every operation on the targets that run for real, compared with float64: odd shapes, 1 to 8 ranks, launches
 * in a row with nothing in between but kernels that write the inputs anew, ranks far ahead of each other. A compiler of C++
 * takes its time, so native has two world sizes a variant; ARKE_STRESS=1 asks for all of them, for every dtype and
 * for more launches.
 */
import { describe, expect, it } from 'vitest'
import { openWorld, type World } from '../../src/index.ts'
import { allGatherGemm, allGatherGemmOperation, type MatrixShape } from '../../src/ops/allGatherGemm/index.ts'
import { flashDecode } from '../../src/ops/flashDecode/index.ts'
import { operandDTypes, type OperandDType } from '../../src/ops/operation.ts'
import { expectClose, type Scenario } from '../../src/world/world.ts'
import { realTargets } from '../targets/differential/targets.ts'
import { repeated } from './clean.ts'
import { choices } from './flashDecode/choices.ts'
import { withLengths } from './flashDecode/lengths.ts'
import { outOfStep } from './outOfStep.ts'

const targets = await realTargets()
const everything = process.env.ARKE_STRESS === '1'
const launches = everything ? 50 : 20

/** World sizes and dtypes of the n-th variant: in turn, unless all are wanted. */
function settings(target: string, n: number): (readonly [number, OperandDType])[] {
  const sizes = target === 'cuda' ? [1, 2, 4, 8] : [1, 2, 3, 8]
  if (everything) return sizes.flatMap((ranks) => operandDTypes.map((dtype) => [ranks, dtype] as const))
  const few = target === 'wasm' || target === 'cuda' ? sizes : [[2, 8][n % 2], [3, 1, 3, 3][n % 4]]
  return few.map((ranks, i) => [ranks, operandDTypes[(n + i) % operandDTypes.length]] as const)
}

async function on(
  target: string,
  ranks: number,
  run: (world: World) => Promise<unknown>,
  workers?: number,
): Promise<void> {
  const world = await openWorld({ target, ranks, ...(target === 'cuda' ? {} : { workers }) })
  try {
    await run(world)
  } finally {
    await world.close()
  }
}
const runOutOfStep = (target: string, ranks: number, seed: number, { run }: Scenario): Promise<void> =>
  on(target, ranks, (world) => run(outOfStep(world, seed)))

const products = allGatherGemmOperation.variants.flatMap((variant) =>
  (['K', 'M'] as const).map((shard) => [variant, shard] as const),
)

describe.each(targets)('All-Gather + GEMM on %s', (target) => {
  const tolerance = { f32: 3e-5, f16: 1.5e-2, bf16: 1.2e-1 }
  // Nothing is a multiple of anything; one row; tiles larger than the matrices.
  const shapes: readonly MatrixShape[] = [
    { M: 7, N: 37, K: 45 },
    { M: 1, N: 70, K: 33 },
    { M: 9, N: 3, K: 5 },
  ]
  const tiles = { BM: 4, BN: 16, BK: 8, stages: 2 }

  it.each(products)(`%s along %s, ${launches} launches in a row`, async (variant, shard) => {
    const n = products.findIndex((one) => one[0] === variant && one[1] === shard)
    for (const [ranks, dtype] of settings(target, n)) {
      const options = { shape: shapes[(n + ranks) % 3], dtype, variant, shard, tiles }
      const subject = repeated(ranks, (world) => allGatherGemm(world, options), {
        factor: 'a',
        tolerance: tolerance[dtype],
        launches,
      })
      await runOutOfStep(target, ranks, 100 * n + ranks, subject)
    }
  })

  it.each(['push', 'fused'] as const)('%s along K in f32, own shards first or not', async (variant) => {
    for (const ownFirst of target === 'cuda' ? [false] : [false, true])
      for (const ranks of target === 'wasm' || everything ? [1, 2, 3, 8] : [2]) {
        const options = {
          shape: shapes[ranks % 3],
          dtype: 'f32',
          variant,
          shard: 'K',
          tiles,
          ownFirst,
        } as const
        const subject = repeated(ranks, (world) => allGatherGemm(world, options), {
          factor: 'a',
          tolerance: tolerance.f32,
          launches,
        })
        await runOutOfStep(target, ranks, ranks, subject)
      }
  })

  // Ranks out of step are launches apart, so that one has multiplied all it can when the other begins.
  it.runIf(target !== 'cuda').each(['push', 'fused'] as const)(
    '%s along M, own rows first',
    async (variant) => {
      for (const [ranks, dtype] of settings(target, 0))
        for (const [N, BN] of [
          [37, 16],
          [300, 256],
        ]) {
          const tiles = { BM: 12, BN, BK: 8, stages: 2 }
          const shape = { ...shapes[ranks % 3], N }
          const options = { shape, dtype, variant, shard: 'M', tiles, ownFirst: true } as const
          const subject = repeated(ranks, (world) => allGatherGemm(world, options), {
            factor: 'a',
            tolerance: tolerance[dtype],
            launches,
          })
          await runOutOfStep(target, ranks, ranks, subject)
        }
    },
  )

  it.each([
    ['in the order of ranks', true],
    ['as they arrive', false],
  ])('fused along K, with a flag for each shard, %s', async (_, inOrder) => {
    for (const [ranks, dtype] of settings(target, Number(inOrder))) {
      const options = { shape: shapes[ranks % 3], dtype, tiles, flagPer: 'shard', inOrder } as const
      const subject = repeated(
        ranks,
        (world) => allGatherGemm(world, { ...options, variant: 'fused', shard: 'K' }),
        { factor: 'a', tolerance: tolerance[dtype], launches },
      )
      await runOutOfStep(target, ranks, ranks, subject)
    }
  })

  it('pull along K, from outboxes', async () => {
    for (const [ranks, dtype] of settings(target, 2))
      for (const [n, grid] of ([undefined, 1] as const).entries()) {
        // Every second time several parts a row.
        const shape = { ...shapes[(n + ranks) % 3], ...(n === 1 && { K: 300 * ranks }) }
        const options = { shape, dtype, tiles, staged: true, grid, variant: 'pull', shard: 'K' } as const
        const subject = repeated(ranks, (world) => allGatherGemm(world, options), {
          factor: 'a',
          tolerance: (n === 1 ? 40 : 1) * tolerance[dtype],
          launches,
        })
        await runOutOfStep(target, ranks, ranks, subject)
      }
  })

  it.each(products)(
    '%s along %s, with the tiles it chooses itself and packed weights',
    async (variant, shard) => {
      const n = products.findIndex((one) => one[0] === variant && one[1] === shard)
      const [ranks, dtype] = settings(target, n)[1]
      for (const shape of everything ? shapes : [shapes[n % 2]])
        await on(target, ranks, async (world) => {
          const operation = allGatherGemm(world, { shape, dtype, variant, shard })
          const contents = operation.random(5)
          operation.fill(contents)
          for (const packed of [false, true]) {
            if (packed) await operation.pack()
            operation.launch()
            operation.launch()
            for (let rank = 0; rank < ranks; rank++)
              expectClose(await operation.result(rank), operation.reference(contents, rank), tolerance[dtype])
          }
        })
    },
  )
})

describe.each(targets)('Flash Decode on %s', (target) => {
  const tolerance = { f32: 2e-5, f16: 2e-3, bf16: 2e-2 }
  const shapes = [
    { shape: { batch: 2, queryHeads: 6, kvHeads: 2, D: 20, tokens: 37 }, tiles: { BN: 16, splits: 2 } },
    { shape: { batch: 3, queryHeads: 1, kvHeads: 1, D: 7, tokens: 5 }, tiles: { BN: 4, splits: 1 } },
  ]
  const lengthOf = (rank: number, entry: number, round: number): number =>
    [37, 5, 0, 16, 33, 1][(rank + 2 * entry + round) % 6]

  it.each(choices)(`%s, ${launches} launches in a row`, async (name, choice) => {
    const n = choices.findIndex((one) => one[0] === name)
    for (const [ranks, dtype] of settings(target, n)) {
      const one = shapes[(n + ranks) % shapes.length]
      const subject = repeated(ranks, (world) => flashDecode(world, { ...one, dtype, ...choice }), {
        contents: (random, round) =>
          withLengths(
            random,
            (rank, entry) => Math.min(lengthOf(rank, entry, round), one.shape.tokens),
            one.shape,
          ),
        factor: 'v',
        tolerance: tolerance[dtype],
        launches,
      })
      await runOutOfStep(target, ranks, 100 * n + ranks, subject)
    }
  })

  // On a GPU these are matrices of which every thread has words side by side.
  it.each([
    ['eight query heads', 8, 1],
    ['sixteen query heads, in two splits', 16, 2],
  ])('fused, partial results of %s', async (_, G, splits) => {
    const shape = { batch: 2, queryHeads: 2 * G, kvHeads: 2, D: 64, tokens: 37 }
    const options = { shape, tiles: { BN: 16, splits }, dtype: 'bf16', variant: 'fused' } as const
    for (const ranks of target === 'wasm' ? [2] : target === 'cuda' ? [1, 2, 4, 8] : [3]) {
      for (const fetching of [false, true]) {
        const choice = { owners: false, stealing: false, fetching }
        const subject = repeated(ranks, (world: World) => flashDecode(world, { ...options, ...choice }), {
          contents: (random, round) =>
            withLengths(random, (rank, entry) => lengthOf(rank, entry, round), shape),
          factor: 'v',
          tolerance: tolerance.bf16,
          launches,
        })
        await runOutOfStep(target, ranks, 10 * G + ranks, subject)
      }
    }
  })
})

it('launches that are handed out rank by rank are still all launches', async () => {
  const counts = [0, 0, 0]
  const fake = {
    ranks: 3,
    launch: (_: unknown, __: unknown, { ranks }: { ranks: number[] }) => void counts[ranks[0]]++,
    barrier: () => Promise.resolve(),
  }
  const world = outOfStep(fake as unknown as World, 1)
  for (let i = 0; i < 100; i++) world.launch(undefined as never, {} as never, { grid: 1 })
  expect(counts).toEqual([0, 0, 0])
  await world.barrier()
  expect(counts).toEqual([100, 100, 100])
})
