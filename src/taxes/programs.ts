/**
 * Finds the ranks that run the same program among the ranks of a lane (a communicator, process group or stream), and
 * aligns the calls of these ranks. The recording of one rank may begin and end a few calls earlier or later than that
 * of another rank. The alignment does not need correct clocks, because it compares the times between consecutive calls,
 * which are long at the boundaries of steps on all ranks.
 */
import type { Calls, Lane } from './calls.ts'
import type { Row } from './pairFit.ts'

export interface Program {
  readonly calls: readonly Calls[]
  readonly rows: readonly Row[]
  /** For each kind of call, the columns of its calls. */
  readonly columns: readonly Uint32Array[]
}

/** The recordings of ranks that run one program are assumed to differ by at most this many calls. */
const SHIFT = 16

/**
 * Divides the ranks of a lane (a communicator, process group or stream) into sets of ranks that run the same program.
 * `zero` contains, for each rank, the time to add to the rank's times to place them on the first rank's clock according
 * to the trace.
 */
export function programsOf({ ranks }: Lane, zero: readonly number[]): Program[] {
  const programs: Calls[][] = []
  for (const calls of [...ranks].sort((a, b) => b.events.length - a.events.length || a.rank - b.rank)) {
    const known = programs.find(([longest]) => shiftsOf(longest, calls).length > 0)
    if (known) known.push(calls)
    else programs.push([calls])
  }
  return programs.map((members) => aligned(members, zero))
}

function aligned(members: readonly Calls[], zero: readonly number[]): Program {
  const [longest] = members
  const calls = [...members].sort((a, b) => a.rank - b.rank)
  const rows = calls.map((one): Row => {
    const shift = (values: Float64Array): Float64Array => values.map((time) => time + zero[one.rank])
    return {
      rank: one.rank,
      first: firstOf(longest, one, zero),
      starts: shift(one.starts),
      ends: shift(one.ends),
    }
  })
  const byKind = new Map<number, number[]>()
  longest.signatures.forEach((signature, column) => {
    const known = byKind.get(signature)
    if (known) known.push(column)
    else byKind.set(signature, [column])
  })
  return { calls, rows, columns: Array.from(byKind.values(), (columns) => Uint32Array.from(columns)) }
}

/** The columns of the longest recording at which the recording with the given calls may begin. */
function shiftsOf(longest: Calls, calls: Calls): number[] {
  const spare = longest.events.length - calls.events.length
  if (spare > Math.min(SHIFT, longest.events.length / 4)) return []
  const shifts: number[] = []
  for (let shift = 0; shift <= spare; shift++) {
    let isSame = true
    for (let i = 0; i < calls.signatures.length && isSame; i++)
      isSame = calls.signatures[i] === longest.signatures[i + shift]
    if (isSame) shifts.push(shift)
  }
  return shifts
}

function firstOf(longest: Calls, calls: Calls, zero: readonly number[]): number {
  const shifts = shiftsOf(longest, calls)
  let [best, least, nearest] = [shifts[0], Infinity, Infinity]
  if (shifts.length === 1) return best
  const apart = zero[longest.rank] - zero[calls.rank]
  for (const shift of shifts) {
    const count = calls.ends.length
    // Recordings are compared by the mean difference of times, since it is sensitive to the few long times between
    // steps.
    let difference = 0
    for (let i = 0; i + 1 < count; i++)
      difference += Math.abs(
        calls.ends[i + 1] - calls.ends[i] - (longest.ends[i + 1 + shift] - longest.ends[i + shift]),
      )
    const distance = Math.abs(longest.ends[shift] + apart - calls.ends[0])
    if (difference < 0.5 * least || (difference < 2 * least && distance < nearest)) {
      best = shift
      least = Math.min(least, difference)
      nearest = distance
    }
  }
  return best
}
