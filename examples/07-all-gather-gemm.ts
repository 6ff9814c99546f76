/**
 * 07: a fused operation, C = gather(A) x B. Rank r holds a slice of A's columns; every rank computes the product with
 * all of A.
 *
 * The bulk-synchronous way is to gather A, synchronise at a barrier, and multiply. This kernel instead copies each
 * slice of A from its owner into shared memory when it needs the slice, and starts with the local slice. The kernel
 * `publish` stands for the kernel that computes A. The other ranks wait only for the flag of `publish`.
 */
import { bf16, expectClose, f32, flags, kernel, scenario, tensor, type World } from 'arke'
import { show } from './show.ts'

export const publish = kernel(
  'publish',
  { from: tensor(bf16, 2), a: tensor(bf16, 2), ready: flags() },
  { M: 4, K: 2 },
  (t, { from, a, ready }, { M, K }) => {
    t.copy(from.tile([0, 0], [M, K]), a.tile([0, 0], [M, K]))
    t.signal(ready)
  },
)

export const allGatherGemm = kernel(
  'allGatherGemm',
  { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(f32, 2), ready: flags() },
  { BM: 128, BN: 128, BK: 64, slices: 4 },
  (t, { a, b, c, ready }, { BM, BN, BK, slices }) => {
    const as = t.shared(bf16, [BM, BK])
    const bs = t.shared(bf16, [BK, BN])
    t.persistent(c.tiles([BM, BN]), (tile, [i, j]) => {
      const product = t.pipeline([t.world, slices], t.zeros(f32, [BM, BN]), ([step, k], sum) => {
        const owner = t.rank.add(step).mod(t.world) // start with the own slice
        t.wait(ready.on(owner))
        t.copy(a.on(owner).tile([i, k], [BM, BK]), as)
        t.copy(b.tile([owner.mul(slices).add(k), j], [BK, BN]), bs)
        return t.dot(as, bs, sum)
      })
      t.copy(product, tile)
    })
  },
)

/** The extents of the matrices and of the tiles. K is the number of columns of A per rank. */
const tiny = { M: 4, N: 4, K: 2, BM: 4, BN: 2, BK: 2 }
/** The TMA copies rows of at least 16 bytes. */
const forTma = { M: 8, N: 8, K: 8, BM: 8, BN: 8, BK: 8 }

async function multiply(world: World, { M, N, K, BM, BN, BK }: typeof tiny): Promise<string[]> {
  const { ranks } = world
  const sliceOf = (rank: number): number[] =>
    Array.from({ length: M * K }, (_, i) => ((i * 5 + rank) % 7) - 3)
  const weights = Array.from({ length: ranks * K * N }, (_, i) => ((i * 3) % 5) - 2)
  const from = world.from(bf16, [M, K], sliceOf, { name: 'from' })
  const a = world.empty(bf16, [M, K], { name: 'a' })
  const b = world.from(bf16, [ranks * K, N], weights, { name: 'b' })
  const c = world.empty(f32, [M, N], { name: 'c' })
  const ready = world.flags([], { name: 'ready' })
  world.launch(publish, { from, a, ready }, { grid: 1, meta: { M, K } })
  world.launch(allGatherGemm, { a, b, c, ready }, { grid: 1, meta: { BM, BN, BK, slices: 1 } })

  const expected = new Array<number>(M * N).fill(0)
  for (let i = 0; i < M; i++)
    for (let j = 0; j < N; j++)
      for (let k = 0; k < ranks * K; k++)
        expected[i * N + j] += sliceOf(Math.floor(k / K))[i * K + (k % K)] * weights[k * N + j]
  for (let rank = 0; rank < ranks; rank++) expectClose(await world.read(c, rank), expected)
  return [`every rank has the product; its first row is ${expected.slice(0, N).join(' ')}`]
}

export const fused = scenario('all-gather and product in one kernel', { ranks: [2, 3] }, (world) =>
  multiply(world, tiny),
)
export const fusedByTma = scenario('the same in tiles that TMA copies', { ranks: 2 }, (world) =>
  multiply(world, forTma),
)

await show(import.meta.url, fused)
