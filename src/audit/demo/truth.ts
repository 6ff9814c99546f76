/**
 * Computes the ledger of a laid-out job: the time in each category. The computation reads the layout span by span and
 * uses none of the audit's analysis code. The traces of some ranks may be missing. If traces are missing, the last
 * arrival at a collective means the last known arrival. If only one rank of a collective is known, the rank's time in
 * the collective cannot be split into wait and transfer.
 */
import { type Part, partNames } from '../../taxes/ledger.ts'
import type { Laid, LaidRank, Span } from './laid.ts'

export interface Tally {
  readonly wall: number
  readonly busy: number
  readonly idle: number
  /** The time in which any compute, any communication or any copy runs, whether it is hidden or not. */
  readonly compute: number
  readonly communication: number
  readonly copy: number
  /** Time spent waiting in a collective while compute or a transfer runs on the same rank. */
  readonly hiddenWait: number
  readonly parts: Readonly<Record<Part, number>>
}

export interface RankTruth extends Tally {
  readonly rank: number
  readonly from: number
  readonly to: number
  /**
   * The window of each step goes from its first device work to the first device work of the next step. The last window
   * ends with the rank's last device work.
   */
  readonly steps: readonly Tally[]
}

export interface CollectiveTruth {
  readonly kind: string
  readonly group: string
  readonly lastRank: number | null
  /** True if two or more ranks arrived last at the same time. */
  readonly tied: boolean
  readonly complete: boolean
  readonly perRank: readonly {
    readonly rank: number
    readonly start: number
    readonly duration: number
    readonly wait: number | null
    readonly transfer: number | null
  }[]
}

export interface Truth {
  readonly ranks: readonly RankTruth[]
  readonly collectives: readonly CollectiveTruth[]
  /**
   * Waiting time, indexed by the rank that arrived last and then by the rank that waited. If several ranks arrive last
   * at the same time, the lowest of these ranks counts as the last. No rank is blamed for the waiting in a collective
   * whose ranks no earlier collectives link, directly or through other ranks.
   */
  readonly keptWaiting: readonly (readonly number[])[]
}

/** The expected result for a job if only the traces of the `known` ranks are available. */
export function truthOf(laid: Laid, known: readonly number[] = laid.ranks.map(({ rank }) => rank)): Truth {
  const keptWaiting = laid.ranks.map(() => laid.ranks.map(() => 0))
  const first = firstOf(laid, known)
  const collectives = laid.collectives.map(
    ({ work, group, starts, end }, index): CollectiveTruth & { last: number } => {
      const members = group.ranks
        .map((rank, i) => ({ rank, start: starts[i] }))
        .filter(({ rank }) => known.includes(rank))
        .sort((a, b) => a.rank - b.rank)
      const last = members.length < 2 ? NaN : Math.max(...members.map(({ start }) => start))
      const late = members.filter(({ start }) => start === last)
      if (late.length > 0 && !first.has(index))
        for (const { rank, start } of members) keptWaiting[late[0].rank][rank] += last - start
      return {
        kind: work.collective,
        group: group.name,
        last,
        lastRank: late[0]?.rank ?? null,
        tied: late.length > 1,
        complete: members.length === group.ranks.length,
        perRank: members.map(({ rank, start }) => ({
          rank,
          start,
          duration: end - start,
          wait: late.length > 0 ? last - start : null,
          transfer: late.length > 0 ? end - last : null,
        })),
      }
    },
  )
  const lasts = collectives.map(({ last }) => last)
  return {
    ranks: laid.ranks.filter(({ rank }) => known.includes(rank)).map((rank) => truthOfRank(rank, lasts)),
    collectives: collectives.filter(({ perRank }) => perRank.length > 0),
    keptWaiting,
  }
}

/**
 * The collectives whose known ranks have not all been linked by earlier collectives, directly or through other ranks.
 */
function firstOf({ collectives, ranks }: Laid, known: readonly number[]): ReadonlySet<number> {
  const arrivals = collectives.map(({ group, starts }) =>
    Math.min(...starts.filter((_, i) => known.includes(group.ranks[i]))),
  )
  const order = [...collectives.keys()].sort((a, b) => arrivals[a] - arrivals[b])
  const set = ranks.map(({ rank }) => rank)
  const first = new Set<number>()
  for (const index of order) {
    const members = collectives[index].group.ranks.filter((rank) => known.includes(rank))
    const sets = new Set(members.map((rank) => set[rank]))
    if (sets.size < 2) continue
    first.add(index)
    const [one] = sets
    set.forEach((of, rank) => {
      if (sets.has(of)) set[rank] = one
    })
  }
  return first
}

function truthOfRank(laid: LaidRank, lasts: readonly number[]): RankTruth {
  const pieces = laid.spans.flatMap((span) => piecesOf(span, lasts))
  const from = laid.spans[0].from
  return {
    rank: laid.rank,
    from,
    to: laid.end,
    ...tally(pieces, from, laid.end),
    steps: laid.steps.map(({ device }, i) => tally(pieces, device, laid.steps[i + 1]?.device ?? laid.end)),
  }
}

interface Piece {
  readonly from: number
  readonly to: number
  readonly part: Part
  readonly compute: boolean
  readonly communication: boolean
  readonly copy: boolean
  readonly wait: boolean
}

/**
 * Cuts a span wherever a kernel or copy begins or ends, and wherever the last rank of a collective arrives. Each
 * interval of a span belongs to one category of the ledger.
 */
function piecesOf(span: Span, lasts: readonly number[]): Piece[] {
  const { from, to } = span
  if (span.part !== 'busy')
    return [{ from, to, part: span.part, compute: false, communication: false, copy: false, wait: false }]
  const cuts = new Set([from, to])
  for (const work of span.works) {
    cuts.add(work.from)
    cuts.add(work.to)
    const last = work.collective === undefined ? NaN : lasts[work.collective]
    if (last > from && last < to) cuts.add(last)
  }
  const times = [...cuts].sort((a, b) => a - b)
  return times.slice(1).map((end, i): Piece => {
    const running = span.works.filter((work) => work.from <= times[i] && end <= work.to)
    const inside = running.filter(({ collective }) => collective !== undefined)
    const last = inside.map(({ collective }) => lasts[collective as number])
    const compute = running.some(({ kind }) => kind === 'compute')
    const wait = last.some((arrival) => end <= arrival)
    return {
      from: times[i],
      to: end,
      part: compute
        ? 'compute'
        : last.some((arrival) => times[i] >= arrival)
          ? 'transfer'
          : wait
            ? 'wait'
            : inside.length > 0
              ? 'communication'
              : 'copy',
      compute,
      communication: inside.length > 0,
      copy: running.some(({ kind }) => kind === 'copy'),
      wait,
    }
  })
}

function tally(pieces: readonly Piece[], from: number, to: number): Tally {
  const parts = Object.fromEntries(partNames.map((part) => [part, 0])) as Record<Part, number>
  let [wall, busy, compute, communication, copy, hiddenWait] = [0, 0, 0, 0, 0, 0]
  for (const piece of pieces) {
    const time = Math.max(0, Math.min(piece.to, to) - Math.max(piece.from, from))
    wall += time
    parts[piece.part] += time
    if (piece.compute || piece.communication || piece.copy) busy += time
    if (piece.compute) compute += time
    if (piece.communication) communication += time
    if (piece.copy) copy += time
    if (piece.wait && piece.part !== 'wait') hiddenWait += time
  }
  return { wall, busy, idle: wall - busy, compute, communication, copy, hiddenWait, parts }
}
