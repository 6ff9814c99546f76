/** All original (correct) kernels of the mutation suite. */
import { collectives } from './kernels/collectives.ts'
import { counts } from './kernels/counts.ts'
import { gemms } from './kernels/gemms.ts'
import { groups } from './kernels/groups.ts'
import { inFlight } from './kernels/inflight.ts'
import { locks } from './kernels/locks.ts'
import { passing } from './kernels/passing.ts'
import { reductions } from './kernels/reduce.ts'
import { roles } from './kernels/roles.ts'
import { splits } from './kernels/splitKByLast.ts'
import type { Original } from './suite.ts'

export const originals: readonly Original[] = [
  ...passing,
  ...collectives,
  ...gemms,
  ...reductions,
  ...locks,
  ...counts,
  ...inFlight,
  ...roles,
  ...splits,
  ...groups,
]
