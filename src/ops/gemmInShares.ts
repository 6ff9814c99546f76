/**
 * C = A x B on one rank, its work in even shares: the steps along K of all tiles of C in one row, of which each program has a run of the
 * same length, that may begin within one tile and end within another (stream-K). With as many programs as tiles times some number
 * every tile is cut into that many parts (split-K). So no multiprocessor idles in a last round of tiles, nor where there are fewer tiles than
 * multiprocessors; in return, parts of tiles go through memory.
 *
 *   program     0       1       2       3
 *   tile      0 0 0 0 0|0 1 1 1 1|1 1 2 2 2|2 2 2        six steps each, shares of five
 *
 *   sums    [programs, BM, BN]: the part of a tile that a program did not begin, of which it has at most one
 *   ready   [programs]: that part lies there
 *
 * Who begins a tile adds its parts up, in the order of programs, so that bits do not depend on who is first. A program makes the part for
 * another one before anything else, and waits for those after it alone: all programs must run at once, and then none waits forever.
 *
 * Nothing is overwritten too early: launches of one stream follow each other, and those that use the same `sums` belong to one. Steps of all
 * tiles together are less than 2^31: of tiles of 64 x 128 x 64, M x N x K below 2^50.
 */
import { f32 } from '../lang/dtypes.ts'
import { flags, kernel, tensor } from '../lang/kernel.ts'
import { ceilDiv } from '../lang/tensor.ts'
import { oncePer, type OperandDType } from './operation.ts'

export const gemmInSharesKernel = oncePer((dtype: OperandDType) =>
  kernel(
    'gemmInShares',
    {
      a: tensor(dtype, 2),
      b: tensor(dtype, 2),
      c: tensor(dtype, 2),
      sums: tensor(f32, 3),
      ready: flags(1),
    },
    { BM: 64, BN: 128, BK: 64, stages: 4 },
    (t, { a, b, c, sums, ready }, { BM, BN, BK, stages }) => {
      const as = t.shared(dtype, [BM, BK])
      const bs = t.shared(dtype, [BK, BN])
      const steps = ceilDiv(a.dim(1), BK)
      const columns = ceilDiv(c.dim(1), BN)
      const all = ceilDiv(c.dim(0), BM).mul(columns).mul(steps)
      const share = all.add(t.programs).sub(1).div(t.programs)
      const from = t.program.mul(share).min(all)
      const to = from.add(share).min(all)
      t.for({ from: from.div(steps), to: to.add(steps).sub(1).div(steps) }, (tile) => {
        const [i, j] = [tile.div(columns), tile.mod(columns)]
        const top = tile.mul(steps)
        const first = from.sub(top).max(0)
        const own = t.pipeline(
          [to.sub(top).min(steps).sub(first)],
          t.zeros(f32, [BM, BN]),
          ([n], acc) => {
            const k = first.add(n)
            t.copy(a.tile([i, k], [BM, BK]), as)
            t.copy(b.tile([k, j], [BK, BN]), bs)
            return t.dot(as, bs, acc)
          },
          { stages },
        )
        t.if(
          first.gt(0),
          () => {
            t.store(sums.pick(t.program).tile([0, 0], [BM, BN]), own)
            t.signal(ready.at([t.program]))
          },
          () => {
            const last = top.add(steps).sub(1).div(share)
            const whole = t.for({ from: t.program.add(1), to: last.add(1) }, own, (program, sum) => {
              t.wait(ready.at([program]))
              return sum.add(t.load(sums.pick(program).tile([0, 0], [BM, BN])))
            })
            t.copy(whole.to(dtype), c.tile([i, j], [BM, BN]))
          },
        )
      })
    },
  ),
)
