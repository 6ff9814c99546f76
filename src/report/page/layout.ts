/** Computes the vertical positions of ranks and streams, in CSS pixels below the axis. */
import { culpritFirst } from '../culprit.ts'
import type { Lane, Rank } from './unpack.ts'

export interface Row {
  /** The index of the row's rank. */
  readonly rank: number
  /**
   * The lane of the row, or null for the row of the rank's partition and for the row that represents several streams.
   */
  readonly lane: Lane | null
  /** The number of hidden streams (those with little work), or of host threads, that this row represents. */
  readonly quiet: number
  /** True if the user shows or hides the host threads of a rank by means of this row. */
  readonly isHosts: boolean
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

/**
 * Which rows of a rank are shown: only the row of its time by category (partition), the busiest streams, or all
 * streams.
 */
export type Extent = 'folded' | 'busy' | 'all'

const PARTITION = 14
const STREAM = 18
const SPACE = 12
/**
 * The number of streams of a rank that count as busy. If a rank has only a few streams more than that, all its streams
 * are shown.
 */
const BUSY = 8
const FEW = 3

/** Computes the layout. The rank whose number is `culprit` is at the top. */
export function layOut(
  ranks: readonly Rank[],
  extents: readonly Extent[],
  culprit: number | null,
  /** For each rank: true if its host threads are shown. */
  open: readonly boolean[] = [],
): Layout {
  const rows: Row[] = []
  const groups: { top: number; height: number }[] = []
  const order = culpritFirst(
    ranks.map(({ rank, lanes, hosts }, index) => ({ rank, lanes, hosts, index })),
    culprit,
  )
  // The space for the names of steps, in CSS pixels.
  let y = 18
  for (const { rank: number, lanes, hosts, index: rank } of order) {
    const top = y
    const add = (lane: Lane | null, quiet: number, label: string, height: number): void => {
      rows.push({ rank, lane, quiet, isHosts: false, label, top: y, height })
      y += height + 2
    }
    add(null, 0, `rank ${number}`, PARTITION)
    if (extents[rank] !== 'folded') {
      const shown = extents[rank] === 'all' ? lanes : busiest(lanes)
      const devices = new Set(lanes.map(({ device }) => device)).size
      for (const lane of shown) {
        const device = devices > 1 ? `gpu ${lane.device} ` : ''
        // Device work that overlaps with other work of the same stream is drawn in additional rows.
        add(lane, 0, lane.row === 0 ? `${device}stream ${lane.stream}` : `↳ overlap ${lane.row}`, STREAM)
      }
      const quiet = lanes.length - shown.length
      if (quiet > 0) add(null, quiet, `+ ${quiet} quiet`, PARTITION)
      const threads = new Set(hosts.map(({ stream }) => stream)).size
      if (threads > 0) {
        const label = `${open[rank] ? '−' : '+'} ${threads} ${threads === 1 ? 'thread' : 'threads'}`
        rows.push({ rank, lane: null, quiet: threads, isHosts: true, label, top: y, height: PARTITION })
        y += PARTITION + 2
        if (open[rank])
          for (const lane of hosts)
            add(
              lane,
              0,
              lane.row > 0
                ? `↳ depth ${lane.row + 1}`
                : `${lane.frames ? 'Python' : 'thread'} ${lane.stream}`,
              STREAM,
            )
      }
    }
    groups[rank] = { top, height: y - top }
    y += extents[rank] === 'folded' ? 4 : SPACE
  }
  return { rows, groups, first: order[0]?.index ?? 0, height: y }
}

/** Returns the lanes (series of events for one timeline row) with the most busy time, without changing their order. */
function busiest(lanes: readonly Lane[]): readonly Lane[] {
  if (lanes.length <= BUSY + FEW) return lanes
  const busy = new Set([...lanes].sort((a, b) => b.segments.total - a.segments.total).slice(0, BUSY))
  return lanes.filter((lane) => busy.has(lane))
}

export function rowAt({ rows }: Layout, y: number): Row | undefined {
  return rows.find(({ top, height }) => y >= top - 1 && y < top + height + 1)
}
