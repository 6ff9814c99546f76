/**
 * The members of a rank group are a list of ranks of the world. A rank's position in this list is its rank in the
 * group, and thus in kernels that are launched on the group. In place of a list of members, the value `undefined`
 * stands for the whole world.
 */
import { misuse } from './world.ts'

export type Members = readonly number[] | undefined

/** The rank of the world that corresponds to a rank in a group. */
export const inWorld = (members: Members, rank: number): number => (members ? members[rank] : rank)

/** The rank in a group that corresponds to a rank of the world. */
export const inGroup = (members: Members, rank: number): number => (members ? members.indexOf(rank) : rank)

export const groupName = (members: readonly number[]): string => `group [${members.join(', ')}]`

/**
 * Formats a rank for messages, for example "rank 5", or "rank 5 (rank 1 of group [4, 5])". The argument `rank` is a
 * rank of the world.
 */
export const rankName = (rank: number, members?: Members): string =>
  members ? `rank ${rank} (rank ${members.indexOf(rank)} of ${groupName(members)})` : `rank ${rank}`

/**
 * Throws an error unless the group has this rank. If `members` is undefined (the whole world), this function checks
 * nothing, because the world itself checks its ranks.
 */
export function expectPlace(members: Members, rank: number): void {
  if (members && members[rank] === undefined)
    throw misuse(`there is no rank ${rank} in ${groupName(members)}`)
}

/** Group members at a constant distance: rank r of the group is rank `first` + `step` x r of the world. */
export interface Spacing {
  readonly first: number
  readonly step: number
}

/**
 * The result is undefined if the distances between the members differ. A group with a single member has the step of the
 * whole world, 1.
 */
export function spacingOf(members: Members): Spacing | undefined {
  if (!members) return { first: 0, step: 1 }
  const step = members.length > 1 ? members[1] - members[0] : 1
  return members.every((rank, at) => rank === members[0] + step * at)
    ? { first: members[0], step }
    : undefined
}

/**
 * True if the ranks of the group are in ascending order at equal distances, as a tensor map that covers all members'
 * copies of a tensor requires.
 */
export function isEvenlyAscending(members: Members): boolean {
  const spacing = spacingOf(members)
  return spacing !== undefined && spacing.step > 0
}

/** Throws an error unless the argument of `group` is a list. */
export function expectList(members: unknown): asserts members is readonly number[] {
  if (!Array.isArray(members))
    throw misuse(`group takes a list of ranks, such as [0, 1], not ${JSON.stringify(members)}`)
}

export function expectMembers(members: readonly number[], ranks: number): void {
  expectList(members)
  const wrong = (why: string): never => {
    throw misuse(`${groupName(members)} of a world of ${ranks}: ${why}`)
  }
  if (members.length === 0) wrong('a group needs at least one rank')
  for (const [at, rank] of members.entries()) {
    if (!Number.isInteger(rank) || rank < 0 || rank >= ranks) wrong(`there is no rank ${rank}`)
    if (members.indexOf(rank) !== at) wrong(`rank ${rank} occurs more than once`)
  }
}
