/**
 * Compares the simulated collectives with the collectives that the audit found. Returns the first difference as text,
 * or null.
 */
import type { Collective } from '../../src/taxes/collective.ts'
import type { Call, Recorded } from './job.ts'

/** The time that each recorded rank waited for the last recorded rank. */
function plantedWaits(call: Call, recorded: readonly number[]): Map<number, number> {
  const parts = call.parts.filter(({ rank }) => recorded.includes(rank))
  const last = Math.max(...parts.map(({ arrival }) => arrival))
  return new Map(parts.map(({ rank, arrival, end }) => [rank, Math.min(last, end) - arrival]))
}

/**
 * Checks that all members of a collective belong to one simulated call, that no recorded member is missing, and that
 * waits are within `tolerance`.
 */
export function mismatch(
  collectives: Iterable<Collective>,
  { recorded, timeline, callOf }: Recorded,
  tolerance: number,
): string | null {
  const seen = new Set<number>()
  for (const { members, last, matchedBy, groupSize } of collectives) {
    const call = callOf(members[0].rank, members[0].event)
    if (seen.has(call.id)) return `call ${call.id} is there twice`
    seen.add(call.id)
    const expected = recorded.get(call.id)!
    const found = members.map(({ rank }) => timeline.ranks[rank].rank)
    if (`${found}` !== `${expected}`) return `call ${call.id} has ranks ${found}, not ${expected}`
    const other = members.find(({ rank, event }) => callOf(rank, event) !== call)
    if (other) return `call ${call.id} is matched with call ${callOf(other.rank, other.event).id}`
    if (expected.length === 1) {
      const wait = call.ranks.length === 1 && groupSize === 1 ? 0 : null
      if (matchedBy !== null || last !== null || members[0].wait !== wait)
        return `call ${call.id} of one rank waits ${members[0].wait}`
      continue
    }
    const waits = plantedWaits(call, expected)
    for (const { rank, wait } of members) {
      const planted = waits.get(timeline.ranks[rank].rank)!
      if (wait === null || Math.abs(wait - planted) > tolerance)
        return `rank ${timeline.ranks[rank].rank} waits ${wait} in call ${call.id}, not ${planted}`
    }
  }
  return seen.size === recorded.size ? null : `${seen.size} calls, not ${recorded.size}`
}

/** Checks the invariants that hold for any input. */
export function brokenLaw(collectives: Iterable<Collective>, { timeline }: Recorded): string | null {
  for (const [index, { members, last, complete, groupSize }] of [...collectives].entries()) {
    for (const { rank, event, wait, transfer } of members) {
      if (wait === null || transfer === null) {
        if (wait !== transfer || members.length > 1) return `collective ${index} is split in part`
        continue
      }
      if (!Number.isInteger(wait) || wait < 0 || transfer < 0) return `collective ${index} waits ${wait}`
      if (wait + transfer !== timeline.ranks[rank].events.duration[event])
        return `collective ${index}: wait and transfer are not its duration`
      if (rank === last && wait !== 0) return `the last rank waits in collective ${index}`
    }
    if (complete && groupSize !== null && members.length !== groupSize)
      return `collective ${index} is complete with ${members.length} of ${groupSize} ranks`
  }
  return null
}
