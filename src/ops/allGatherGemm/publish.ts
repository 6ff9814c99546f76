/**
 * A rank writes its slice of A where the others can pull it, and says so: the producer of `allGatherGemmPull`, standing for
 * whatever computes A. It waits until every rank has read what the launch before published.
 */
import { bf16 } from '../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../lang/kernel.ts'

export const publish = kernel(
  'publish',
  { source: tensor(bf16, 2), a: tensor(bf16, 2), ready: flags(), done: flags(1) },
  { BM: 64, BN: 256 },
  (t, { source, a, ready, done }, { BM, BN }) => {
    t.for(t.world, (reader) => t.wait(done.at([reader]), { lag: 1 }))
    t.persistent(a.tiles([BM, BN]), (ai, at) => t.copy(source.tile(at, [BM, BN]), ai))
    t.last(() => t.signal(ready))
  },
)
