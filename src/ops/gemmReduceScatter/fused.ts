/**
 * C = scatter(sum over ranks of A x B) in one kernel that multiplies, sends and sums. The tiles of all owners become
 * complete at the same rate, so sums start long before the last product ends.
 *
 * With `summers` > 0, that many programs per rank form a team that sums what arrives, while the other programs multiply
 * and send. With `summers` = 0, every program first multiplies and sends its share and then sums, so one program per
 * rank is enough.
 */
import { kernel, tensor } from '../../lang/kernel.ts'
import { oncePer } from '../../operation/definition.ts'
import type { Reduced } from './bulk.ts'
import { blockMeta, mail, receive, sending } from './inbox.ts'
import { partialMeta, partialProduct } from './product.ts'

export const fusedKernel = oncePer(({ dtype, wire, scatter }: Reduced) =>
  kernel(
    `gemmReduceScatterFused${scatter}`,
    { a: tensor(dtype, 2), b: tensor(dtype, 2), c: tensor(dtype, 2), ...mail(wire) },
    { ...partialMeta, ...blockMeta, summers: 0 },
    (t, { a, b, c, ...box }, meta) => {
      const eachTile = partialProduct(t, scatter, { a, b }, c, meta)
      const multiply = (): void => eachTile('round', sending(t, box, meta))
      const sum = (): void => receive(t, box, c, meta)
      if (meta.summers === 0) {
        multiply()
        sum()
      } else
        t.teams({
          summers: { programs: meta.summers, body: sum },
          multipliers: { programs: 'rest', body: multiply },
        })
    },
  ),
)
