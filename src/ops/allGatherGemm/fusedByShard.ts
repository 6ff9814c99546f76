/**
 * C = gather(A) x B in one kernel for a GPU, A sharded along K: programs send parts of this rank's shard into all peers' inboxes,
 * the last ones first, then multiply, the own shard first, from where it lies. While warps send, B is on its way.
 *
 *   inbox    [2, source, M, K of a rank], two slots by epoch
 *   arrived  [source]: all parts of that source's shard lie in the inbox. A flag for each tile would cost a GPU more than it
 *            brings: one thread starts all copies of a program, and looks at flags in between
 *
 * No credit goes back: see inbox.ts.
 */
import { i32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import { oncePer, type OperandDType } from '../operation.ts'
import type { Tiles } from '../tiles.ts'
import { product, productMeta, type Take } from './product.ts'

/** Columns of a part of so many rows: a program holds all of it in registers while it sends. */
const partColumns = (BM: number): number => (BM <= 32 ? 256 : 64)

/** Parts of a shard. */
export const partsOf = ([rows, depth]: readonly [number, number], { BM }: Pick<Tiles, 'BM'>): number =>
  Math.ceil(rows / BM) * Math.ceil(depth / partColumns(BM))

/** Ranks of which one word can tell which are left. */
export const mostInAnyOrder = 30

export interface FusedByShard {
  readonly dtype: OperandDType
  /** See `partsOf`. */
  readonly parts: number
  /** Shards are multiplied in the order of ranks, so that sums are the same every time; else as they arrive. */
  readonly inOrder: boolean
}

export const fusedByShardKernel = oncePer(({ dtype, parts, inOrder }: FusedByShard) =>
  kernel(
    'allGatherGemmFusedByShard',
    {
      a: tensor(dtype, 2),
      b: tensor(dtype, 2),
      c: tensor(dtype, 2),
      inbox: tensor(dtype, 4),
      arrived: flags(1, { arrivals: parts }),
    },
    productMeta,
    (t, { a, b, c, inbox, arrived }, meta) => {
      const { BM, BK } = meta
      const multiply = product(t, 'K', { a, b, c }, meta)
      if (t.world === 1) return multiply.ofShards((_, at, into) => t.copy(a.tile(at, [BM, BK]), into))
      const slot = t.epoch(arrived).mod(2).to(i32)
      const [rows, depth] = [a.dim(0), a.dim(1)]
      const width = partColumns(BM)
      const across = ceilDiv(depth, width)
      // The last programs have a tile less to multiply, or none.
      const fromBehind = t.programs.sub(1).sub(t.program)
      t.for({ from: fromBehind, to: ceilDiv(rows, BM).mul(across), step: t.programs }, (n) => {
        const part = [n.div(across), n.mod(across)] as const
        const peer = (step: typeof n) => t.rank.add(step).add(1).mod(t.world)
        const sent = t.load(a.tile(part, [BM, width]))
        t.for(t.world - 1, (step) =>
          t.store(inbox.on(peer(step)).pick(slot).pick(t.rank).tile(part, [BM, width]), sent),
        )
        t.for(t.world - 1, (step) => t.signal(arrived.on(peer(step)).at([t.rank])))
      })
      const here = t.epoch(arrived, 'wait').mod(2).to(i32)
      const take: Take = (owner, at, into) =>
        t.if(
          owner.eq(t.rank),
          () => t.copy(a.tile(at, [BM, BK]), into),
          () => {
            t.wait(arrived.at([owner]))
            t.copy(inbox.pick(here).pick(owner).tile(at, [BM, BK]), into)
          },
        )
      if (!inOrder && t.world > mostInAnyOrder)
        throw new RangeError(
          `shards of ${t.world} ranks are taken in order; ${mostInAnyOrder} may come in any`,
        )
      if (inOrder) multiply.ofShards(take)
      else multiply.ofShardsHere(take, (owner) => t.reached(arrived.at([owner]), { order: 'relaxed' }))
    },
  ),
)
