/**
 * Sends tiles of the partial products to the owners of the result, and sums them there. Every rank has an inbox with one
 * slot per source rank. A rank writes its own tiles into its own inbox, too.
 *
 *   inbox    [2, source, rows of a shard, columns of a shard], two slots per source, selected by epoch parity
 *   arrived  [source, i, j]: that tile of the source's partial product is in the inbox
 *
 * The owner of an inbox returns no credits. In every launch each rank receives a signal from every other rank, because
 * every shard has at least one tile. A sender overwrites an inbox slot two launches after it was written. At an
 * overwrite, the owner has signalled in the launch in between, so the owner has ended the launch that read the slot.
 *
 * The sum is guaranteed to be computed in rank order, with each addition in f32 and one final rounding. All launches
 * therefore return the same bits.
 */
import { f32, i32 } from '../../lang/dtypes.ts'
import { flags, tensor } from '../../lang/kernel.ts'
import type { Program } from '../../lang/program.ts'
import { ceilDiv, type Flags, type Tensor } from '../../lang/tensor.ts'
import type { OperandDType } from '../../operation/definition.ts'
import { sumInOrder } from '../sums.ts'
import type { TileIndex, Uses } from './product.ts'

export const mail = (wire: OperandDType) => ({ inbox: tensor(wire, 4), arrived: flags(3) })
export interface Mail {
  readonly inbox: Tensor<OperandDType, 4>
  readonly arrived: Flags<3>
}

export interface TileMeta {
  readonly BM: number
  readonly BN: number
}
/** The extents of the blocks in which a program sums, which divide the extents of a tile (`blockOf`). */
export interface BlockMeta extends TileMeta {
  readonly rows: number
  readonly columns: number
}
export const blockMeta = { rows: 16, columns: 128 }

/** The maximum number of elements of a block, chosen so that two blocks fit into the registers of a program. */
const mostElements = 2048
const mostColumns = 128

/** The largest block of a tile that a program sums at once. A tile consists of a whole number of blocks. */
export function blockOf({ BM, BN }: TileMeta): Pick<BlockMeta, 'rows' | 'columns'> {
  const divisor = (extent: number, most: number): number => {
    for (let part = Math.min(extent, most); ; part--) if (extent % part === 0) return part
  }
  const columns = divisor(BN, mostColumns)
  return { rows: divisor(BM, Math.floor(mostElements / columns)), columns }
}

/** Stores tiles in the inboxes of their owners, and signals their flags. */
export function sending(t: Program, { inbox, arrived }: Mail, { BM, BN }: TileMeta): Uses {
  const slot = t.epoch(arrived).mod(2).to(i32)
  return {
    store: ({ owner, at }, sum) =>
      t.store(inbox.on(owner).pick(slot).pick(t.rank).tile(at, [BM, BN]), sum.to(inbox.dtype)),
    signal: ({ owner, at }) => t.signal(arrived.on(owner).at([t.rank, ...at])),
  }
}

/** Calls `body` for every block of this rank's shard, after the tile that contains it has arrived from every rank. */
export function eachArrived(
  t: Program,
  arrived: Flags<3>,
  c: Tensor<OperandDType, 2>,
  { BM, BN, rows, columns }: BlockMeta,
  body: (at: TileIndex) => void,
): void {
  t.persistent([ceilDiv(c.dim(0), rows), ceilDiv(c.dim(1), columns)], ([i, j]) => {
    const tile = [i.div(BM / rows), j.div(BN / columns)] as const
    t.for(t.world, (source) => t.wait(arrived.at([source, ...tile])))
    body([i, j])
  })
}

/** Sums the tiles that arrive in the inbox of this rank. */
export function receive(
  t: Program,
  { inbox, arrived }: Mail,
  c: Tensor<OperandDType, 2>,
  meta: BlockMeta,
): void {
  const block = [meta.rows, meta.columns] as const
  const slot = t.epoch(arrived, 'wait').mod(2).to(i32)
  eachArrived(t, arrived, c, meta, (at) => {
    const sum = sumInOrder(t, t.world, (source) =>
      t.load(inbox.pick(slot).pick(source).tile(at, block)).to(f32),
    )
    t.store(c.tile(at, block), sum.to(c.dtype))
  })
}
