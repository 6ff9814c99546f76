/**
 * Checks residency, the number of programs of a launch that can run at the same time. Programs that wait for each other
 * make progress only if all of them are resident. A launch of such programs that cannot all be resident would hang, so
 * it is rejected.
 */
import type { Site } from '../ir/site.ts'
import type { Machine } from './machine.ts'
import { rankName, type Members } from './members.ts'
import { WorldError } from './world.ts'

/** A source line at which programs of a kernel may wait for each other. */
export interface Waiting {
  readonly site: Site | undefined
}

/**
 * The error message for a launch of `grid` programs that do not fit on a rank: the rank has room for `resident`
 * programs, and `running` programs are already running. The argument `rank` is the name of the rank, and `where` names
 * the line of the wait.
 */
export function doesNotFit(grid: number, resident: number, rank: string, running = 0, where = ''): string {
  const others =
    running > 0
      ? ` in addition to ${running} running ${running === 1 ? 'program' : 'programs'}, which may be waiting,`
      : ''
  return `${grid} programs${others} do not fit: ${resident} run at once on ${rank}, and a program that waits for a program that has not started waits forever${where}. Launch at most ${Math.max(resident - running, 0)}, or grid: 'resident'`
}

/** Throws an error if the programs of a launch may wait for each other and cannot all be resident on the rank. */
export function expectResident(
  kernel: string,
  waiting: Waiting | undefined,
  rank: number,
  grid: number,
  resident: number,
  members?: Members,
): void {
  if (!waiting || grid <= resident) return
  const where = waiting.site ? ` (it may wait at ${waiting.site})` : ''
  throw new WorldError(`${kernel}: ${doesNotFit(grid, resident, rankName(rank, members), 0, where)}`)
}

/** A per-rank launch whose programs are spread over processors. */
export interface Spread {
  readonly rank: number
  readonly grid: number
  readonly kernel: { readonly name: string }
  /** The number of programs of this launch that fit on one processor together. */
  readonly programsPerProcessor: number
}

/**
 * Throws an error if the launches of a co-launch set, which may wait for each other, do not fit together on the
 * processors of their ranks.
 */
export function expectTogether(parts: readonly Spread[], machine: Pick<Machine, 'processors'>): void {
  for (const rank of new Set(parts.map((part) => part.rank))) {
    const here = parts.filter((part) => part.rank === rank)
    if (here.length < 2) continue
    const processors = machine.processors[rank]
    // A co-launch set can fit in two ways: the programs share processors, or each program has a processor to itself.
    const spread = here.reduce(
      (sum, part) => sum + Math.ceil(part.grid / processors) / part.programsPerProcessor,
      0,
    )
    const apart = here.reduce((sum, part) => sum + part.grid, 0)
    if (spread <= 1 || apart <= processors) continue
    const names = here.map(({ kernel, grid }) => `${grid} of ${kernel.name}`).join(' and ')
    throw new WorldError(
      `programs that are launched together do not fit: ${names} on the ${processors} processors of rank ${rank}. Launch at most ${processors} programs together, which always fit`,
    )
  }
}
