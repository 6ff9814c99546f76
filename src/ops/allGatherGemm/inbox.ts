/**
 * Sends tiles of A through inboxes. The owner of a tile writes it into the inbox of every rank, including its own rank,
 * and signals the tile's flag on each of these ranks. The inbox thus becomes the gathered matrix, and a tile may be
 * read once its flags are signalled. With the option `ownFirst`, a rank multiplies its own shard directly from A
 * (ownFirst.ts) and sends nothing to itself.
 *
 *   inbox    two slots selected by epoch parity; K: [2, source, M, K per rank]; M: [2, 1, ranks x M per rank, K]
 *   arrived  [source, i, k]: that tile of the source's shard is in the inbox
 *
 * The reader of an inbox sends no signal that a slot is free (no credits). In every launch each rank receives a signal
 * from every other rank. A sender overwrites an inbox slot two launches after it was written. When a sender overwrites
 * an inbox slot, the reader has already begun a later launch, so the reader has ended the launch that read the slot.
 */
import { bool, i32 } from '../../lang/dtypes.ts'
import type { Program } from '../../lang/program.ts'
import { ceilDiv, type Flags, type Tensor } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import type { OperandDType } from '../../operation/definition.ts'
import {
  product,
  productMeta,
  type Gathered,
  type Operands,
  type ProductMeta,
  type Shard,
  type Take,
} from '../gathered/product.ts'

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

/** The view of the inbox that holds the shard of one source rank. */
const shardIn = (shard: Shard, box: Tensor<OperandDType, 3>, source: Scalar, height: Scalar) =>
  shard === 'K' ? box.pick(source) : box.pick(0).slice(0, source.mul(height), height)

/**
 * Sends this rank's tiles to all ranks, beginning with the peer that needs them first and ending with this rank. A rank
 * with an empty shard sends one row of tiles, so that every rank receives a signal. The argument `rows` is the number
 * of rows of all ranks together (M).
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

/** The number of ranks whose shards have rows. */
const holders = (rows: Scalar, height: Scalar): Scalar => rows.add(height).sub(1).div(height)

/** Returns a function that waits for a tile of one source rank's shard and copies the tile. */
function taking(t: Program, shard: Shard, { a, inbox, arrived }: Mail, { BM, BK }: TileMeta): Take {
  const slot = t.epoch(arrived, 'wait').mod(2).to(i32)
  return (owner, [i, k], into) => {
    t.wait(arrived.at([owner, i, k]))
    t.copy(shardIn(shard, inbox.pick(slot), owner, a.dim(0)).tile([i, k], [BM, BK]), into)
  }
}

/** The gathered matrix of shards along M, seen as one matrix in the inbox. */
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

/**
 * Declares the shared tiles at the top of a kernel. Returns the function that multiplies the data arriving in the inbox
 * and waits for a signal from every rank.
 */
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

/** Waits for the ranks with empty shards, because no matrix product waits for tiles from them. */
function hearFromEmpty(t: Program, shard: Shard, { a, arrived }: Mail, rows: Scalar): void {
  if (shard === 'K') return
  t.last(() =>
    t.for({ from: holders(rows, a.dim(0)), to: t.world }, (source) => t.wait(arrived.at([source, 0, 0]))),
  )
}
