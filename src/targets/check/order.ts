/** How the launches of one rank are ordered by their streams and events, and how many programs may run at once for all that. */

/** A launch by what it follows: the launch before it on its stream, and those whose events its stream waited for. */
export interface Ordered {
  readonly stream: number
  readonly after: readonly Ordered[]
}

/** These launches and all that they follow. */
export function withPredecessors<T extends Ordered>(launches: readonly T[]): Set<T> {
  const found = new Set<T>(launches)
  // A set visits what is added to it on the way.
  for (const launch of found) for (const before of launch.after) found.add(before as T)
  return found
}

/** The most programs of launches that may run at once: no two of these follow each other. */
export function mostAtOnce<T extends Ordered>(
  launches: readonly T[],
  programs: (launch: T) => number,
): number {
  const follows = new Map(launches.map((launch) => [launch, withPredecessors([launch])]))
  const areOrdered = (a: T, b: T): boolean => follows.get(a)!.has(b) || follows.get(b)!.has(a)
  // The largest first: then a choice is rarely improved, and the rest need not be tried.
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

/** One launch of each stream, the largest: no more can run at once. */
function atMost<T extends Ordered>(launches: readonly T[], programs: (launch: T) => number): number {
  const largest = new Map<number, number>()
  for (const launch of launches)
    largest.set(launch.stream, Math.max(largest.get(launch.stream) ?? 0, programs(launch)))
  return [...largest.values()].reduce((sum, one) => sum + one, 0)
}
