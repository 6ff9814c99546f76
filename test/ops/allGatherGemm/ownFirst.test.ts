/**
 * `ownFirst`: the work that a rank does before it waits, and the conditions for the option. targets.test.ts compares
 * results.
 */
import { describe, expect, it } from 'vitest'
import { walk, type Node } from '../../../src/ir/node.ts'
import { openWorld } from '../../../src/index.ts'
import { fusedByTileKernel } from '../../../src/ops/allGatherGemm/fusedByTile.ts'
import { allGatherGemm, type AllGatherGemmOptions } from '../../../src/ops/allGatherGemm/index.ts'
import { pushKernels } from '../../../src/ops/allGatherGemm/push.ts'

const choice = { dtype: 'f32', shard: 'K' } as const
const { multiply } = pushKernels(choice)
const opsIn = (node: Node): Set<string> =>
  new Set(node.blocks.flatMap((block) => [...walk(block)]).map(({ op }) => op))
/** The loops over tiles, in the order of the kernel, each as the set of ops in its body. */
const loopsOf = (
  kernel: Pick<typeof multiply, 'record'>,
  world: number,
  ownFirst: boolean,
): Set<string>[] => {
  const { body } = kernel.record({ world, meta: { ownFirst } })
  return [...walk(body)].filter(({ op }) => op === 'persistent').map(opsIn)
}
const products = (loops: readonly Set<string>[]): boolean[] =>
  loops.filter((ops) => ops.has('dot')).map((ops) => ops.has('wait'))

describe.each([
  ['push', multiply],
  ['fused', fusedByTileKernel(choice)],
])('%s along K', (_, kernel) => {
  it('multiplies all tiles with its own shard before it waits', () => {
    expect(products(loopsOf(kernel as typeof multiply, 3, true))).toEqual([false, true])
  })

  it('without ownFirst, waits in every tile', () => {
    expect(products(loopsOf(kernel as typeof multiply, 3, false))).toEqual([true])
  })

  it('does not wait on a world of one rank', () => {
    expect(products(loopsOf(kernel as typeof multiply, 1, true))).toEqual([false])
  })
})

describe.each([
  ['push', pushKernels({ ...choice, shard: 'M' }).multiply],
  ['fused', fusedByTileKernel({ ...choice, shard: 'M' })],
])('%s along M, all rows in a tile', (_, kernel) => {
  const opsOf = (strips: object): string[] => {
    const { body } = (kernel as typeof multiply).record({
      world: 2,
      meta: { BM: 4, BN: 4, BK: 4, ...strips },
    })
    return [...walk(body)].map(({ op }) => op)
  }

  it('polls for the rows of other ranks before it waits for them', () => {
    const ops = opsOf({ ownRows: 2, ownColumns: 2 })
    expect(ops.indexOf('reached')).toBeLessThan(ops.indexOf('dot'))
    expect(ops.indexOf('dot')).toBeLessThan(ops.indexOf('wait'))
  })

  it('without ownFirst, waits first', () => {
    const ops = opsOf({})
    expect(ops).not.toContain('reached')
    expect(ops.indexOf('wait')).toBeLessThan(ops.indexOf('dot'))
  })
})

it('is rejected if C cannot hold the sums or a tile cannot hold all rows', async () => {
  await using world = await openWorld({ target: 'wasm', ranks: 1 })
  const ask = (given: Partial<AllGatherGemmOptions>) => (): unknown => {
    const shape = { M: 2, N: 2, K: 2 }
    return allGatherGemm(world, {
      shape,
      dtype: 'f32',
      variant: 'fused',
      shard: 'K',
      ownFirst: true,
      ...given,
    })
  }
  expect(ask({})).not.toThrow()
  expect(ask({ shard: 'M', dtype: 'bf16' })).not.toThrow()
  expect(ask({ dtype: 'bf16' })).toThrow(
    'ownFirst needs tiles in caches (a CPU), and shards along K in f32 or all rows in one tile; this product has 2 rows in bf16, sharded along K',
  )
  expect(ask({ shard: 'M', tiles: { BM: 1 } })).toThrow(
    '2 rows in f32, sharded along M, in tiles of 1 rows on wasm',
  )
})
