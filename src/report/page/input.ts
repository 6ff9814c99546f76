/**
 * Handles pointer and key events on the tracks, except those that move the view, which steer.ts handles. Everything
 * that the pointer can do is also possible with keys.
 */
import { byId, type Tooltip } from './dom.ts'
import { rowAt, type Row } from './layout.ts'
import type { Panel } from './panel.ts'
import { AXIS } from './plot.ts'
import { steer, zoomByButtons, type Point } from './steer.ts'
import type { Cursor, Hit, Tracks } from './tracks.ts'

export function listen(tracks: Tracks, panel: Panel, tooltip: Tooltip): void {
  const { canvas, view, model, scroller } = tracks
  const fit = (): void => view.show(...model.header.window)

  steer(tracks, {
    hover,
    click,
    fit,
    leave: () => tooltip.hide(),
    drag: (down) => (scroller.scrollTop += down),
    keys: {
      ArrowLeft: () => along(-1),
      ArrowRight: () => along(1),
      ArrowUp: () => across(-1),
      ArrowDown: () => across(1),
      f: () => tracks.foldNext(tracks.cursor?.rank ?? tracks.layout.first),
      h: () => tracks.openHosts(tracks.cursor?.rank ?? tracks.layout.first),
      '[': () => panel.step(-1),
      ']': () => panel.step(1),
      Escape: () => {
        tracks.cursor = null
        panel.clear()
        canvas.blur()
      },
    },
  })

  function hover({ x, y }: Point, event: PointerEvent): void {
    const hit = tracks.hit(x, y)
    canvas.style.cursor = x < tracks.gutter ? 'pointer' : 'crosshair'
    if (hit === null) tooltip.hide()
    else tooltip.show(describeHit(hit), event.clientX, event.clientY)
  }

  function describeHit({ row, from, to, left, right }: Hit): ReturnType<typeof model.describePart> {
    if (row.lane === null) return model.describePart(row.rank, longest(row.rank, from, to))
    if (to - from > 3) return model.describeMany(row.rank, row.lane, from, to, left, right)
    return model.describeEvent({ rank: row.rank, lane: row.lane, event: from })
  }

  function longest(rank: number, from: number, to: number): number {
    const { start, end } = model.ranks[rank].partition
    let best = from
    for (let i = from; i < Math.min(to, from + 4096); i++)
      if (end[i] - start[i] > end[best] - start[best]) best = i
    return best
  }

  function click({ x, y }: Point): void {
    if (x < tracks.gutter && y > AXIS) {
      const row = rowAt(tracks.layout, y - AXIS + tracks.scroll)
      if (row !== undefined) tracks.fold(row)
      return
    }
    const hit = tracks.hit(x, y)
    tracks.cursor = null
    if (hit === null) {
      panel.clear()
      return
    }
    if (hit.row.lane === null) {
      tracks.cursor = { rank: hit.row.rank, lane: null, index: longest(hit.row.rank, hit.from, hit.to) }
      tell(tracks.cursor)
      return
    }
    const { lane, rank } = hit.row
    // If several events are under the pixel, the longest event is chosen.
    let event = hit.from
    for (let i = hit.from; i < Math.min(hit.to, hit.from + 4096); i++)
      if (lane.end[i] - lane.start[i] > lane.end[event] - lane.start[event]) event = i
    tracks.cursor = { rank, lane, index: event }
    tell(tracks.cursor)
  }

  /**
   * Shows the selected event in the panel. If the event belongs to a collective, the panel shows the whole collective.
   */
  function tell({ rank, lane, index }: Cursor): void {
    if (lane === null) {
      panel.showPart(rank, index)
      return
    }
    const member = lane.member ? lane.member[index] : -1
    if (member >= 0) panel.showCollective(model.collectives.collective[member])
    else panel.showEvent({ rank, lane, event: index })
  }

  function moveTo(row: Row, index: number): void {
    const cursor = { rank: row.rank, lane: row.lane, index }
    tracks.cursor = cursor
    const [from, to] = tracks.spanOf(cursor)
    if (to <= view.from || from >= view.to) view.show(from - view.span / 2, from + view.span / 2)
    tracks.reveal(row)
    tell(cursor)
  }

  /** The first event of a row that ends after `time`, or the last event if all events have ended. */
  const indexAt = ({ rank, lane }: Row, time: number): number => {
    const { end } = lane ?? model.ranks[rank].partition
    const index = end.findIndex((one) => one > time)
    return index < 0 ? end.length - 1 : index
  }

  /** Moves the keyboard cursor to the next or the previous event of its row. */
  function along(by: 1 | -1): void {
    const { cursor } = tracks
    const row = cursor && tracks.rowOf(cursor)
    if (!cursor || !row) {
      across(1)
      return
    }
    const { start } = cursor.lane ?? model.ranks[cursor.rank].partition
    const index = cursor.index + by
    if (index >= 0 && index < start.length) moveTo(row, index)
  }

  /** Moves the keyboard cursor to the row above or below, to the event at the start time of the selected event. */
  function across(by: 1 | -1): void {
    const rows = tracks.layout.rows.filter(
      ({ quiet, lane, rank }) => quiet === 0 && (lane ?? model.ranks[rank].partition).start.length > 0,
    )
    const { cursor } = tracks
    const now = cursor ? rows.findIndex(({ rank, lane }) => rank === cursor.rank && lane === cursor.lane) : -1
    const row = rows[now < 0 || !cursor ? 0 : now + by]
    if (row) moveTo(row, indexAt(row, cursor ? tracks.spanOf(cursor)[0] : view.from))
  }

  zoomByButtons(tracks, fit)
  for (const [id, by] of [
    ['collective-before', -1],
    ['collective-after', 1],
  ] as const)
    byId(id).addEventListener('click', () => panel.step(by))
  const folding = byId('fold')
  folding.addEventListener('click', () => {
    const folded = folding.getAttribute('aria-pressed') !== 'true'
    folding.setAttribute('aria-pressed', String(folded))
    tracks.foldAll(folded)
  })
  const hosts = byId('hosts')
  hosts.hidden = model.ranks.every(({ hosts: lanes }) => lanes.length === 0)
  hosts.addEventListener('click', () => {
    const open = hosts.getAttribute('aria-pressed') !== 'true'
    hosts.setAttribute('aria-pressed', String(open))
    tracks.openAllHosts(open)
  })
}
