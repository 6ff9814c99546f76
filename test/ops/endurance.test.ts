/**
 * Runs every variant a thousand times in a row, with no host wait and no reset in between, while ranks are delayed at
 * random. In the endurance test, a fast rank runs one launch ahead of a slow one. Between two executions each rank's own
 * kernels change the sign of its input and add its result to a total. The weight of a result depends on the execution,
 * so one stale tile in any execution is detected at the end. If ARKE_STRESS=1 is set, the test uses more ranks.
 */
import { describe, expect, it } from 'vitest'
import {
  f32,
  kernel,
  openWorld,
  scalar,
  tensor,
  type Program,
  type Ref,
  type SymmetricTensor,
  type Tensor,
  type World,
} from '../../src/index.ts'
import {
  allGatherGemm,
  allGatherGemmOperation,
  type AllGatherGemmOptions,
} from '../../src/ops/allGatherGemm/index.ts'
import { flashDecode } from '../../src/ops/flashDecode/index.ts'
import type { Operation } from '../../src/operation/definition.ts'
import { randomNumbers } from '../targets/differential/choices.ts'
import { realTargets } from '../targets/differential/targets.ts'
import { choices } from './flashDecode/choices.ts'
import { holdUp } from './holdUp.ts'
import { itForSome, long } from '../long.ts'

const targets = await realTargets()
const launches = 1000
const everything = process.env.ARKE_STRESS === '1'
const sizes = everything ? [2, 3, 8] : [2]

/** Kernels of the rank that modify a tensor, row by row. */
interface OwnKernels {
  negate(world: World, x: SymmetricTensor): void
  add(world: World, x: SymmetricTensor, total: SymmetricTensor, weight: number): void
}
type Row<R extends 2 | 4> = (x: Tensor<'f32', R>) => Ref<'f32', 1>

function ownKernels<R extends 2 | 4>(
  rank: R,
  forEachRow: (t: Program, x: Tensor<'f32', R>, body: (row: Row<R>) => void) => void,
): OwnKernels {
  const negate = kernel('negate', { x: tensor(f32, rank) }, (t, { x }) =>
    forEachRow(t, x, (row) => t.store(row(x), t.load(row(x)).mul(-1))),
  )
  const params = { x: tensor(f32, rank), total: tensor(f32, rank), weight: scalar(f32) }
  const add = kernel('add', params, (t, { x, total, weight }) =>
    forEachRow(t, x, (row) => t.store(row(total), t.load(row(total)).add(t.load(row(x)).mul(weight)))),
  )
  return {
    negate: (world, x) => world.launch(negate, { x: x as SymmetricTensor<'f32'> }, { grid: 1 }),
    add: (world, x, total, weight) => {
      const args = { x: x as SymmetricTensor<'f32'>, total: total as SymmetricTensor<'f32'>, weight }
      world.launch(add, args, { grid: 1 })
    },
  }
}
const widest = 64
const ofMatrices = ownKernels(2, (t, x, body) =>
  t.for(x.dim(0), (i) => body((y) => y.pick(i).tile([0], [widest]))),
)
const ofHeads = ownKernels(4, (t, x, body) =>
  t.for(x.dim(0), (b) =>
    t.for(x.dim(1), (h) =>
      t.for(x.dim(2), (i) => body((y) => y.pick(b).pick(h).pick(i).tile([0], [widest]))),
    ),
  ),
)

async function endure<C>(
  world: World,
  operation: Operation<C>,
  { negate, add }: OwnKernels,
  factor: SymmetricTensor,
  result: SymmetricTensor,
): Promise<void> {
  const next = randomNumbers(world.ranks)
  const contents = operation.random(3)
  operation.fill(contents)
  const place = world.zeros(f32, [1])
  const total = world.zeros(f32, result.shape)
  let sum = 0
  for (let n = 0; n < launches; n++) {
    for (let rank = 0; rank < world.ranks; rank++)
      if (next() < 0.3)
        world.launch(holdUp, { place, turns: Math.floor(next() ** 4 * 40_000) }, { grid: 1, ranks: [rank] })
    const weight = 1 + (n % 7)
    negate(world, factor)
    operation.launch()
    add(world, result, total, weight)
    sum += n % 2 === 0 ? -weight : weight
  }
  for (let rank = 0; rank < world.ranks; rank++) {
    const expected = operation.reference(contents, rank)
    const actual = await world.read(total, rank)
    // A stale tile causes an error of twice its weight. The rounding errors of a thousand sums are much smaller.
    const largest = expected.reduce((most, x) => Math.max(most, Math.abs(x)), 0)
    const off = actual.reduce((most, x, i) => Math.max(most, Math.abs(x - sum * expected[i])), 0)
    expect(off, `rank ${rank} of ${world.ranks}`).toBeLessThan(largest * 0.02)
  }
}

describe.each(targets)('a thousand executions on %s', (target) => {
  const worldOf = async (ranks: number, run: (world: World) => Promise<void>): Promise<void> => {
    const world = await openWorld({ target, ranks })
    try {
      await run(world)
    } finally {
      await world.close()
    }
  }
  // Compiling C++ takes long, so by default only wasm tests shards along K and along M.
  const shards = target === 'wasm' || everything ? (['K', 'M'] as const) : (['K'] as const)
  const products = allGatherGemmOperation.variants.flatMap((variant) =>
    shards.map((shard) => [variant, shard] as const),
  )
  const endureProduct = async (given: Omit<AllGatherGemmOptions, 'shape' | 'dtype'>) => {
    for (const ranks of sizes)
      await worldOf(ranks, async (world) => {
        const tiles = { BM: 4, BN: 16, BK: 4, stages: 2 }
        const options = { shape: { M: 7, N: 37, K: 21 }, dtype: 'f32', tiles, ...given } as const
        const operation = allGatherGemm(world, options)
        await endure(world, operation, ofMatrices, operation.inputs.a, operation.outputs.c)
      })
  }
  itForSome(products, ([variant, shard]) => target === 'wasm' && variant === 'fused' && shard === 'K')(
    'All-Gather + GEMM %s along %s',
    ([variant, shard]) => endureProduct({ variant, shard }),
  )

  it.runIf(target === 'wasm' || everything).each(['push', 'fused'] as const)(
    'All-Gather + GEMM %s along K, one tile after the other',
    long,
    (variant) => endureProduct({ variant, shard: 'K', ownFirst: false }),
  )

  it.runIf(target !== 'cuda').each(['push', 'fused'] as const)(
    'All-Gather + GEMM %s along M, own rows first',
    long,
    (variant) =>
      endureProduct({ variant, shard: 'M', ownFirst: true, tiles: { BM: 8, BN: 16, BK: 4, stages: 2 } }),
  )

  it.each([
    ['in the order of ranks', true],
    ['as they arrive', false],
  ])('All-Gather + GEMM fused along K, with one flag per shard, %s', long, (_, inOrder) =>
    endureProduct({ variant: 'fused', shard: 'K', flagPer: 'shard', inOrder }),
  )

  it('All-Gather + GEMM pull along K, from outboxes', long, () =>
    endureProduct({ variant: 'pull', shard: 'K', staged: true }),
  )

  itForSome(choices, ([name]) => target === 'wasm' && name === 'fused')(
    'Flash Decode %s',
    async ([, choice]) => {
      for (const ranks of sizes)
        await worldOf(ranks, async (world) => {
          const shape = { batch: 2, queryHeads: 4, kvHeads: 2, D: 16, tokens: 11 }
          const operation = flashDecode(world, {
            shape,
            dtype: 'f32',
            ...choice,
            tiles: { BN: 4, splits: 2 },
          })
          await endure(world, operation, ofHeads, operation.inputs.v, operation.outputs.out)
        })
    },
  )
})
