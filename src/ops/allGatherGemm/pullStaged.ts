/**
 * C = gather(A) x B in one kernel that pulls A, sharded along K, from where its owners put it: each rank copies its shard into an outbox of
 * its own and says so, and then multiplies, the own shard first, from where it lies. Nobody waits at the end for others to
 * have read what it owns (pullInPlace.ts does, for three flights through memory after its last tile): A may be written again at once.
 *
 *   outbox  [2, M, K of a rank], two slots by epoch
 *   ready   [source]: all parts of that source's shard lie in its outbox
 *
 * No credit goes back: every rank hears from every other in each launch, so whoever writes a slot again, two launches later, knows that
 * its readers have ended the launch in which they read it.
 */
import { i32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import { oncePer, type OperandDType } from '../operation.ts'
import type { Tiles } from '../tiles.ts'
import { product, productMeta } from './product.ts'

/** Columns of a part of so many rows: a program holds all of it in registers. */
const partColumns = (BM: number): number => (BM <= 64 ? 256 : 128)

/** Parts of a shard. */
export const stagedParts = ([rows, depth]: readonly [number, number], { BM }: Pick<Tiles, 'BM'>): number =>
  Math.ceil(rows / BM) * Math.ceil(depth / partColumns(BM))

export const pullStagedKernel = oncePer(({ dtype, parts }: { dtype: OperandDType; parts: number }) =>
  kernel(
    'allGatherGemmPullStaged',
    {
      a: tensor(dtype, 2),
      b: tensor(dtype, 2),
      c: tensor(dtype, 2),
      outbox: tensor(dtype, 3),
      ready: flags(1, { arrivals: parts }),
    },
    productMeta,
    (t, { a, b, c, outbox, ready }, meta) => {
      const { BM, BN, BK } = meta
      const multiply = product(t, 'K', { a, b, c }, meta)
      if (t.world === 1) return multiply.ofShards((_, at, into) => t.copy(a.tile(at, [BM, BK]), into))
      const [rows, depth] = [a.dim(0), a.dim(1)]
      const width = partColumns(BM)
      const across = ceilDiv(depth, width)
      const count = ceilDiv(rows, BM).mul(across)
      const slot = t.epoch(ready).mod(2).to(i32)
      // Programs that have a tile less to multiply than others, or none, are the last ones; all, if they have the same.
      const tiles = ceilDiv(c.dim(0), BM).mul(ceilDiv(c.dim(1), BN))
      const free = t.programs.sub(tiles.mod(t.programs))
      const fromBehind = t.programs.sub(1).sub(t.program)
      const first = fromBehind.lt(free).select(fromBehind, count)
      t.for({ from: first, to: count, step: free }, (n) => {
        const part = [n.div(across), n.mod(across)] as const
        t.store(outbox.pick(slot).tile(part, [BM, width]), t.load(a.tile(part, [BM, width])))
        t.for(t.world - 1, (step) => t.signal(ready.on(t.rank.add(step).add(1).mod(t.world)).at([t.rank])))
      })
      const there = t.epoch(ready, 'wait').mod(2).to(i32)
      multiply.ofShards((owner, at, into) =>
        t.if(
          owner.eq(t.rank),
          () => t.copy(a.tile(at, [BM, BK]), into),
          () => {
            t.wait(ready.at([owner]))
            t.copy(outbox.on(owner).pick(there).tile(at, [BM, BK]), into)
          },
        ),
      )
    },
  ),
)
