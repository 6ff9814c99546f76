/**
 * 22: a matrix product in clusters. Programs that compute neighbouring tiles of C need the same tiles of A and B. With
 * `cluster`, consecutive programs take neighbouring tiles, and `multicast` promises that the programs along an axis of
 * the cluster copy the same elements: the programs of a row share a tile of A, and those of a column a tile of B.
 *
 * A GPU fetches a multicast tile once and writes it into the shared tiles of all programs along the axis. On a CPU every
 * program copies for itself. The checker reports copies with different elements. The grid must be a multiple of the cluster.
 */
import { ceilDiv, expectClose, f32, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

export const clusteredGemm = kernel(
  'clusteredGemm',
  { a: tensor(f32, 2), b: tensor(f32, 2), c: tensor(f32, 2) },
  { BM: 128, BN: 128, BK: 32 },
  (t, { a, b, c }, { BM, BN, BK }) => {
    const as = t.shared(f32, [BM, BK])
    const bs = t.shared(f32, [BK, BN])
    t.persistent(
      c.tiles([BM, BN]),
      (tile, [i, j]) => {
        const sum = t.pipeline([ceilDiv(a.dim(1), BK)], t.zeros(f32, [BM, BN]), ([k], acc) => {
          t.copy(a.tile([i, k], [BM, BK]), as, { multicast: 1 }) // Programs along axis 1 of a cluster have equal i.
          t.copy(b.tile([k, j], [BK, BN]), bs, { multicast: 0 }) // Programs along axis 0 of a cluster have equal j.
          return t.dot(as, bs, acc)
        })
        t.copy(sum, tile)
      },
      { cluster: [2, 2] },
    )
  },
)

export const clustered = scenario('multiply in clusters', { ranks: 1 }, async (world) => {
  const [M, N, K] = [8, 4, 6]
  const left = Array.from({ length: M * K }, (_, i) => ((i * 5) % 7) - 3)
  const right = Array.from({ length: K * N }, (_, i) => ((i * 3) % 5) - 2)
  const a = world.from(f32, [M, K], left, { name: 'a' })
  const b = world.from(f32, [K, N], right, { name: 'b' })
  const c = world.empty(f32, [M, N], { name: 'c' })
  // Eight tiles of C are two blocks of 2 x 2 tiles, which one cluster of four programs computes one after the other.
  world.launch(clusteredGemm, { a, b, c }, { grid: 4, meta: { BM: 2, BN: 2, BK: 2 } })

  const expected = Array.from({ length: M * N }, (_, at) => {
    const [i, j] = [Math.floor(at / N), at % N]
    let sum = 0
    for (let k = 0; k < K; k++) sum += left[i * K + k] * right[k * N + j]
    return sum
  })
  expectClose(await world.read(c, 0), expected)
  return [`the product of 4 programs in one cluster has the first row ${expected.slice(0, N).join(' ')}`]
})

await show(import.meta.url, clustered)
