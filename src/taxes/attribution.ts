/**
 * The one attribution of time over processors, for traces and for our own runs: every nanosecond of every processor of a rank in
 * exactly one part (ledger.ts has the list). In a trace of another program a rank is one processor; in a run of our own it has
 * workers or multiprocessors.
 *
 * A processor's instant belongs to the first part that claims it. Where none does, and another processor of the rank does
 * something, it is vacant. Where no processor does anything, the instant is the rank's: a kernel that runs starts or ends
 * (gap), and without one the rank is idle, by cause.
 */
import { clip, complement, difference, type Intervals, union } from '../timeline/intervals.ts'
import { busyParts, type IdlePart, type ProcessorPart } from './ledger.ts'

/** What a processor is known to do: sets of time that may overlap and reach beyond the window. */
export type Claims = Readonly<Partial<Record<Exclude<ProcessorPart, IdlePart>, Intervals>>>

export interface RankTime {
  readonly from: number
  readonly to: number
  readonly processors: readonly Claims[]
  /** When the device runs something, whatever is known of it. */
  readonly running: Intervals
  /** Divides time in which it runs nothing by what kept the next work from running. */
  readonly idle: (set: Intervals) => Readonly<Record<IdlePart, Intervals>>
}

/** By processor: disjoint sets whose union is the window. */
export function attribute({
  from,
  to,
  processors,
  running,
  idle,
}: RankTime): Record<ProcessorPart, Intervals>[] {
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
  const take = (part: keyof Claims): readonly [keyof Claims, Intervals] => {
    const claim = clip(claims[part] ?? none, from, to)
    const taken = difference(claim, claimed)
    claimed = union(claimed, claim)
    return [part, taken]
  }
  const parts = Object.fromEntries([...busyParts, 'vacant' as const].map(take))
  return { parts: parts as Record<keyof Claims, Intervals>, claimed }
}
