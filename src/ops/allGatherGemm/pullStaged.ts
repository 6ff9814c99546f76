/**
 * C = gather(A) x B in one kernel that pulls A, sharded along K, from outboxes. Each rank copies its shard into its own
 * outbox, signals all peers, and then multiplies. A rank starts with its own shard, which it reads directly from A. No
 * rank waits at the end until its peers have read its shard, so the next kernel may overwrite A immediately. (The
 * kernel of pullInPlace.ts does wait at the end, for three memory latencies after its last tile.)
 *
 *   outbox  [2, M, K per rank], two slots selected by epoch parity
 *   ready   [source]: all parts of that source's shard are in its outbox
 *
 * The readers of an outbox do not signal that a slot is free (no credits). Every rank receives a signal from every
 * other rank in each launch. A rank overwrites an outbox slot two launches after it was written. When a rank overwrites
 * an outbox slot, its readers have therefore ended the launch in which they read the slot.
 */
import { i32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import { oncePer, type OperandDType } from '../../operation/definition.ts'
import type { Tiles } from '../tiles.ts'
import { product, productMeta } from '../gathered/product.ts'

/**
 * The number of columns of one section of a shard, given the number of its rows. A program holds a whole section in
 * registers.
 */
const partColumns = (BM: number): number => (BM <= 64 ? 256 : 128)

/** The number of sections into which a shard is divided. */
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
      // The last programs have one tile less to multiply than the others, or no tile, so they make the copies. If all
      // programs have equally many tiles, all programs copy.
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
