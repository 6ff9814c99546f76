/** What pointer and keys do on the tracks besides moving the view. */
import { byId, type Tooltip } from './dom.ts'
import { rowAt } from './layout.ts'
import type { Panel } from './panel.ts'
import { AXIS } from './plot.ts'
import { steer, zoomByButtons, type Point } from './steer.ts'
import type { Hit, Tracks } from './tracks.ts'

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
      ArrowUp: () => (scroller.scrollTop -= 60),
      ArrowDown: () => (scroller.scrollTop += 60),
      '[': () => panel.step(-1),
      ']': () => panel.step(1),
      Escape: () => {
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
    if (hit === null || hit.row.lane === null) {
      panel.clear()
      return
    }
    const { lane, rank } = hit.row
    // Of several under the pixel, the longest; of a collective, all of it.
    let event = hit.from
    for (let i = hit.from; i < Math.min(hit.to, hit.from + 4096); i++)
      if (lane.end[i] - lane.start[i] > lane.end[event] - lane.start[event]) event = i
    const member = lane.member ? lane.member[event] : -1
    if (member >= 0) panel.showCollective(model.collectives.collective[member])
    else panel.showEvent({ rank, lane, event })
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
}
