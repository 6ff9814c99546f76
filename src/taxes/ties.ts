/**
 * Finds ranks whose calls end together, for one section of a lane (a communicator, process group or stream). A section
 * is a set of calls that all ranks make in the same order, so that the k-th calls of two ranks either belong to one
 * collective or to two collectives at the same position in the program.
 *
 * Ranks of one group satisfy two laws. First, the ends of the calls agree: the distance between the end times of two
 * ranks is constant. Second, the waiting in the calls is explained: the last rank of a group does not wait, so in each
 * call, one rank of the group takes no longer than the transfer. If a set has ranks from several groups, the ends of
 * its calls stop agreeing (the first law) as soon as one of these groups is late. If a set has only some ranks of a
 * group, waiting is no longer explained (the second law) as soon as a rank outside the set is late.
 */
import { endTolerance, median } from './align.ts'
import { PairFits, type Row } from './pairFit.ts'

/** Ranks that end their calls together. */
export interface Tied {
  /** The indices of the tied ranks among the rows of the section. */
  readonly rows: number[]
  /**
   * For each row (the calls of one rank): the nanoseconds to add to its end times to get the end times of the first
   * row.
   */
  readonly offsets: number[]
}

export interface Section {
  readonly rows: readonly Row[]
  readonly columns: Uint32Array
  /** The duration of the transfer in each column: the shortest call of all rows, in nanoseconds. */
  readonly transfers: Float64Array
  tied: Tied[]
  /** Two end times agree if they differ by at most this time, in nanoseconds. */
  tolerance: number
}

/** The tolerances for end times in nanoseconds. The smallest tolerance at which the waiting is explained is used. */
const TOLERANCES = [3_000, 6_000, 12_000, 24_000] as const
/** The minimum share of the time in calls that must be explained. */
export const EXPLAINED = 0.95
/** The duration of a transfer may differ between groups by this fraction. */
const UNEVEN = 0.25

/** The time in the calls of a section, in nanoseconds. */
export interface Explanation {
  /**
   * The sum of two times: the time that ranks tied to no other rank spend in calls, and the time for which all tied
   * ranks wait at once, so that none of them is the last.
   */
  readonly unexplained: number
  readonly total: number
}

export const shareOf = ({ unexplained, total }: Explanation): number =>
  total > 0 ? 1 - unexplained / total : 1

/**
 * Divides the columns into sections in which each rank is in one group, and finds the ranks whose calls end together
 * (tied ranks). The clocks of tied ranks differ by at most `reach` nanoseconds.
 */
export function sectionsOf(
  rows: readonly Row[],
  columns: Uint32Array,
  fits: PairFits,
  reach: number,
  depth = 0,
): Section[] {
  const section = bestTies(rows, columns, fits, reach)
  if (depth === 2 || shareOf(explanationOf(section, section.tied)) >= EXPLAINED) return [section]
  // The calls of different groups that communicate on one stream look alike, so the columns may have to be divided.
  for (const split of [splitByExplanation(section), splitByDistance(rows, columns)]) {
    if (split.some(({ length }) => length < 2)) continue
    const found = split.flatMap((some) => sectionsOf(rows, some, fits, reach, depth + 1))
    if (shareOfAll(found) > shareOf(explanationOf(section, section.tied)) + 0.02) return found
  }
  return [section]
}

export function shareOfAll(sections: readonly Section[]): number {
  let [unexplained, total] = [0, 0]
  for (const section of sections) {
    const found = explanationOf(section, section.tied)
    unexplained += found.unexplained
    total += found.total
  }
  return shareOf({ unexplained, total })
}

/** The maximum share of unexplained time in a column of calls for the column to belong to the groups of tied ranks. */
const FOREIGN = 0.3

/** Separates the columns of calls in which the tied ranks explain the waiting from the other columns. */
function splitByExplanation(section: Section): [Uint32Array, Uint32Array] {
  const { columns, transfers } = section
  const tied = section.tied.filter(({ rows }) => rows.length > 1)
  const isOwn = (_: number, k: number): boolean => {
    const column = {
      ...section,
      columns: columns.subarray(k, k + 1),
      transfers: transfers.subarray(k, k + 1),
    }
    return shareOf(explanationOf(column, tied)) >= 1 - FOREIGN
  }
  return [columns.filter(isOwn), columns.filter((column, k) => !isOwn(column, k))]
}

function bestTies(rows: readonly Row[], columns: Uint32Array, fits: PairFits, reach: number): Section {
  const transfers = transfersOf(rows, columns)
  let best: Section | null = null
  let most = -1
  for (const tolerance of TOLERANCES) {
    const section = {
      rows,
      columns,
      transfers,
      tied: tiedRows(rows, columns, fits, tolerance, reach),
      tolerance,
    }
    const share = shareOf(explanationOf(section, section.tied))
    // A larger tolerance is used only if it explains clearly more of the time, since it joins more ranks of different
    // groups.
    if (best === null || share > most + 0.02) [best, most] = [section, share]
    if (most >= EXPLAINED) break
  }
  return best as Section
}

function transfersOf(rows: readonly Row[], columns: Uint32Array): Float64Array {
  const transfers = new Float64Array(columns.length).fill(Infinity)
  for (const { first, starts, ends } of rows)
    for (let k = 0; k < columns.length; k++) {
      const call = columns[k] - first
      if (call >= 0 && call < ends.length) transfers[k] = Math.min(transfers[k], ends[call] - starts[call])
    }
  return transfers
}

/** Ties each rank (row) to the ranks with which the ends of its calls agree best. */
function tiedRows(
  rows: readonly Row[],
  columns: Uint32Array,
  fits: PairFits,
  tolerance: number,
  reach: number,
): Tied[] {
  const tied: Tied[] = []
  rows.forEach((row, index) => {
    let best: Tied | null = null
    let [offset, least] = [0, tolerance]
    // Neighbouring ranks are usually in one group.
    for (let at = tied.length - 1; at >= 0; at--) {
      const fit = fits.fit(rows[tied[at].rows[0]], row, columns, least)
      if (fit === null || Math.abs(fit.offset) > reach || (best !== null && fit.scatter >= least)) continue
      best = tied[at]
      offset = fit.offset
      least = fit.scatter
    }
    if (best === null) tied.push({ rows: [index], offsets: [0] })
    else {
      best.rows.push(index)
      best.offsets.push(offset)
    }
  })
  return tied
}

/** By how much a call must last longer than the transfer to count as waiting. */
export const slackOf = (transfer: number, tolerance: number): number =>
  Math.max(2 * tolerance, UNEVEN * transfer)

/** How much of the time in calls is explained if each entry of `tied` is a group. */
export function explanationOf(
  { rows, columns, transfers, tolerance }: Section,
  tied: readonly Tied[],
): Explanation {
  let [unexplained, total] = [0, 0]
  for (const { rows: members } of tied)
    for (let k = 0; k < columns.length; k++) {
      let [least, sum, count] = [Infinity, 0, 0]
      for (const member of members) {
        const { first, starts, ends } = rows[member]
        const call = columns[k] - first
        if (call < 0 || call >= ends.length) continue
        least = Math.min(least, ends[call] - starts[call])
        sum += ends[call] - starts[call]
        count++
      }
      if (count === 0) continue
      total += sum
      if (members.length < 2) unexplained += sum
      else if (least > transfers[k] + slackOf(transfers[k], tolerance))
        unexplained += count * (least - transfers[k])
    }
  return { unexplained, total }
}

/** The minimum fraction of the calls of two ranks in which the distance between the end times must be the same. */
const OFTEN = 0.3
/** The width of the window in which distances count as the same, in nanoseconds. */
const WINDOW = 6_000

/**
 * Separates the calls of the group that communicates most often from the other calls of the lane (communicator or
 * stream). In the calls of this group, the distance between the end times of two of its ranks is always the same.
 */
function splitByDistance(rows: readonly Row[], columns: Uint32Array): [Uint32Array, Uint32Array] {
  const distances = new Float64Array(columns.length)
  const sorted = new Float64Array(columns.length)
  const votes = new Float64Array(columns.length)
  const ballots = new Float64Array(columns.length)
  const heads: Row[] = []
  for (const row of rows) {
    let found = false
    for (let at = heads.length - 1; at >= 0 && !found; at--) {
      const head = heads[at]
      for (let k = 0; k < columns.length; k++) {
        const [i, j] = [columns[k] - head.first, columns[k] - row.first]
        const isCommon = i >= 0 && j >= 0 && i < head.ends.length && j < row.ends.length
        distances[k] = isCommon ? head.ends[i] - row.ends[j] : NaN
      }
      const centre = mostCommon(distances, sorted, WINDOW)
      if (centre === null) continue
      found = true
      for (let k = 0; k < columns.length; k++) {
        if (Number.isNaN(distances[k])) continue
        ballots[k]++
        if (Math.abs(distances[k] - centre) <= WINDOW) votes[k]++
      }
    }
    if (!found) heads.push(row)
  }
  const isOwn = (_: number, k: number): boolean => 2 * votes[k] > ballots[k]
  return [columns.filter(isOwn), columns.filter((column, k) => !isOwn(column, k))]
}

/** The middle of the window that contains the most distances, or null if it contains less than the fraction `OFTEN`. */
function mostCommon(distances: Float64Array, sorted: Float64Array, width: number): number | null {
  let count = 0
  for (const distance of distances) if (!Number.isNaN(distance)) sorted[count++] = distance
  const values = sorted.subarray(0, count).sort()
  let [best, from, to] = [0, 0, 0]
  for (let low = 0, high = 0; low < count; low++) {
    while (high < count && values[high] - values[low] <= width) high++
    if (high - low > best) [best, from, to] = [high - low, low, high]
  }
  return best >= Math.max(4, OFTEN * count) ? median(values.slice(from, to)) : null
}

/**
 * A set of ranks is certainly one group if at least the share `CLEAR` of its calls, and at least `CLEAR_CALLS` calls,
 * show that it is a single group.
 */
const CLEAR = 0.04
const CLEAR_CALLS = 3
/** The transfer times of two groups whose calls look like calls of one group differ by less than this fraction. */
const ALIKE = 0.1

/**
 * True if the ranks are certainly one group. If the ranks were two groups, each group would have a last rank, which
 * does not wait, so a call in which all ranks but one wait shows a single group.
 */
export const isSingle = (section: Section, members: readonly number[]): boolean =>
  members.length < 4 || isProven(section, members)

export function isProven({ rows, columns, tolerance }: Section, members: readonly number[]): boolean {
  let [clear, calls] = [0, 0]
  for (const column of columns) {
    let [least, second] = [Infinity, Infinity]
    for (const member of members) {
      const { first, starts, ends } = rows[member]
      const call = column - first
      if (call < 0 || call >= ends.length) continue
      const duration = ends[call] - starts[call]
      if (duration < least) [second, least] = [least, duration]
      else second = Math.min(second, duration)
    }
    if (second === Infinity) continue
    calls++
    if (second - least > Math.max(2 * tolerance, ALIKE * least)) clear++
  }
  return clear >= Math.max(CLEAR_CALLS, CLEAR * calls)
}

/**
 * The distance between the end times of two ranks in a call is compared with its median over this many calls before and
 * after the call.
 */
const AROUND = 4
/**
 * A distance that differs by at most this time, in nanoseconds, from the distance in the whole recording is not
 * compared.
 */
const USUAL = 5_000

/**
 * Finds the ranks of a group whose calls in a column really end together. A recording may lack a call, so that the next
 * call of the rank appears at the position of the missing call.
 */
export class EndingTogether {
  private readonly section: Section
  private readonly tied: Tied
  /**
   * For each row and column: the distance of the row's end time from the end time of the first row, or NaN if one of
   * the rows has no call in the column.
   */
  private readonly distances: readonly Float64Array[]

  constructor(section: Section, tied: Tied) {
    this.section = section
    this.tied = tied
    const end = (row: number, column: number): number =>
      section.rows[row].ends[column - section.rows[row].first] ?? NaN
    this.distances = tied.rows.map((row) =>
      Float64Array.from(section.columns, (column) => end(tied.rows[0], column) - end(row, column)),
    )
  }

  rows(k: number): ReadonlySet<number> {
    const { section, tied } = this
    const column = section.columns[k]
    const here = tied.rows.flatMap((row, i) => {
      const { first, starts, ends } = section.rows[row]
      const call = column - first
      if (call < 0 || call >= ends.length) return []
      return [{ row, off: this.deviation(i, k), duration: ends[call] - starts[call] }]
    })
    // If the call of the first row does not belong to the column, the distances of all other rows deviate by the same
    // time.
    const common = median(Float64Array.from(here, ({ off }) => off))
    const tolerance = endTolerance(Math.min(...here.map(({ duration }) => duration)))
    return new Set(here.filter(({ off }) => Math.abs(off - common) <= tolerance).map(({ row }) => row))
  }

  /** The number of rows that have a call in the column. */
  present(k: number): number {
    return this.tied.rows.filter((row) => {
      const call = this.section.columns[k] - this.section.rows[row].first
      return call >= 0 && call < this.section.rows[row].ends.length
    }).length
  }

  private deviation(i: number, k: number): number {
    const own = this.distances[i]
    if (Number.isNaN(own[k])) return 0
    // Clocks rarely drift, so the median is rarely needed.
    const usual = own[k] - this.tied.offsets[i]
    if (Math.abs(usual) <= USUAL) return usual
    const around = own.slice(Math.max(0, k - AROUND), k + AROUND + 1).filter((one) => !Number.isNaN(one))
    return own[k] - median(around)
  }
}
