/**
 * Computes the bandwidth of collectives as nccl-tests defines it. The size of a collective is the size of the larger
 * buffer (input or output) of one rank: the whole buffer for all-reduce, broadcast and reduce, the gathered buffer for
 * all-gather, the input for reduce-scatter, and all sent data of a rank for all-to-all. The algorithm bandwidth is size
 * divided by time. The bus bandwidth is the algorithm bandwidth times the traffic that each link must carry per byte,
 * so for any number of ranks it can be compared with the bandwidth of a link:
 * https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
 *
 * The time of a collective is measured from the arrival of the last rank, since the other ranks only wait before that
 * arrival.
 */
import type { Communication, Timeline } from '../timeline/timeline.ts'
import { communicationOf } from './calls.ts'
import type { Collectives } from './collectiveTable.ts'
import { linkBandwidth } from './devices.ts'
import { elementType } from './dtypes.ts'

/** All collectives of one kind, group and size. Times are in nanoseconds, bandwidths in bytes per second. */
export interface CollectiveRow {
  readonly kind: string
  readonly group: string | null
  readonly dtype: string | null
  /** The number of ranks that take part in each collective, or null if it is unknown. */
  readonly ranks: number | null
  readonly count: number
  readonly bytes: number | null
  /**
   * The number of collectives whose last arrival is known, and the sum and the median of the times from their last
   * arrival to their end.
   */
  readonly timed: number
  readonly transfer: number
  readonly median: number | null
  readonly algorithm: number | null
  readonly bus: number | null
  /** The bandwidth of the device's links in one direction, or null if it is unknown or if the ranks span machines. */
  readonly link: number | null
}

/** The size of a collective in bytes, or null if the trace does not state it. */
export function sizeOf({ collective, dtype, elementsIn, elementsOut }: Communication): number | null {
  const type = elementType(dtype ?? '')
  const elements =
    collective === 'allGather'
      ? elementsOut
      : collective === 'sendRecv'
        ? elementsIn || elementsOut
        : elementsIn
  return type && elements !== null && elements > 0 ? elements * type.bytes : null
}

/** The ratio of bus bandwidth to algorithm bandwidth, or null for an unknown kind of collective. */
export function busFactor(collective: string, ranks: number): number | null {
  switch (collective) {
    case 'allReduce':
      return (2 * (ranks - 1)) / ranks
    case 'allGather':
    case 'reduceScatter':
    case 'allToAll':
      return (ranks - 1) / ranks
    case 'broadcast':
    case 'reduce':
    case 'sendRecv':
      return 1
    default:
      return null
  }
}

/**
 * The assumed maximum number of devices per machine. The ranks of one machine are assumed to have consecutive numbers.
 */
const MACHINE = 8

export function bandwidthsOf({ ranks }: Timeline, collectives: Collectives): CollectiveRow[] {
  const { length, first, rank: rankOf, event: eventOf, transfer: transferOf } = collectives
  const groups = new Map<
    string,
    {
      row: Omit<CollectiveRow, 'median' | 'algorithm' | 'bus' | 'transfer' | 'timed' | 'count'>
      times: number[]
      count: number
    }
  >()
  /** Calls that share one communication record share one group. */
  const byRecord = new Map<Communication | null, string>()
  for (let i = 0; i < length; i++) {
    const rank = ranks[rankOf[first[i]]]
    const record = communicationOf(rank, eventOf[first[i]])
    const { kind, group, groupDescription, groupSize } = collectives.callOf(i)
    if (kind === null) continue
    let key = byRecord.get(record)
    const size = record && sizeOf(record)
    const members = first[i + 1] - first[i]
    const count = groupSize ?? (collectives.complete[i] === 1 ? members : null)
    if (key === undefined) {
      key = JSON.stringify([kind, group, groupDescription, size, record?.dtype ?? null, count])
      byRecord.set(record, key)
    }
    let known = groups.get(key)
    if (!known) {
      const within =
        record?.groupRanks ??
        (members === count
          ? Array.from({ length: members }, (_, k) => ranks[rankOf[first[i] + k]].rank)
          : null)
      const isOneMachine =
        within !== null && new Set(within.map((one) => Math.floor(one / MACHINE))).size === 1
      known = {
        row: {
          kind,
          group: groupDescription || group || null,
          dtype: record?.dtype ?? null,
          ranks: count,
          bytes: size,
          link: isOneMachine && rank.device !== null ? linkBandwidth(rank.device) : null,
        },
        times: [],
        count: 0,
      }
      groups.set(key, known)
    }
    known.count++
    // The transfer time of the last rank is the time from its arrival to the end of the collective. Errors of the
    // clocks only shift the transfer times of the other ranks.
    let longest = NaN
    for (let m = first[i]; m < first[i + 1]; m++)
      if (!Number.isNaN(transferOf[m]) && !(transferOf[m] <= longest)) longest = transferOf[m]
    if (longest > 0) known.times.push(longest)
  }
  return [...groups.values()]
    .map(({ row, times, count }): CollectiveRow => {
      const sorted = Float64Array.from(times).sort()
      const median = sorted.length > 0 ? sorted[(sorted.length - 1) >> 1] : null
      const algorithm = median !== null && row.bytes !== null ? (row.bytes / median) * 1e9 : null
      const factor = row.ranks === null ? null : busFactor(row.kind, row.ranks)
      return {
        ...row,
        count,
        timed: times.length,
        transfer: times.reduce((sum, time) => sum + time, 0),
        median,
        algorithm,
        bus: algorithm !== null && factor !== null ? algorithm * factor : null,
      }
    })
    .sort((a, b) => b.transfer - a.transfer || (b.bytes ?? 0) - (a.bytes ?? 0))
}
