/**
 * Attributes time to the categories of the ledger. Each nanosecond of each processor of a rank belongs to exactly one
 * category (listed in ledger.ts). In a trace that Arke did not record, a rank is one processor. In a run of Arke, a
 * rank has several processors, which are workers or multiprocessors (processors.ts).
 *
 * An instant of a processor belongs to the first category of the ledger that claims the instant. An instant that no
 * category claims is vacant if another processor of the rank is busy. If no processor is busy, all processors get the
 * same category. If a kernel runs while no processor is busy, the category is `gap`, since the kernel is starting or
 * ending. If no processor is busy and no kernel runs, the rank is idle, and the cause of the idle time determines the
 * category.
 */
import { clip, complement, difference, type Intervals, union } from '../timeline/intervals.ts'
import { type BusyPart, busyParts, type IdlePart, type Part } from './ledger.ts'

/** The known activities of a processor, as sets of time that may overlap and may extend beyond the window. */
export type Claims = Readonly<Partial<Record<BusyPart, Intervals>>>

export interface RankTime {
  readonly from: number
  readonly to: number
  readonly processors: readonly Claims[]
  /** The time during which the device runs any work. */
  readonly running: Intervals
  /** Divides idle time by the cause that kept the next work from starting. */
  readonly idle: (set: Intervals) => Readonly<Record<IdlePart, Intervals>>
}

/** Returns disjoint sets of time for each processor, whose union is the window. */
export function attribute({
  from,
  to,
  processors,
  running,
  idle,
}: RankTime): Readonly<Record<Part, Intervals>>[] {
  const own = processors.map((claims) => firstClaims(claims, from, to))
  const busy = own.reduce((sum, { claimed }) => union(sum, claimed), none)
  const ran = clip(running, from, to)
  const causes = idle(complement(union(busy, ran), from, to))
  const ofRank = { ...causes, gap: union(causes.gap, difference(ran, busy)) }
  return own.map(({ parts, claimed }) => ({
    ...parts,
    vacant: union(parts.vacant, difference(busy, claimed)),
    ...ofRank,
  }))
}

const none: Intervals = new Float64Array(0)

function firstClaims(claims: Claims, from: number, to: number) {
  let claimed = none
  const take = (part: BusyPart): readonly [BusyPart, Intervals] => {
    const claim = clip(claims[part] ?? none, from, to)
    const taken = difference(claim, claimed)
    claimed = union(claimed, claim)
    return [part, taken]
  }
  const parts = Object.fromEntries(busyParts.map(take))
  return { parts: parts as Record<BusyPart, Intervals>, claimed }
}
