/**
 * Computes how streams and events order the launches of one rank, and how many programs may run concurrently on the
 * rank at most.
 */

/**
 * A launch with its direct predecessors: the previous launch on its stream, and the launches whose events its stream
 * waited for.
 */
export interface Ordered {
  readonly stream: number
  readonly after: readonly Ordered[]
}

/** The given launches and all their direct and indirect predecessors on streams. */
export function withPredecessors<T extends Ordered>(launches: readonly T[]): Set<T> {
  const found = new Set<T>(launches)
  // JavaScript's iteration over a Set also visits the elements that are added during the iteration.
  for (const launch of found) for (const before of launch.after) found.add(before as T)
  return found
}

/**
 * The largest number of programs that may run concurrently: the maximum over all sets of launches in which no launch is
 * ordered before another.
 */
export function mostAtOnce<T extends Ordered>(
  launches: readonly T[],
  programs: (launch: T) => number,
): number {
  const follows = new Map(launches.map((launch) => [launch, withPredecessors([launch])]))
  const areOrdered = (a: T, b: T): boolean => follows.get(a)!.has(b) || follows.get(b)!.has(a)
  // If the launches with the most programs are tried first, the upper bound `atMost` excludes most of the remaining
  // choices.
  const sorted = [...launches].sort((a, b) => programs(b) - programs(a))
  let most = 0
  const choose = (left: readonly T[], sum: number): void => {
    most = Math.max(most, sum)
    left.forEach((launch, i) => {
      const rest = left.slice(i)
      if (sum + atMost(rest, programs) <= most) return
      choose(
        rest.slice(1).filter((other) => !areOrdered(launch, other)),
        sum + programs(launch),
      )
    })
  }
  choose(sorted, 0)
  return most
}

/**
 * An upper bound on the number of programs that run concurrently: the sum, over all streams, of the programs of the
 * stream's largest launch.
 */
function atMost<T extends Ordered>(launches: readonly T[], programs: (launch: T) => number): number {
  const largest = new Map<number, number>()
  for (const launch of launches)
    largest.set(launch.stream, Math.max(largest.get(launch.stream) ?? 0, programs(launch)))
  return [...largest.values()].reduce((sum, one) => sum + one, 0)
}
