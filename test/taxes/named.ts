/** The rank that an audit names as the one most waited for, as the report does (src/report/culprit.ts). */
import { certainStragglers } from '../../src/taxes/certainty.ts'
import { collectivesOf } from '../../src/taxes/collectives.ts'
import { communicationTimes, partitionOf, recordedSpan } from '../../src/taxes/partition.ts'
import { type Straggler, stragglersOf } from '../../src/taxes/stragglers.ts'
import type { Clock } from '../../src/taxes/collective.ts'
import type { Timeline } from '../../src/timeline/timeline.ts'
import { type Warning, Warnings } from '../../src/timeline/warnings.ts'

export interface Verdict {
  /** The index of the rank, or null if the audit names none. */
  readonly named: number | null
  readonly stragglers: readonly Straggler[]
  readonly clocks: readonly Clock[]
  readonly warnings: readonly Warning[]
}

export function verdictOf(timeline: Timeline): Verdict {
  const warnings = new Warnings()
  const { collectives, clocks } = collectivesOf(timeline, warnings)
  const times = communicationTimes(timeline, collectives)
  const partitions = timeline.ranks.map((rank, i) =>
    partitionOf(rank, timeline.names, recordedSpan(rank) ?? [0, 0], times[i]),
  )
  const found = stragglersOf(timeline, collectives, clocks, partitions)
  const stragglers = certainStragglers(timeline, collectives, found, false)
  const named = stragglers.find(({ exposed }) => exposed > 0)?.rank ?? null
  return { named, stragglers, clocks, warnings: warnings.list() }
}
