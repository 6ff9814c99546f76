/**
 * Handles pointer and key events on a variant's timeline. A tooltip describes a span when the pointer is over the span,
 * at a tap, or when the arrow keys reach the span.
 */
import { runParts } from '../../../runs/results.ts'
import { partLabels } from '../../runs/parts.ts'
import { time } from '../../units.ts'
import { byId, type Description, type Tooltip } from '../dom.ts'
import { steer, type Point } from '../steer.ts'
import type { Place, VariantTracks } from './variantTracks.ts'

export function listenToVariant(tracks: VariantTracks, tooltip: Tooltip): void {
  const { canvas, view, rows } = tracks

  function point({ x, y }: Point, event: PointerEvent): void {
    const hit = tracks.hit(x, y)
    if (hit === null) tooltip.hide()
    else tooltip.show(describe(tracks, hit, hit.spans), event.clientX, event.clientY)
  }

  function select(place: Place | null): void {
    tracks.selected = place
    tracks.invalidate()
    if (place === null) {
      tooltip.hide()
      return
    }
    const { from, to } = tracks.factsOf(place)
    if (to <= view.from || from >= view.to) view.show(from - view.span / 2, from + view.span / 2)
    const box = canvas.getBoundingClientRect()
    const { x, y } = tracks.middleOf(place)
    const description = describe(tracks, place, 1)
    tooltip.show(description, box.left + x, box.top + y)
    byId('told').textContent =
      `${description.title}; ${description.lines.map(([label, value]) => `${label} ${value}`).join(', ')}`
  }

  const first = (row: number): Place | null => {
    const { segments } = rows[row]
    const span = Math.min(segments.endingAfter(view.from), segments.length - 1)
    return span < 0 ? null : { row, span }
  }

  const along = (by: 1 | -1) => (): void => {
    const now = tracks.selected
    if (now === null) {
      if (rows.length > 0) select(first(0))
      return
    }
    const span = now.span + by
    if (span >= 0 && span < rows[now.row].segments.length) select({ row: now.row, span })
  }

  const across = (by: 1 | -1) => (): void => {
    const now = tracks.selected
    const row = now === null ? 0 : now.row + by
    if (row < 0 || row >= rows.length) return
    if (now === null) select(first(row))
    else {
      const { segments } = rows[row]
      const span = Math.min(segments.endingAfter(tracks.factsOf(now).from), segments.length - 1)
      if (span >= 0) select({ row, span })
    }
  }

  steer(tracks, {
    hover: point,
    click: point,
    leave: () => tooltip.hide(),
    fit: () => view.fit(),
    keys: {
      ArrowLeft: along(-1),
      ArrowRight: along(1),
      ArrowUp: across(-1),
      ArrowDown: across(1),
      Escape: () => select(null),
    },
  })
  canvas.addEventListener('blur', () => select(null))
}

function describe(tracks: VariantTracks, place: Place, spans: number): Description {
  const { from, to, part, label } = tracks.factsOf(place)
  const { rank, track } = tracks.rows[place.row]
  return {
    title: label,
    lines: [
      [partLabels[part], runParts[part]],
      ['took', time(to - from)],
      ['from', `${time(from)} to ${time(to)}`],
      ['on', `${tracks.variant}, rank ${rank}, ${track.name}`],
      ...(spans > 1
        ? [['besides', `${spans - 1} shorter spans in the same place; zoom in to see them`] as const]
        : []),
    ],
  }
}
