/**
 * C = scatter(sum over ranks of A x B) in two kernels on one stream. The first kernel multiplies and sends each tile to
 * its owner as soon as it is computed. The second kernel sums, and waits for one tile at a time.
 */
import { kernel, tensor } from '../../lang/kernel.ts'
import { oncePer } from '../../operation/definition.ts'
import type { Reduced } from './bulk.ts'
import { blockMeta, mail, receive, sending } from './inbox.ts'
import { partialMeta, partialProduct } from './product.ts'

export const pushKernels = oncePer(({ dtype, wire, scatter }: Reduced) => ({
  multiply: kernel(
    `gemmReduceScatterSend${scatter}`,
    { a: tensor(dtype, 2), b: tensor(dtype, 2), c: tensor(dtype, 2), ...mail(wire) },
    partialMeta,
    (t, { a, b, c, ...box }, meta) => {
      const eachTile = partialProduct(t, scatter, { a, b }, c, meta)
      eachTile('round', sending(t, box, meta))
    },
  ),
  sum: kernel(
    `gemmReduceScatterReceive${scatter}`,
    { c: tensor(dtype, 2), ...mail(wire) },
    { BM: partialMeta.BM, BN: partialMeta.BN, ...blockMeta },
    (t, { c, ...box }, meta) => receive(t, box, c, meta),
  ),
}))
