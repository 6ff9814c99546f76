/**
 * Finds the collectives in which, besides several recorded ranks, ranks without recorded work take part. The last of
 * the recorded ranks may have waited for a rank without recorded work. If ranks without recorded work take part in a
 * collective, the known waiting is therefore a lower bound, and the known transfer is an upper bound.
 */
import type { Timeline } from '../timeline/timeline.ts'
import { communicationOf, participantsOf } from './calls.ts'
import type { Collectives } from './collectiveTable.ts'

export interface Untraced {
  /** The numbers of the ranks without recorded work, as far as the traces list them. */
  readonly ranks: readonly number[]
  /** The number of further ranks without recorded work, if the traces do not list the groups. */
  readonly unlisted: number
  /**
   * The number of collectives with a rank without recorded work, and the number of other collectives. Only collectives
   * of several recorded ranks are counted.
   */
  readonly collectives: number
  readonly complete: number
}

/** `recorded` has the indices of the ranks that have recorded work. `world` is the number of ranks, if it is known. */
export function untracedOf(
  { ranks }: Timeline,
  collectives: Collectives,
  recorded: readonly number[],
  world: number | null,
): Untraced {
  const present = new Set(recorded.map((index) => ranks[index].rank))
  const missing = new Set<number>()
  let [unlisted, partial, complete] = [0, 0, 0]
  for (let i = 0; i < collectives.length; i++) {
    const [from, to] = [collectives.first[i], collectives.first[i + 1]]
    if (to - from < 2) continue
    const member = collectives.rank[from]
    const call = communicationOf(ranks[member], collectives.event[from])
    const participants = participantsOf(call, ranks[member].rank)
    const absent = participants?.filter((rank) => !present.has(rank)) ?? []
    const size = call?.groupSize ?? world
    const others = participants === null && size !== null ? Math.max(0, size - present.size) : 0
    if (collectives.complete[i] === 1 || absent.length + others === 0) {
      complete++
      continue
    }
    partial++
    for (const rank of absent) missing.add(rank)
    unlisted = Math.max(unlisted, others)
  }
  return {
    ranks: [...missing].sort((a, b) => a - b),
    unlisted: missing.size > 0 ? 0 : unlisted,
    collectives: partial,
    complete,
  }
}
