/**
 * Tiles of A that travel by inbox: the owner puts each tile into every rank's inbox, its own too, and raises the tile's flag
 * there. So the inbox becomes the gathered matrix, and a tile of it may be read when its flags are up. With `ownFirst`, where a
 * rank multiplies its own shard straight from A (ownFirst.ts), nothing is sent home.
 *
 *   inbox    two slots by epoch; K: [2, source, M, K of a rank]; M: [2, 1, ranks x M of a rank, K]
 *   arrived  [source, i, k]: that tile of the source's shard lies in the inbox
 *
 * No credit goes back. In every launch each rank hears from each other one, so whoever writes a slot again, two launches
 * later, knows that its reader has begun the launch in between, and so has ended the one that read the slot.
 */
import { bool, i32 } from '../../lang/dtypes.ts'
import type { Program } from '../../lang/program.ts'
import { ceilDiv, type Flags, type Tensor } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import type { OperandDType } from '../operation.ts'
import {
  product,
  productMeta,
  type Gathered,
  type Operands,
  type ProductMeta,
  type Shard,
  type Take,
} from './product.ts'

export interface Mail {
  readonly a: Tensor<OperandDType, 2>
  readonly inbox: Tensor<OperandDType, 4>
  readonly arrived: Flags<3>
}
interface TileMeta {
  readonly BM: number
  readonly BK: number
}
export interface InboxMeta extends TileMeta {
  readonly ownFirst: boolean
}
export const inboxMeta = { ...productMeta, ownFirst: false }

/** Where a source's shard lies in a rank's inbox. */
const shardIn = (shard: Shard, box: Tensor<OperandDType, 3>, source: Scalar, height: Scalar) =>
  shard === 'K' ? box.pick(source) : box.pick(0).slice(0, source.mul(height), height)

/**
 * Send this rank's tiles, first to the peer that needs them first, last to itself; of an empty shard one row of tiles, so that
 * everybody is heard. `rows` is the M of all ranks together.
 */
export function send(
  t: Program,
  shard: Shard,
  { a, inbox, arrived }: Mail,
  rows: Scalar,
  { BM, BK, ownFirst }: InboxMeta,
): void {
  const slot = t.epoch(arrived).mod(2).to(i32)
  const height = a.dim(0)
  const own = shard === 'K' ? rows : rows.sub(t.rank.mul(height)).max(1).min(height)
  const peers = ownFirst ? t.world - 1 : t.world
  t.persistent([peers, ceilDiv(own, BM), ceilDiv(a.dim(1), BK)], ([n, i, k]) => {
    const peer = t.rank
      .add(t.world - 1)
      .sub(n)
      .mod(t.world)
    const place = shardIn(shard, inbox.on(peer).pick(slot), t.rank, height)
    t.put(a.tile([i, k], [BM, BK]), place.tile([i, k], [BM, BK]))
    t.signal(arrived.on(peer).at([t.rank, i, k]))
  })
}

/** How many ranks have rows. */
const holders = (rows: Scalar, height: Scalar): Scalar => rows.add(height).sub(1).div(height)

/** Take a tile of one source's shard when it has arrived. */
function taking(t: Program, shard: Shard, { a, inbox, arrived }: Mail, { BM, BK }: TileMeta): Take {
  const slot = t.epoch(arrived, 'wait').mod(2).to(i32)
  return (owner, [i, k], into) => {
    t.wait(arrived.at([owner, i, k]))
    t.copy(shardIn(shard, inbox.pick(slot), owner, a.dim(0)).tile([i, k], [BM, BK]), into)
  }
}

/** All rows that were sharded along M, as one matrix. */
function gathered(t: Program, { a, inbox, arrived }: Mail, rows: Scalar, { BM, BK }: TileMeta): Gathered {
  const slot = t.epoch(arrived, 'wait').mod(2).to(i32)
  const height = a.dim(0)
  return {
    rows: inbox.pick(slot).pick(0).slice(0, 0, rows),
    arrival(i) {
      const from = i.mul(BM)
      const to = from.add(BM).min(rows)
      t.for({ from: from.div(height), to: to.sub(1).div(height).add(1) }, (source) => {
        const top = source.mul(height)
        const first = from.sub(top).max(0).div(BM)
        const end = ceilDiv(to.sub(top).min(height), BM)
        t.for({ from: first, to: end }, (part) =>
          t.for(ceilDiv(a.dim(1), BK), (k) => t.wait(arrived.at([source, part, k]))),
        )
      })
    },
    isHere: () =>
      t.for(holders(rows, height), t.constant(bool, 1), (source, here) =>
        t.for(ceilDiv(a.dim(1), BK), here, (k, all) => all.and(t.reached(arrived.at([source, 0, k])))),
      ),
  }
}

/** Declares what multiplies, at the top of a kernel; the product of what arrives in the inbox, and hearing from everybody. */
export function receiving(
  t: Program,
  shard: Shard,
  args: Mail & Operands,
  meta: ProductMeta & InboxMeta,
): () => void {
  const multiply = product(t, shard, args, meta)
  const rows = args.c.dim(0)
  return () => {
    if (meta.ownFirst) multiply.ownFirst(taking(t, shard, args, meta))
    else if (shard === 'K' || meta.aligned) multiply.ofShards(taking(t, shard, args, meta))
    else multiply.ofRows(gathered(t, args, rows, meta))
    hearFromEmpty(t, shard, args, rows)
  }
}

/** Hear from the ranks whose shards are empty, for whose tiles nobody waits. */
function hearFromEmpty(t: Program, shard: Shard, { a, arrived }: Mail, rows: Scalar): void {
  if (shard === 'K') return
  t.last(() =>
    t.for({ from: holders(rows, a.dim(0)), to: t.world }, (source) => t.wait(arrived.at([source, 0, 0]))),
  )
}
