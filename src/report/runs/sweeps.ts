/**
 * Finds benchmark points that differ in only one property, so that a chart can show them. The property that differs is
 * an extent, the number of ranks, or the delay of a rank.
 */
import type { Point } from '../../runs/results.ts'
import { groupedBy, pointName } from './points.ts'

export interface Sweep {
  readonly operation: string
  /** The property that differs, such as M, ranks or skew. */
  readonly axis: string
  /** All other properties, which are equal for all points of the sweep. */
  readonly fixed: string
  /** The points in the order of the horizontal axis. */
  readonly points: readonly { readonly at: number; readonly point: Point }[]
}

const axesOf = ({ shape, ranks, skew }: Point): Readonly<Record<string, number>> => ({
  ...shape,
  ranks,
  skew,
})

/** Finds the sweeps, with the longest sweep first. A point that belongs to one sweep does not start another sweep. */
export function findSweeps(points: readonly Point[]): Sweep[] {
  const axes = new Set(points.flatMap((point) => Object.keys(axesOf(point))))
  const found = [...axes].flatMap((axis) =>
    [...groupedBy(points, (point) => keyWithout(axis, point)).values()].map((group) =>
      sweepAlong(axis, group),
    ),
  )
  const shown = new Set<Point>()
  const sweeps: Sweep[] = []
  for (const sweep of found.sort((a, b) => b.points.length - a.points.length)) {
    if (sweep.points.length < 2 || sweep.points.every(({ point }) => shown.has(point))) continue
    for (const { point } of sweep.points) shown.add(point)
    sweeps.push(sweep)
  }
  return sweeps
}

function keyWithout(axis: string, point: Point): string {
  const { operation, choices, dtype } = point
  const { [axis]: along, ...others } = axesOf(point)
  return JSON.stringify([operation, choices, dtype, others, along === undefined])
}

function sweepAlong(axis: string, group: readonly Point[]): Sweep {
  const placed = group.flatMap((point) => {
    const at = axesOf(point)[axis]
    return at === undefined ? [] : [{ at, point }]
  })
  // If a benchmark point was measured twice, the second result is used.
  const points = [...new Map(placed.map((one) => [one.at, one])).values()].sort((a, b) => a.at - b.at)
  const [first] = group
  const { [axis]: _along, ...shape } = first.shape
  return {
    operation: first.operation,
    axis,
    fixed: pointName({ ...first, shape, ...(axis === 'skew' ? { skew: 0 } : {}) }),
    points,
  }
}
