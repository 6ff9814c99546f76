/**
 * C = gather(A) x B in two kernels on one stream. The first kernel sends this rank's tiles of A to every peer. The
 * second kernel multiplies and waits for only one tile at a time, so no rank waits for the whole shard of another rank.
 */
import { flags, kernel, scalar, tensor } from '../../lang/kernel.ts'
import { oncePer, type OperandDType } from '../../operation/definition.ts'
import { inboxMeta, receiving, send } from './inbox.ts'
import type { Shard } from '../gathered/product.ts'

export const pushKernels = oncePer(({ dtype, shard }: { dtype: OperandDType; shard: Shard }) => {
  const mail = { a: tensor(dtype, 2), inbox: tensor(dtype, 4), arrived: flags(3) }
  return {
    send: kernel(
      `allGatherGemmSend${shard}`,
      { ...mail, rows: scalar('i32') },
      { BM: inboxMeta.BM, BK: inboxMeta.BK, ownFirst: inboxMeta.ownFirst },
      (t, args, meta) => send(t, shard, args, args.rows, meta),
    ),
    multiply: kernel(
      `allGatherGemmReceive${shard}`,
      { ...mail, b: tensor(dtype, 2), c: tensor(dtype, 2) },
      inboxMeta,
      (t, args, meta) => receiving(t, shard, args, meta)(),
    ),
  }
})
