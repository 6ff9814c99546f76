/**
 * How many programs of a launch run at once, and what is said of a launch that can never run: programs that wait for each other make
 * progress only if all of them are resident, so one that does not fit is refused instead of left to hang.
 */
import type { Site } from '../ir/site.ts'
import { WorldError } from './world.ts'

/** A line at which programs may wait for each other. */
export interface Waiting {
  readonly site: Site | undefined
}

/** Why `grid` programs cannot wait for each other, at `where`, on a rank where `resident` run at once and `running` of these are taken. */
export function doesNotFit(grid: number, resident: number, rank: number, running = 0, where = ''): string {
  const others = running > 0 ? ` beside ${running} that may be waiting` : ''
  return `${grid} programs${others} do not fit: ${resident} run at once on rank ${rank}, and a program that waits for one that has not started waits forever${where}. Launch at most ${Math.max(resident - running, 0)}, or grid: 'resident'`
}

/** A launch whose programs may wait for each other fits its rank. */
export function expectResident(
  kernel: string,
  waiting: Waiting | undefined,
  rank: number,
  grid: number,
  resident: number,
): void {
  if (!waiting || grid <= resident) return
  const where = waiting.site ? ` (it may wait at ${waiting.site})` : ''
  throw new WorldError(`${kernel}: ${doesNotFit(grid, resident, rank, 0, where)}`)
}

/** A launch on a rank whose programs are spread over processors. */
export interface Spread {
  readonly rank: number
  readonly grid: number
  readonly kernel: { readonly name: string }
  /** Programs of it that a processor runs at once. */
  readonly programsPerProcessor: number
}

/** Launches that may wait for each other fit the processors of their ranks together. */
export function expectTogether(parts: readonly Spread[], processorsOf: (rank: number) => number): void {
  for (const rank of new Set(parts.map((part) => part.rank))) {
    const here = parts.filter((part) => part.rank === rank)
    if (here.length < 2) continue
    const processors = processorsOf(rank)
    // Programs spread over the processors; those of which each has one to itself take turns instead.
    const spread = here.reduce(
      (sum, part) => sum + Math.ceil(part.grid / processors) / part.programsPerProcessor,
      0,
    )
    const apart = here.reduce((sum, part) => sum + part.grid, 0)
    if (spread <= 1 || apart <= processors) continue
    const names = here.map(({ kernel, grid }) => `${grid} of ${kernel.name}`).join(' and ')
    throw new WorldError(
      `programs that are launched together do not fit: ${names} on the ${processors} multiprocessors of rank ${rank}. Together at most ${processors} programs always fit`,
    )
  }
}
