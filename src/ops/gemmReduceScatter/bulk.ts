/**
 * The reduce-scatter of the bulk-synchronous variant. The previous kernel (../gemm.ts) on the stream has written this
 * rank's partial product. Each owner loads the partial products of its shard from all ranks and sums them.
 *
 *   partial  [M, N]: this rank's partial product
 *   entered  [rank]: that rank's partial product is complete
 *   left     [rank]: that rank has read all partial products that it needs
 *
 * The launch ends when every rank has read this rank's partial product, so that the next product may overwrite it.
 *
 * The order of the terms is guaranteed: a sum begins with the next rank's term and ends with the owner's, so that the
 * ranks do not all read from rank 0 first. All launches therefore return the same bits.
 */
import { f32 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import { oncePer, type OperandDType } from '../../operation/definition.ts'
import { announce, leaveTogether } from '../meeting.ts'
import { sumInOrder } from '../sums.ts'
import { blockMeta } from './inbox.ts'
import { partOf, type Scatter } from './product.ts'

export interface Reduced {
  readonly dtype: OperandDType
  readonly wire: OperandDType
  readonly scatter: Scatter
}

export const bulkReduceScatterKernel = oncePer(({ dtype, wire, scatter }: Reduced) =>
  kernel(
    `gemmReduceScatterBulk${scatter}`,
    { partial: tensor(wire, 2), c: tensor(dtype, 2), entered: flags(1), left: flags(1) },
    blockMeta,
    (t, { partial, c, entered, left }, { rows, columns }) => {
      const axis = scatter === 'M' ? 0 : 1
      const { first, extent } = partOf(t.rank, c.dim(axis), partial.dim(axis))
      announce(t, entered)
      t.for(t.world, (source) => t.wait(entered.at([source])))
      const [height, width] = scatter === 'M' ? [extent, c.dim(1)] : [c.dim(0), extent]
      t.persistent([ceilDiv(height, rows), ceilDiv(width, columns)], ([i, j]) => {
        const sum = sumInOrder(t, t.world, (n) => {
          const source = t.rank.add(n).add(1).mod(t.world)
          const part = partial.on(source).slice(axis, first, extent)
          return t.load(part.tile([i, j], [rows, columns])).to(f32)
        })
        t.store(c.tile([i, j], [rows, columns]), sum.to(dtype))
      })
      leaveTogether(t, left)
    },
  ),
)
