/** Points that differ in one thing alone, which a chart can show: an extent, the number of ranks, or how late a rank starts. */
import type { Point } from '../../runs/results.ts'
import { groupedBy, pointName } from './points.ts'

export interface Sweep {
  readonly operation: string
  /** Such as M, ranks or skew. */
  readonly axis: string
  /** All else. */
  readonly fixed: string
  /** In order along the axis. */
  readonly points: readonly { readonly at: number; readonly point: Point }[]
}

const axesOf = ({ shape, ranks, skew }: Point): Readonly<Record<string, number>> => ({
  ...shape,
  ranks,
  skew,
})

/** The longest first; a point that stands in one sweep does not make another. */
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
  // Of a point that was measured twice, the later.
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
