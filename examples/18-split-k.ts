/**
 * 18: split-K. A matrix product with few tiles and a long K is divided along K, so that more programs have work. The
 * program that finishes the last partial sum of a tile adds the partial sums.
 *
 * `t.last(body, { at, of, arrivals })` counts arrivals per index, here per tile of C. The body runs in the program
 * whose arrival completes the count, after everything that the other programs did before they arrived. The partial sums
 * are added in the order of K, so the result does not depend on which program comes last.
 */
import { ceilDiv, expectClose, f32, kernel, scenario, tensor, type World } from 'arke'
import { show } from './show.ts'

export const splitK = kernel(
  'splitK',
  { a: tensor(f32, 2), b: tensor(f32, 2), c: tensor(f32, 2), parts: tensor(f32, 3) },
  { BM: 128, BN: 128, BK: 64, splits: 4, tiles: 4 },
  (t, { a, b, c, parts }, { BM, BN, BK, splits, tiles }) => {
    const as = t.shared(f32, [BM, BK])
    const bs = t.shared(f32, [BK, BN])
    const steps = ceilDiv(ceilDiv(a.dim(1), BK), splits)
    const [rows, columns] = [ceilDiv(c.dim(0), BM), ceilDiv(c.dim(1), BN)]
    t.persistent([rows, columns, splits], ([i, j, split]) => {
      const part = t.pipeline([steps], t.zeros(f32, [BM, BN]), ([step], sum) => {
        const k = split.mul(steps).add(step)
        t.copy(a.tile([i, k], [BM, BK]), as)
        t.copy(b.tile([k, j], [BK, BN]), bs)
        return t.dot(as, bs, sum)
      })
      t.store(parts.pick(split).tile([i, j], [BM, BN]), part)
      const addParts = (): void => {
        const sum = t.for(splits, t.zeros(f32, [BM, BN]), (s, sum) =>
          sum.add(t.load(parts.pick(s).tile([i, j], [BM, BN]))),
        )
        t.store(c.tile([i, j], [BM, BN]), sum)
      }
      t.last(addParts, { at: i.mul(columns).add(j), of: tiles, arrivals: splits })
    })
  },
)

const [M, N, K] = [4, 3, 12]
const meta = { BM: 2, BN: 2, BK: 2, splits: 3, tiles: 4 }

async function multiply(world: World): Promise<string[]> {
  const left = Array.from({ length: M * K }, (_, i) => ((i * 5) % 7) - 3)
  const right = Array.from({ length: K * N }, (_, i) => ((i * 3) % 5) - 2)
  const args = {
    a: world.from(f32, [M, K], left, { name: 'a' }),
    b: world.from(f32, [K, N], right, { name: 'b' }),
    c: world.empty(f32, [M, N], { name: 'c' }),
    parts: world.empty(f32, [meta.splits, M, N], { name: 'parts' }),
  }
  for (const grid of [4, 3]) world.launch(splitK, args, { grid, meta })
  const expected = Array.from({ length: M * N }, (_, at) => {
    const [i, j] = [Math.floor(at / N), at % N]
    let sum = 0
    for (let k = 0; k < K; k++) sum += left[i * K + k] * right[k * N + j]
    return sum
  })
  expectClose(await world.read(args.c, 0), expected)
  return [`the product of ${meta.splits} parts of K has the first row ${expected.slice(0, N).join(' ')}`]
}

export const split = scenario('add the parts in the last program', { ranks: 1 }, multiply)

await show(import.meta.url, split)
