/** All original (correct) kernels of the mutation suite. */
import { atomics } from './kernels/atomics.ts'
import { clusters } from './kernels/clusters.ts'
import { collectives } from './kernels/collectives.ts'
import { counts } from './kernels/counts.ts'
import { diagnostics } from './kernels/diagnostics.ts'
import { gemms } from './kernels/gemms.ts'
import { groups } from './kernels/groups.ts'
import { hostSignals } from './kernels/hostSignals.ts'
import { inFlight } from './kernels/inflight.ts'
import { insideRoles } from './kernels/insideRoles.ts'
import { locks } from './kernels/locks.ts'
import { passing } from './kernels/passing.ts'
import { reductions } from './kernels/reduce.ts'
import { roles } from './kernels/roles.ts'
import { splits } from './kernels/splitKByLast.ts'
import { streams } from './kernels/streams.ts'
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
  ...insideRoles,
  ...diagnostics,
  ...streams,
  ...hostSignals,
  ...clusters,
  ...atomics,
]
