/** Computes the vertical positions of ranks and streams, in CSS pixels below the axis. */
import { culpritFirst } from '../culprit.ts'
import type { Lane, Rank } from './unpack.ts'

export interface Row {
  /** The index of the row's rank. */
  readonly rank: number
  /**
   * The lane of the row. It is null for the row of the rank's partition, and for the row that represents quiet streams.
   */
  readonly lane: Lane | null
  /** The number of quiet streams that this row represents. */
  readonly quiet: number
  readonly label: string
  readonly top: number
  readonly height: number
}

export interface Layout {
  readonly rows: readonly Row[]
  /** The vertical extent of each rank, from the top of its first row to the bottom of its last row. */
  readonly groups: readonly { readonly top: number; readonly height: number }[]
  /** The index of the topmost rank. */
  readonly first: number
  readonly height: number
}

/** Which rows of a rank are shown: only its partition, its busiest streams, or all streams. */
export type Extent = 'folded' | 'busy' | 'all'

const PARTITION = 14
const STREAM = 18
const SPACE = 12
/** This many streams of a rank count as busy. If the rank has only a few more streams, they are shown as well. */
const BUSY = 8
const FEW = 3

/** Computes the layout. The rank whose number is `culprit` is at the top. */
export function layOut(ranks: readonly Rank[], extents: readonly Extent[], culprit: number | null): Layout {
  const rows: Row[] = []
  const groups: { top: number; height: number }[] = []
  const order = culpritFirst(
    ranks.map(({ rank, lanes }, index) => ({ rank, lanes, index })),
    culprit,
  )
  // The space for the names of steps, in CSS pixels.
  let y = 18
  for (const { rank: number, lanes, index: rank } of order) {
    const top = y
    const add = (lane: Lane | null, quiet: number, label: string, height: number): void => {
      rows.push({ rank, lane, quiet, label, top: y, height })
      y += height + 2
    }
    add(null, 0, `rank ${number}`, PARTITION)
    if (extents[rank] !== 'folded') {
      const shown = extents[rank] === 'all' ? lanes : busiest(lanes)
      const devices = new Set(lanes.map(({ device }) => device)).size
      for (const lane of shown) {
        const device = devices > 1 ? `gpu ${lane.device} ` : ''
        add(lane, 0, lane.row === 0 ? `${device}stream ${lane.stream}` : '', STREAM)
      }
      const quiet = lanes.length - shown.length
      if (quiet > 0) add(null, quiet, `+ ${quiet} quiet`, PARTITION)
    }
    groups[rank] = { top, height: y - top }
    y += extents[rank] === 'folded' ? 4 : SPACE
  }
  return { rows, groups, first: order[0]?.index ?? 0, height: y }
}

/** The lanes with the most busy time, in their original order. */
function busiest(lanes: readonly Lane[]): readonly Lane[] {
  if (lanes.length <= BUSY + FEW) return lanes
  const busy = new Set([...lanes].sort((a, b) => b.segments.total - a.segments.total).slice(0, BUSY))
  return lanes.filter((lane) => busy.has(lane))
}

export function rowAt({ rows }: Layout, y: number): Row | undefined {
  return rows.find(({ top, height }) => y >= top - 1 && y < top + height + 1)
}
