/**
 * C = gather(LayerNorm(x)) x B in one kernel. Programs normalise this rank's rows, a few at a time, and store them from
 * registers into an inbox of every rank, or only into their own outbox. After that, programs multiply, beginning with
 * this rank's own rows, and wait for one tile of rows at a time.
 *
 *   box      two slots selected by epoch parity
 *            inbox   [2, ranks x rows per rank, K]: the gathered matrix, to which all ranks send
 *            outbox  [2, rows per rank, K]: the rows of this rank, from where all ranks fetch them (`fetching`)
 *   arrived  [source, i]: the i-th tile of BM rows of that source is in the box
 *
 * Each block of rows is signalled once, so the flag of a tile has BM / rows arrivals. Blocks beyond the last row of the
 * source rank are signalled as well.
 *
 * The reader of an inbox or outbox does not signal that a slot is free. In every launch each rank receives a signal
 * from every other rank, and a rank without rows still signals one tile. A buffer slot is overwritten two launches
 * after it was written. When a rank overwrites a slot, its readers have ended the launch that read the slot.
 */
import { i32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import { product, productMeta } from '../gathered/product.ts'
import { oncePer, type OperandDType } from '../../operation/definition.ts'
import { normalise, normMeta } from './norm.ts'

export interface Fused {
  readonly dtype: OperandDType
  /** The number of blocks of rows per tile. */
  readonly blocks: number
  /** True if rows go to an outbox, false for inboxes. With an outbox, tiles must not span shards of several ranks. */
  readonly fetching: boolean
}

export const fusedKernel = oncePer(({ dtype, blocks, fetching }: Fused) =>
  kernel(
    fetching ? 'normGatherGemmFetching' : 'normGatherGemmFused',
    {
      x: tensor(dtype, 2),
      gamma: tensor(dtype, 1),
      beta: tensor(dtype, 1),
      b: tensor(dtype, 2),
      c: tensor(dtype, 2),
      box: tensor(dtype, 3),
      arrived: flags(2, { arrivals: blocks }),
    },
    { ...productMeta, ...normMeta, acrossShards: false },
    (t, { x, gamma, beta, b, c, box, arrived }, meta) => {
      const { BM, BK, rows, columns } = meta
      const multiply = product(t, 'M', { a: x, b, c }, meta)
      const [all, height] = [c.dim(0), x.dim(0)]
      const inInbox = (inbox: typeof box, slot: Scalar, source: Scalar) =>
        inbox.pick(slot).slice(0, source.mul(height), height)
      const holders = ceilDivScalar(all, height)

      const slot = t.epoch(arrived).mod(2).to(i32)
      const own = all.sub(t.rank.mul(height)).max(1).min(height)
      t.persistent([ceilDiv(own, BM).mul(blocks)], ([block]) => {
        t.if(block.mul(rows).lt(height), () =>
          normalise(t, { x, gamma, beta }, block, meta, (k, value) => {
            const put = (into: ReturnType<typeof inInbox>): void =>
              t.store(into.tile([block, k], [rows, columns]), value)
            if (fetching) put(box.pick(slot))
            else t.for(t.world, (step) => put(inInbox(box.on(t.rank.add(step).mod(t.world)), slot, t.rank)))
          }),
        )
        t.for(t.world, (step) =>
          t.signal(arrived.on(t.rank.add(step).mod(t.world)).at([t.rank, block.div(blocks)])),
        )
      })

      const here = t.epoch(arrived, 'wait').mod(2).to(i32)
      if (meta.acrossShards)
        multiply.ofRows({
          rows: box.pick(here).slice(0, 0, all),
          arrival(i) {
            const from = i.mul(BM)
            const to = from.add(BM).min(all)
            t.for({ from: from.div(height), to: ceilDivScalar(to, height) }, (source) => {
              const top = source.mul(height)
              const end = ceilDiv(to.sub(top).min(height), BM)
              t.for({ from: from.sub(top).max(0).div(BM), to: end }, (tile) =>
                t.wait(arrived.at([source, tile])),
              )
            })
          },
          isHere: () => {
            throw new RangeError('this kernel does not multiply its own rows first')
          },
        })
      else
        multiply.ofShards((owner, [i, k], into) => {
          t.wait(arrived.at([owner, i]))
          const shard = fetching ? box.on(owner).pick(here) : inInbox(box, here, owner)
          t.copy(shard.tile([i, k], [BM, BK]), into)
        })
      // The program waits for the ranks without rows, because no matrix product waits for tiles from them.
      t.last(() => t.for({ from: holders, to: t.world }, (source) => t.wait(arrived.at([source, 0]))))
    },
  ),
)

const ceilDivScalar = (value: Scalar, by: Scalar): Scalar => value.add(by).sub(1).div(by)
