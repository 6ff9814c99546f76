/**
 * C = gather(A) x B in one kernel for a GPU, with A sharded along K and one flag per shard. The variant `fused`
 * launches this kernel on machines with a copy engine, if A is sharded along K and there are no `senders`. In all other
 * cases, `fused` launches the kernel of fusedByTile.ts (`flagPer` in index.ts).
 *
 * Programs send sections of this rank's shard into the inboxes of all peers, starting with the highest-numbered
 * programs. After sending, the programs multiply, beginning with this rank's own shard, which is read directly from A.
 * Loads of B are already in flight while the warps send.
 *
 *   inbox    [2, source, M, K per rank], two slots selected by epoch parity
 *   arrived  [source]: all parts of that source's shard are in the inbox
 *
 * In this kernel, each shard of A has one flag. On a GPU one thread starts all copies of a program and polls flags in between, so
 * one flag per tile would cost more than it saves. The reader of an inbox returns no credits; inbox.ts explains why none are needed.
 */
import { i32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import { oncePer, type OperandDType } from '../../operation/definition.ts'
import type { Tiles } from '../tiles.ts'
import { product, productMeta, type Take } from '../gathered/product.ts'

/**
 * The number of columns of one section of a shard, given its number of rows. A program holds a whole section of the
 * shard in registers while it sends the section.
 */
const partColumns = (BM: number): number => (BM <= 32 ? 256 : 64)

/** The number of sections into which a shard is divided for sending. */
export const partsOf = ([rows, depth]: readonly [number, number], { BM }: Pick<Tiles, 'BM'>): number =>
  Math.ceil(rows / BM) * Math.ceil(depth / partColumns(BM))

/** The maximum number of ranks for which one 32-bit word can hold the set of shards that are not yet multiplied. */
export const mostInAnyOrder = 30

export interface FusedByShard {
  readonly dtype: OperandDType
  /** The number of sections per shard, as `partsOf` computes it. */
  readonly parts: number
  /**
   * True to multiply shards in rank order, so that sums are bitwise reproducible. With false, shards are multiplied in
   * the order of their arrival.
   */
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
      // The highest-numbered programs send first, because they have one tile less to multiply, or no tile.
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
          `shards can be multiplied in any order on at most ${mostInAnyOrder} ranks, not on ${t.world}; use inOrder: true`,
        )
      if (inOrder) multiply.ofShards(take)
      else multiply.ofShardsHere(take, (owner) => t.reached(arrived.at([owner]), { order: 'relaxed' }))
    },
  ),
)
