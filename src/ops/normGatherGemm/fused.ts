/**
 * C = gather(LayerNorm(x)) x B in one kernel. Programs normalise this rank's rows, a few at a time, and store them from
 * registers into the inboxes of all ranks. After that, they multiply, beginning with this rank's own rows, and wait for
 * one tile of rows at a time.
 *
 *   inbox    [2, ranks x rows per rank, K], two slots selected by epoch parity: the gathered matrix
 *   arrived  [source, i]: the i-th tile of BM rows of that source is in the inbox
 *
 * Each block of rows is signalled once, so the flag of a tile has BM / rows arrivals. Blocks beyond the last row of the
 * source rank are signalled as well.
 *
 * The reader of an inbox returns no credits. In every launch each rank receives a signal from every other rank, and a
 * rank without rows still sends one tile. A sender overwrites an inbox slot two launches after it was written. At that
 * time its readers have ended the launch that read the slot.
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
}

export const fusedKernel = oncePer(({ dtype, blocks }: Fused) =>
  kernel(
    'normGatherGemmFused',
    {
      x: tensor(dtype, 2),
      gamma: tensor(dtype, 1),
      beta: tensor(dtype, 1),
      b: tensor(dtype, 2),
      c: tensor(dtype, 2),
      inbox: tensor(dtype, 3),
      arrived: flags(2, { arrivals: blocks }),
    },
    { ...productMeta, ...normMeta, acrossShards: false },
    (t, { x, gamma, beta, b, c, inbox, arrived }, meta) => {
      const { BM, BK, rows, columns } = meta
      const multiply = product(t, 'M', { a: x, b, c }, meta)
      const [all, height] = [c.dim(0), x.dim(0)]
      const shardOf = (box: typeof inbox, slot: Scalar, source: Scalar) =>
        box.pick(slot).slice(0, source.mul(height), height)
      const holders = ceilDivScalar(all, height)

      const slot = t.epoch(arrived).mod(2).to(i32)
      const own = all.sub(t.rank.mul(height)).max(1).min(height)
      t.persistent([ceilDiv(own, BM).mul(blocks)], ([block]) => {
        t.if(block.mul(rows).lt(height), () =>
          normalise(t, { x, gamma, beta }, block, meta, (k, value) =>
            t.for(t.world, (step) => {
              const peer = t.rank.add(step).mod(t.world)
              t.store(shardOf(inbox.on(peer), slot, t.rank).tile([block, k], [rows, columns]), value)
            }),
          ),
        )
        t.for(t.world, (step) =>
          t.signal(arrived.on(t.rank.add(step).mod(t.world)).at([t.rank, block.div(blocks)])),
        )
      })

      const here = t.epoch(arrived, 'wait').mod(2).to(i32)
      if (meta.acrossShards)
        multiply.ofRows({
          rows: inbox.pick(here).slice(0, 0, all),
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
            throw new RangeError('this kernel does not multiply own rows first')
          },
        })
      else
        multiply.ofShards((owner, [i, k], into) => {
          t.wait(arrived.at([owner, i]))
          t.copy(shardOf(inbox, here, owner).tile([i, k], [BM, BK]), into)
        })
      // The program waits for the ranks without rows, because no product waits for tiles from them.
      t.last(() => t.for({ from: holders, to: t.world }, (source) => t.wait(arrived.at([source, 0]))))
    },
  ),
)

const ceilDivScalar = (value: Scalar, by: Scalar): Scalar => value.add(by).sub(1).div(by)
