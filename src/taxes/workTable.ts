/**
 * Sums the device work of all ranks by kernel and by operator: time, calls, and launch latency. The launch latency is
 * the time from the start of the host call that enqueued the work to the start of the work. The launch latency includes
 * the time for which the work waited for earlier work of its stream, so the minimum latency is closest to the cost of a
 * launch.
 */
import { isDeviceWork, type Kind, NONE, type RankTimeline } from '../timeline/timeline.ts'
import type { Partition } from './ledger.ts'

/**
 * Times are in nanoseconds, summed over ranks. If two kernels run at the same time, the time counts for each of them.
 */
export interface WorkRow {
  readonly name: string
  /** The kind of the device work. An operator has the kind of its first device work. */
  readonly kind: Kind
  readonly time: number
  readonly calls: number
  readonly longest: number
  /** The mean and the minimum launch latency, or null if no launch was recorded. */
  readonly latency: number | null
  readonly leastLatency: number | null
}

interface Sum {
  readonly kind: Kind
  time: number
  calls: number
  longest: number
  latency: number
  launched: number
  least: number
}

export class WorkTable {
  private readonly kernels = new Map<number, Sum>()
  private readonly operators = new Map<number, Sum>()

  /** Adds the work that starts in the window of a rank. */
  addRank({ tracks, events }: RankTimeline, { from, to }: Partition): void {
    const { start, duration, kind, name, launch, operator } = events
    for (const track of tracks) {
      if (track.role !== 'stream') continue
      for (let event = track.from; event < track.to && start[event] < to; event++) {
        if (!isDeviceWork(kind[event]) || start[event] < from) continue
        const call = launch[event]
        const latency = call === NONE ? NaN : start[event] - start[call]
        add(this.kernels, name[event], kind[event] as Kind, duration[event], latency)
        const own = operator[event]
        if (own !== NONE) add(this.operators, name[own], kind[event] as Kind, duration[event], latency)
      }
    }
  }

  /** The rows sorted by time, with the longest time first. */
  list(names: readonly string[]): { readonly kernels: WorkRow[]; readonly operators: WorkRow[] } {
    const rows = (sums: ReadonlyMap<number, Sum>): WorkRow[] =>
      [...sums]
        .map(([id, { kind, time, calls, longest, latency, launched, least }]) => ({
          name: names[id],
          kind,
          time,
          calls,
          longest,
          latency: launched > 0 ? latency / launched : null,
          leastLatency: launched > 0 ? least : null,
        }))
        .sort((a, b) => b.time - a.time || b.calls - a.calls)
    return { kernels: rows(this.kernels), operators: rows(this.operators) }
  }
}

function add(sums: Map<number, Sum>, key: number, kind: Kind, duration: number, latency: number): void {
  let sum = sums.get(key)
  if (sum === undefined) {
    sum = { kind, time: 0, calls: 0, longest: 0, latency: 0, launched: 0, least: Infinity }
    sums.set(key, sum)
  }
  sum.time += duration
  sum.calls++
  if (duration > sum.longest) sum.longest = duration
  if (Number.isNaN(latency)) return
  sum.latency += latency
  sum.launched++
  if (latency < sum.least) sum.least = latency
}
