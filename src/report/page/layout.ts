/** Where each rank and stream is, from top to bottom, in CSS pixels below the axis. */
import type { Lane, Rank } from './unpack.ts'

export interface Row {
  /** Index into the ranks. */
  readonly rank: number
  /** Null for the row that shows where the rank's time went. */
  readonly lane: Lane | null
  readonly label: string
  readonly top: number
  readonly height: number
}

export interface Layout {
  readonly rows: readonly Row[]
  /** Of each rank, from the top of its first row to the bottom of its last. */
  readonly groups: readonly { readonly top: number; readonly height: number }[]
  readonly height: number
}

const PARTITION = 14
const STREAM = 18
const SPACE = 12

/** A folded rank shows only where its time went. */
export function layOut(ranks: readonly Rank[], folded: readonly boolean[]): Layout {
  const rows: Row[] = []
  const groups: { top: number; height: number }[] = []
  // Room for the names of steps.
  let y = 18
  for (const [rank, { rank: number, lanes }] of ranks.entries()) {
    const top = y
    rows.push({ rank, lane: null, label: `rank ${number}`, top: y, height: PARTITION })
    y += PARTITION + 2
    const devices = new Set(lanes.map(({ device }) => device)).size
    if (!folded[rank])
      for (const lane of lanes) {
        const device = devices > 1 ? `gpu ${lane.device} ` : ''
        rows.push({
          rank,
          lane,
          label: lane.row === 0 ? `${device}stream ${lane.stream}` : '',
          top: y,
          height: STREAM,
        })
        y += STREAM + 2
      }
    groups.push({ top, height: y - top })
    y += folded[rank] ? 4 : SPACE
  }
  return { rows, groups, height: y }
}

export function rowAt({ rows }: Layout, y: number): Row | undefined {
  return rows.find(({ top, height }) => y >= top - 1 && y < top + height + 1)
}
