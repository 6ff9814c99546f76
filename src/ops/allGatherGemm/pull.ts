/**
 * C = gather(A) x B. Every rank holds a slice of A along K; B is local. The consumer pulls the slices it needs, starting
 * with its own, each as soon as its owner says that it is written.
 *
 *   ready        one flag a rank: its slice of A is written, this epoch
 *   done[r]      on each owner: rank r has read all it needs of the owner's slice, which may be written again
 *
 * `slices` is how many tiles of BK cover one rank's slice: ceil(K per rank / BK). Where BK does not divide it, the last tile
 * reaches over the slice's end, where both operands read as 0.
 */
import { bf16, f32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'

export const allGatherGemmPull = kernel(
  'allGatherGemmPull',
  { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(bf16, 2), ready: flags(), done: flags(1) },
  { BM: 128, BN: 256, BK: 64, slices: 1, stages: 4 },
  (t, { a, b, c, ready, done }, { BM, BN, BK, slices, stages }) => {
    const as = t.shared(bf16, [BM, BK])
    const bs = t.shared(bf16, [BK, BN])
    const depth = a.dim(1)
    t.persistent(c.tiles([BM, BN]), (ci, [i, j]) => {
      const acc = t.pipeline(
        [t.world, slices],
        t.zeros(f32, [BM, BN]),
        ([step, k], acc) => {
          const owner = t.rank.add(step).mod(t.world) // start at home, so that ranks do not all pull from rank 0
          t.wait(ready.on(owner))
          t.copy(a.on(owner).tile([i, k], [BM, BK]), as)
          t.copy(b.slice(0, owner.mul(depth), depth).tile([k, j], [BK, BN]), bs)
          return t.dot(as, bs, acc)
        },
        { stages },
      )
      t.copy(acc.to(bf16), ci)
    })
    t.last(() => t.signalAll(done.at([t.rank])))
  },
)
