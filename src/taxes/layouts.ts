/**
 * Replaces the sets of tied ranks (ranks that end their calls together, ties.ts) of a section by groups in a regular
 * layout. Groups that run in lockstep end their calls together, so time alone does not show which rank belongs to which
 * group. Process groups usually have equal sizes, and the rank numbers of a group are consecutive or at equal
 * distances. A regular layout is used if it contains all groups that are certain and if the ends of the calls in each
 * of its groups agree.
 *
 * A wrong layout does little harm, since it differs from the right layout only in ranks that arrive and leave together.
 */
import { type PairFits } from './pairFit.ts'
import { explanationOf, isProven, type Section, shareOf, type Tied } from './ties.ts'

/** A layout may explain less of the time than the tied ranks that it replaces, but by at most this fraction. */
const LESS = 0.02

/**
 * Returns the groups of the first regular layout that fits. If the tied ranks are already regular or no layout fits,
 * returns the tied ranks.
 */
export function regular(
  section: Section,
  tied: readonly Tied[],
  others: readonly { readonly section: Section; readonly tied: readonly Tied[] }[],
  fits: PairFits,
  reach: number,
): readonly Tied[] {
  const rows = section.rows.length
  const proven = tied.filter((one) => isProven(section, one.rows))
  if (proven.length === tied.length || rows < 4) return tied
  const share = shareOf(explanationOf(section, tied))
  for (const layout of layoutsOf(section, proven, others)) {
    const groups = groupsOf(section, layout, fits, reach)
    if (groups !== null && shareOf(explanationOf(section, groups)) >= share - LESS) return groups
  }
  return tied
}

/** For each rank (row): the number of its group. */
type Layout = Int32Array

function* layoutsOf(
  section: Section,
  proven: readonly Tied[],
  others: readonly { readonly section: Section; readonly tied: readonly Tied[] }[],
): Generator<Layout> {
  const rows = section.rows.length
  if (proven.length > 0)
    for (const { size, stride } of meshes(rows)) {
      const layout = Int32Array.from({ length: rows }, (_, row) => meshGroup(row, size, stride))
      const isKept = proven.every(({ rows: [first, ...rest] }) =>
        rest.every((row) => layout[row] === layout[first]),
      )
      if (isKept && proven.some((one) => one.rows.length === size)) yield layout
    }
  // A candidate for a group consists of the ranks that have the same position in the groups of another section.
  for (const other of others) {
    const places = placesIn(section, other)
    if (places === null) continue
    const found = places
    const isKept = proven.every((one) => one.rows.every((row) => found[row] === found[one.rows[0]]))
    if (isKept) yield found
  }
}

function* meshes(rows: number): Generator<{ size: number; stride: number }> {
  for (let size = 2; size <= rows; size++) {
    if (rows % size !== 0) continue
    for (let stride = 1; stride * size <= rows; stride++)
      if (rows % (size * stride) === 0) yield { size, stride }
  }
}

const meshGroup = (row: number, size: number, stride: number): number =>
  Math.floor(row / (size * stride)) * stride + (row % stride)

/**
 * Returns the position of each rank in its group of the other section, or null unless all groups are certain and
 * equally large.
 */
function placesIn(
  section: Section,
  other: { readonly section: Section; readonly tied: readonly Tied[] },
): Layout | null {
  const size = other.tied[0]?.rows.length ?? 0
  if (size < 2 || size === section.rows.length || other.section.rows.length !== section.rows.length)
    return null
  const placeOf = new Map<number, number>()
  for (const { rows } of other.tied) {
    if (rows.length !== size) return null
    rows.forEach((row, place) => placeOf.set(other.section.rows[row].rank, place))
  }
  const places = section.rows.map(({ rank }) => placeOf.get(rank) ?? -1)
  return places.includes(-1) ? null : Int32Array.from(places)
}

/**
 * The groups of a layout with the clock offsets of their ranks, or null if the ends of the calls of a group do not
 * agree.
 */
function groupsOf(section: Section, layout: Layout, fits: PairFits, reach: number): Tied[] | null {
  const groups = new Map<number, Tied>()
  for (let row = 0; row < layout.length; row++) {
    const known = groups.get(layout[row])
    if (known === undefined) {
      groups.set(layout[row], { rows: [row], offsets: [0] })
      continue
    }
    const fit = fits.fit(
      section.rows[known.rows[0]],
      section.rows[row],
      section.columns,
      2 * section.tolerance,
    )
    if (fit === null || Math.abs(fit.offset) > reach) return null
    known.rows.push(row)
    known.offsets.push(fit.offset)
  }
  return [...groups.values()]
}
