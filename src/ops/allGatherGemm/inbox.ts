/**
 * Tiles of A that travel by inbox: the owner puts each tile into every peer's inbox and raises the tile's flag there.
 *
 *   inbox    [2, source, …a's shape], two slots by epoch
 *   arrived  [source, i, k]: that tile of the source's shard lies in the inbox
 *
 * No credit goes back. In every launch each rank hears from each other one, so whoever writes a slot again, two launches
 * later, knows that its reader has begun the launch in between, and so has ended the one that read the slot.
 */
import { i32 } from '../../lang/dtypes.ts'
import type { Program } from '../../lang/program.ts'
import { ceilDiv, type Flags, type Tensor } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import type { OperandDType } from '../operation.ts'
import type { Shard, Take } from './product.ts'

export interface Mail {
  readonly a: Tensor<OperandDType, 2>
  readonly inbox: Tensor<OperandDType, 4>
  readonly arrived: Flags<3>
}
interface TileMeta {
  readonly BM: number
  readonly BK: number
}

/**
 * Send this rank's tiles, first to the peer that needs them first; of an empty shard one row of tiles, so that everybody is
 * heard. `rows` is the M of all ranks together.
 */
export function send(
  t: Program,
  shard: Shard,
  { a, inbox, arrived }: Mail,
  rows: Scalar,
  { BM, BK }: TileMeta,
): void {
  const slot = t.epoch(arrived).mod(2).to(i32)
  const height = a.dim(0)
  const own = shard === 'K' ? rows : rows.sub(t.rank.mul(height)).max(1).min(height)
  t.persistent([t.world - 1, ceilDiv(own, BM), ceilDiv(a.dim(1), BK)], ([n, i, k]) => {
    const peer = t.rank
      .add(t.world - 1)
      .sub(n)
      .mod(t.world)
    t.put(a.tile([i, k], [BM, BK]), inbox.on(peer).pick(slot).pick(t.rank).tile([i, k], [BM, BK]))
    t.signal(arrived.on(peer).at([t.rank, i, k]))
  })
}

/** Take a tile when it has arrived; this rank's own from where it is. */
export function taking(t: Program, { a, inbox, arrived }: Mail, { BM, BK }: TileMeta): Take {
  const slot = t.epoch(arrived, 'wait').mod(2).to(i32)
  return (owner, [i, k], into) =>
    t.if(
      owner.eq(t.rank),
      () => t.copy(a.tile([i, k], [BM, BK]), into),
      () => {
        t.wait(arrived.at([owner, i, k]))
        t.copy(inbox.pick(slot).pick(owner).tile([i, k], [BM, BK]), into)
      },
    )
}

/** Hear from the ranks whose shards are empty, for whose tiles nobody waits. */
export function hearFromEmpty(t: Program, shard: Shard, { a, arrived }: Mail, rows: Scalar): void {
  if (shard === 'K') return
  const height = a.dim(0)
  const holders = rows.add(height).sub(1).div(height)
  t.last(() =>
    t.for({ from: holders, to: t.world }, (source) =>
      t.if(source.ne(t.rank), () => t.wait(arrived.at([source, 0, 0]))),
    ),
  )
}
