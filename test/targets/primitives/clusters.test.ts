/**
 * Tests matrix products in clusters, whose programs share tiles by multicast copies, compared with plain sums of
 * integers.
 */
import { describe, expect } from 'vitest'
import { bf16, f32, kernel, tensor, type World } from '../../../src/index.ts'
import { itForEach, onWorld, range, targets } from './harness.ts'

/** The kernel computes C = A x B. The programs along N share the tiles of A, and those along M the tiles of B. */
const product = kernel(
  'product',
  { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(f32, 2) },
  { BM: 16, BN: 16, BK: 32, CM: 1, CN: 1 },
  (t, { a, b, c }, { BM, BN, BK, CM, CN }) => {
    const as = t.shared(bf16, [BM, BK])
    const bs = t.shared(bf16, [BK, BN])
    t.persistent(
      c.tiles([BM, BN]),
      (tile, [i, j]) => {
        const sum = t.pipeline([a.dim(1).div(BK)], t.zeros(f32, [BM, BN]), ([k], acc) => {
          t.copy(a.tile([i, k], [BM, BK]), as, { multicast: 1 })
          t.copy(b.tile([k, j], [BK, BN]), bs, { multicast: 0 })
          return t.dot(as, bs, acc)
        })
        t.copy(sum, tile)
      },
      { cluster: [CM, CN] },
    )
  },
)

const element = (seed: number, i: number): number => ((i * 7 + (i >> 5) * 3 + seed) % 5) - 2

function productOf(
  left: readonly number[],
  right: readonly number[],
  [M, N, K]: readonly number[],
): Float64Array {
  const sums = new Float64Array(M * N)
  for (let i = 0; i < M; i++)
    for (let k = 0; k < K; k++)
      for (let j = 0; j < N; j++) sums[i * N + j] += left[i * K + k] * right[k * N + j]
  return sums
}

async function expectProduct(
  world: World,
  meta: Readonly<Record<string, number>>,
  extents: readonly number[],
): Promise<void> {
  const [M, N, K] = extents
  const [left, right] = [range(M * K).map((i) => element(1, i)), range(K * N).map((i) => element(3, i))]
  const [a, b] = [world.from(bf16, [M, K], left), world.from(bf16, [K, N], right)]
  const c = world.empty(f32, [M, N])
  const wanted = [...productOf(left, right, extents)]
  for (const grid of [8, 'resident', 8] as const) {
    world.launch(product, { a, b, c }, { grid, meta })
    for (const rank of world.localRanks) expect([...(await world.read(c, rank))]).toEqual(wanted)
  }
}

const shapes = [
  { CM: 2, CN: 1 },
  { CM: 1, CN: 2 },
  { CM: 2, CN: 2 },
  { CM: 4, CN: 2 },
] as const

describe.each(targets)('products in clusters on %s', (target) => {
  itForEach(target, shapes)('of $CM x $CN programs', (shape) =>
    onWorld(target, 1, async (world) => {
      await expectProduct(world, shape, [64, 64, 96])
      // With tiles of the matrix unit's size, the checker takes too long.
      if (target === 'cuda')
        await expectProduct(world, { ...shape, BM: 128, BN: 128, BK: 64 }, [512, 512, 512])
    }),
  )
  itForEach(target, [2])('on each of %i ranks', (ranks) =>
    onWorld(target, ranks, (world) => expectProduct(world, shapes[0], [64, 64, 96])),
  )
})
