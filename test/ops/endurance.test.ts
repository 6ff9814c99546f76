/**
 * Runs every variant a thousand times in a row, with no host wait and no reset in between, while ranks are delayed at
 * random (endure.ts). In the endurance test, a fast rank runs one launch ahead of a slow one. If ARKE_STRESS=1 is set, the
 * test uses more ranks.
 */
import { describe, it } from 'vitest'
import { openWorld, type World } from '../../src/index.ts'
import {
  allGatherGemm,
  allGatherGemmOperation,
  type AllGatherGemmOptions,
} from '../../src/ops/allGatherGemm/index.ts'
import { flashDecode } from '../../src/ops/flashDecode/index.ts'
import { realTargets } from '../targets/differential/targets.ts'
import { endure, ofHeads, ofMatrices } from './endure.ts'
import { choices } from './flashDecode/choices.ts'
import { itForSome, long } from '../long.ts'

const targets = await realTargets()
const everything = process.env.ARKE_STRESS === '1'
const sizes = everything ? [2, 3, 8] : [2]

describe.each(targets)('a thousand executions on %s', (target) => {
  const worldOf = async (ranks: number, run: (world: World) => Promise<void>): Promise<void> => {
    const world = await openWorld({ target, ranks })
    try {
      await run(world)
    } finally {
      await world.close()
    }
  }
  // Compiling C++ takes long, so by default, shards along K and along M are tested only on wasm.
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
