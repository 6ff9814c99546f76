/**
 * C = gather(A) x B in one kernel that sends and multiplies, with one flag per tile. The variant `fused` launches this
 * kernel on CPUs, and on GPUs with shards along M or with `senders`. In all other cases, `fused` launches the kernel of
 * fusedByShard.ts (`flagPer` in index.ts).
 *
 * With `senders` > 0, `senders` programs per rank form a team that sends, while the other programs multiply. With
 * `senders` = 0, every program first sends its share and then multiplies, so one program per rank is enough.
 */
import { flags, kernel, tensor } from '../../lang/kernel.ts'
import { oncePer, type OperandDType } from '../../operation/definition.ts'
import { inboxMeta, receiving, send } from './inbox.ts'
import type { Shard } from '../gathered/product.ts'

export const fusedByTileKernel = oncePer(({ dtype, shard }: { dtype: OperandDType; shard: Shard }) =>
  kernel(
    `allGatherGemmFused${shard}`,
    {
      a: tensor(dtype, 2),
      b: tensor(dtype, 2),
      c: tensor(dtype, 2),
      inbox: tensor(dtype, 4),
      arrived: flags(3),
    },
    { ...inboxMeta, senders: 0 },
    (t, args, meta) => {
      const multiplying = receiving(t, shard, args, meta)
      const sending = (): void => send(t, shard, args, args.c.dim(0), meta)
      if (meta.senders === 0) {
        sending()
        multiplying()
      } else
        t.teams({
          senders: { programs: meta.senders, body: sending },
          multipliers: { programs: 'rest', body: multiplying },
        })
    },
  ),
)
