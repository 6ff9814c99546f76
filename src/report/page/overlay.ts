/** Draws on top of the painted tracks: the axis, labels, edges and names of wide events, and the selection. */
import { categoryOfKind, TRANSFER } from '../categories.ts'
import { time } from '../units.ts'
import { shortName } from './model.ts'
import { AXIS, drawAxis, drawBand, drawGrid, FONT, inkOn, LABELS } from './plot.ts'
import { hatching, type Tracks } from './tracks.ts'
import type { Row } from './layout.ts'

export function drawOverlay(tracks: Tracks, context: CanvasRenderingContext2D): void {
  const { gutter, width, height } = tracks
  context.save()
  context.beginPath()
  context.rect(gutter, AXIS, width - gutter, height - AXIS)
  context.clip()
  drawSteps(tracks, context)
  for (const row of tracks.layout.rows) {
    const top = AXIS + row.top - tracks.scroll
    if (top + row.height < AXIS || top > height) continue
    drawEvents(tracks, context, row, top)
    drawMatches(tracks, context, row, top)
  }
  drawSelection(tracks, context)
  drawCursor(tracks, context)
  context.restore()
  drawGrid(tracks, context, AXIS)
  drawAxis(tracks, context)
  drawLabels(tracks, context)
  drawBand(tracks, context, AXIS)
}

function drawLabels(tracks: Tracks, context: CanvasRenderingContext2D): void {
  const { layout, ink, gutter, scroll, height, model } = tracks
  const narrow = gutter < 80
  context.save()
  context.beginPath()
  context.rect(0, AXIS, gutter, height - AXIS)
  context.clip()
  context.textBaseline = 'middle'
  context.textAlign = 'left'
  const culprit = model.ranks.findIndex(({ rank }) => rank === model.header.culprit)
  if (culprit >= 0) {
    const group = layout.groups[culprit]
    context.fillStyle = ink.accent
    context.fillRect(0, AXIS + group.top - scroll, 4, group.height)
  }
  for (const row of layout.rows) {
    const y = AXIS + row.top - scroll + row.height / 2
    if (y < AXIS - 10 || y > height + 10) continue
    const head = row.lane === null && row.quiet === 0
    context.fillStyle = !head ? ink.faint : row.rank === culprit ? ink.accent : ink.text
    context.font = head ? `600 ${LABELS}` : LABELS.replace('12px', '11px')
    context.fillText(narrow ? shortLabel(row.label) : row.label, head ? 6 : 14, y + 0.5)
  }
  context.restore()
  context.fillStyle = ink.line
  context.fillRect(gutter - 1, AXIS, 1, height - AXIS)
}

/** Shortens the label of a row for a narrow screen. */
const shortLabel = (label: string): string =>
  label
    .replace('stream ', 's ')
    .replace(/(?<=^|\d )threads?\b/, 't')
    .replace('overlap ', '')
    .replace('depth ', '')

/** Draws the starts of each rank's steps if the starts are far enough apart. */
function drawSteps(tracks: Tracks, context: CanvasRenderingContext2D): void {
  const { model, view, plotWidth, gutter, ink, layout, scroll } = tracks
  context.font = LABELS.replace('12px', '10px')
  context.textBaseline = 'alphabetic'
  context.textAlign = 'left'
  context.fillStyle = ink.faint
  for (const [rank, steps] of model.steps.entries()) {
    const { top, height } = layout.groups[rank]
    if (top + height < scroll || top > scroll + tracks.height) continue
    let free = -Infinity
    for (const { name, start } of steps) {
      const x = gutter + view.x(start, plotWidth)
      if (x < gutter || x > gutter + plotWidth || x < free) continue
      context.fillRect(Math.round(x), AXIS + top - scroll - 4, 1, height + 4)
      free = x + 24
      if (rank === layout.first && x + 6 * name.length < gutter + plotWidth) {
        context.fillText(name, x + 4, AXIS + top - scroll - 5)
        free = x + 6 * name.length
      }
    }
  }
}

/** Draws the edges and names of events that are wide enough. */
function drawEvents(tracks: Tracks, context: CanvasRenderingContext2D, { lane }: Row, top: number): void {
  if (lane === null) return
  const { view, plotWidth, gutter, model, palette, ink } = tracks
  const { segments, start, end } = lane
  const from = segments.endingAfter(view.from)
  const to = segments.startingFrom(view.to, from)
  if (to - from === 0 || (to - from) * 4 > plotWidth) return
  const whole = segments.length === start.length
  const first = whole ? from : Math.max(0, lowerBound(end, view.from))
  const last = whole ? to : lowerBound(start, view.to)
  context.font = FONT
  context.textBaseline = 'middle'
  context.textAlign = 'left'
  for (let event = first; event < last; event++) {
    const left = gutter + view.x(start[event], plotWidth)
    const right = gutter + view.x(end[event], plotWidth)
    if (right - left < 3) continue
    const [a, b] = [Math.max(left, gutter - 2), Math.min(right, gutter + plotWidth + 2)]
    // A tint derived from the event's name, and an edge, distinguish neighbouring events of the same colour.
    context.fillStyle = `rgba(255, 255, 255, ${(((lane.name[event] * 2654435761) >>> 28) / 15) * 0.24})`
    if (lane.member === null) context.fillRect(a, top, b - a, 18)
    context.fillStyle = ink.paper
    context.fillRect(Math.round(left), top, 1, 18)
    const room = Math.floor((b - a - 8) / 6.62)
    if (room < 3) continue
    const name = shortName(model.header.names[lane.name[event]])
    const member = lane.member ? lane.member[event] : -1
    const wait = member >= 0 ? model.collectives.wait[member] : -1
    const category = member >= 0 && wait >= 0 ? TRANSFER : categoryOfKind(lane.kind[event])
    const text = name.length > room ? `${name.slice(0, room - 1)}…` : name
    let x = a + 4
    if (wait > 0) {
      // The name of a collective is drawn on its transfer segment, since text on the hatched waiting segment is hard to
      // read.
      const arrival = gutter + view.x(start[event] + wait, plotWidth)
      const after = Math.floor((b - Math.max(arrival, a) - 8) / 6.62)
      if (after < 3) continue
      x = Math.max(arrival, a) + 4
      context.fillStyle = inkOn(palette.css[category])
      context.fillText(name.length > after ? `${name.slice(0, after - 1)}…` : name, x, top + 9.5)
      continue
    }
    context.fillStyle = inkOn(palette.css[category])
    context.fillText(text, x, top + 9.5)
  }
}

function drawMatches(
  tracks: Tracks,
  context: CanvasRenderingContext2D,
  { rank, lane }: Row,
  top: number,
): void {
  if (tracks.matches === null || lane === null) return
  const { view, plotWidth, gutter, ink, model } = tracks
  const found = tracks.matches[rank][model.ranks[rank].all.indexOf(lane)]
  context.fillStyle = ink.text
  const step = view.span / plotWidth
  let i = lowerBound(found, lowerBound(lane.end, view.from))
  // At most one search match is marked per pixel.
  while (i < found.length) {
    const event = found[i]
    if (lane.start[event] > view.to) break
    const x = gutter + view.x(lane.start[event], plotWidth)
    const wide = Math.max(2, ((lane.end[event] - lane.start[event]) / view.span) * plotWidth)
    context.fillRect(x, top - 1, wide, 3)
    i = lowerBound(found, lowerBound(lane.start, lane.start[event] + step, event + 1), i + 1)
  }
}

/** Draws an outline that is light inside and dark outside, so that it is visible on every colour. */
function drawCursor(tracks: Tracks, context: CanvasRenderingContext2D): void {
  const { cursor, view, plotWidth, gutter, ink, scroll } = tracks
  const row = cursor && tracks.rowOf(cursor)
  if (!cursor || !row) return
  const [left, right] = tracks.spanOf(cursor).map((at) => gutter + view.x(at, plotWidth))
  const box = [left, AXIS + row.top - scroll, Math.max(3, right - left), row.height] as const
  context.lineWidth = 4
  context.strokeStyle = ink.paper
  context.strokeRect(...box)
  context.lineWidth = 2
  context.strokeStyle = ink.text
  context.strokeRect(...box)
  context.lineWidth = 1
}

function drawSelection(tracks: Tracks, context: CanvasRenderingContext2D): void {
  const { selection, view, plotWidth, gutter, ink, model, layout, scroll, palette, width, height } = tracks
  if (selection === null) return
  const x = (at: number): number => gutter + view.x(at, plotWidth)
  if (selection.kind === 'event') {
    const { lane, event, rank } = selection.place
    const row = layout.rows.find((one) => one.rank === rank && one.lane === lane)
    if (row === undefined) return
    context.strokeStyle = ink.text
    context.lineWidth = 2
    const left = x(lane.start[event])
    context.strokeRect(left, AXIS + row.top - scroll, Math.max(2, x(lane.end[event]) - left), row.height)
    return
  }
  context.fillStyle = ink.paper
  context.globalAlpha = 0.62
  context.fillRect(gutter, AXIS, width - gutter, height - AXIS)
  context.globalAlpha = 1
  const hatch = hatching(context, palette)
  const { start, duration, wait, rank } = model.collectives
  for (const member of model.members(selection.index)) {
    const lane = model.places[member]?.lane
    const row =
      layout.rows.find((one) => one.rank === rank[member] && one.lane !== null && one.lane === lane) ??
      layout.rows.find((one) => one.rank === rank[member])
    if (row === undefined) continue
    const top = AXIS + row.top - scroll
    const [left, right] = [x(start[member]), x(start[member] + duration[member])]
    const known = wait[member] >= 0
    const arrival = known ? x(start[member] + Math.min(wait[member], duration[member])) : left
    context.fillStyle = hatch
    context.fillRect(left, top, arrival - left, row.height)
    context.fillStyle = palette.css[known ? TRANSFER : TRANSFER + 1]
    context.fillRect(arrival, top, Math.max(1.5, right - arrival), row.height)
    context.fillStyle = ink.text
    context.fillRect(left - 1, top - 3, 2, row.height + 6)
  }
  const last = model.lastArrival(selection.index)
  if (last === null) return
  const at = Math.round(x(last))
  context.fillStyle = ink.accent
  context.fillRect(at - 1, AXIS, 2, height - AXIS)
  const label = `last arrival: rank ${model.ranks[model.collectives.last[selection.index]].rank}, ${time(last)}`
  context.font = `600 ${LABELS}`
  const wide = context.measureText(label).width + 12
  const left = at + wide + 4 > width ? Math.max(gutter, at - wide - 2) : at + 2
  context.fillRect(left, AXIS + 2, wide, 20)
  context.fillStyle = ink.paper
  context.textBaseline = 'middle'
  context.fillText(label, left + 6, AXIS + 12.5)
}

function lowerBound(values: ArrayLike<number>, value: number, low = 0): number {
  let high = values.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (values[middle] >= value) high = middle
    else low = middle + 1
  }
  return low
}
