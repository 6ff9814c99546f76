/**
 * Pointer, wheel and keys on the tracks. The wheel scrolls the page until the tracks have the focus (or Ctrl is
 * held), so that a reader who only passes by is not caught.
 */
import { byId, type Tooltip } from './dom.ts'
import { rowAt } from './layout.ts'
import type { Panel } from './panel.ts'
import { AXIS, type Hit, type Tracks } from './tracks.ts'

const STEP = 1.5

export function listen(tracks: Tracks, panel: Panel, tooltip: Tooltip): void {
  const { canvas, view, model } = tracks
  const pointers = new Map<number, { x: number; y: number }>()
  let moved = false
  let banded = false

  const point = (event: MouseEvent): { x: number; y: number } => {
    const box = canvas.getBoundingClientRect()
    return { x: event.clientX - box.left, y: event.clientY - box.top }
  }
  const shareAt = (x: number): number => Math.min(Math.max((x - tracks.gutter) / tracks.plotWidth, 0), 1)

  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return
    canvas.setPointerCapture(event.pointerId)
    canvas.focus({ preventScroll: true })
    pointers.set(event.pointerId, point(event))
    moved = pointers.size > 1
    banded = event.shiftKey
    tooltip.hide()
  })

  canvas.addEventListener('pointermove', (event) => {
    const now = point(event)
    const before = pointers.get(event.pointerId)
    if (before === undefined) {
      if (event.pointerType === 'mouse') hover(now.x, now.y, event)
      return
    }
    if (!moved && Math.hypot(now.x - before.x, now.y - before.y) < 4) return
    moved = true
    if (pointers.size === 2) pinch(event.pointerId, now)
    else if (banded) tracks.band = [tracks.band?.[0] ?? before.x - tracks.gutter, now.x - tracks.gutter]
    else {
      view.pan((before.x - now.x) / tracks.plotWidth)
      if (event.pointerType === 'mouse') tracks.scroller.scrollTop += before.y - now.y
    }
    pointers.set(event.pointerId, now)
    tracks.invalidate()
  })

  const release = (event: PointerEvent): void => {
    const down = pointers.delete(event.pointerId)
    if (!down || event.type === 'pointercancel') return
    if (tracks.band !== null) {
      const [a, b] = tracks.band
      tracks.band = null
      view.show(view.time(Math.min(a, b), tracks.plotWidth), view.time(Math.max(a, b), tracks.plotWidth))
      tracks.invalidate()
    } else if (!moved) click(point(event))
  }
  canvas.addEventListener('pointerup', release)
  canvas.addEventListener('pointercancel', release)
  canvas.addEventListener('pointerleave', () => tooltip.hide())

  function pinch(id: number, now: { x: number; y: number }): void {
    const [moving, other] = [pointers.get(id), [...pointers].find(([key]) => key !== id)?.[1]]
    if (moving === undefined || other === undefined) return
    const distance = (a: number): number => Math.max(8, Math.abs(a - other.x))
    view.zoom(distance(now.x) / distance(moving.x), shareAt((now.x + other.x) / 2))
    view.pan((moving.x - now.x) / 2 / tracks.plotWidth)
  }

  function hover(x: number, y: number, event: PointerEvent): void {
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

  function click({ x, y }: { x: number; y: number }): void {
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

  canvas.addEventListener(
    'wheel',
    (event) => {
      const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX
      const focused = document.activeElement === canvas
      if (
        event.ctrlKey ||
        event.metaKey ||
        (focused && Math.abs(event.deltaY) > Math.abs(sideways) && !event.shiftKey)
      )
        view.zoom(
          Math.exp(-event.deltaY * (event.ctrlKey && Math.abs(event.deltaY) < 40 ? 0.01 : 0.0022)),
          shareAt(point(event).x),
        )
      else if (Math.abs(sideways) > Math.abs(event.deltaY) || event.shiftKey)
        view.pan(sideways / tracks.plotWidth)
      else return
      event.preventDefault()
      tooltip.hide()
      tracks.invalidate()
    },
    { passive: false },
  )

  const fit = (): void => view.show(...model.header.window)
  const actions: Readonly<Record<string, () => void>> = {
    ArrowLeft: () => view.pan(-0.15),
    a: () => view.pan(-0.15),
    ArrowRight: () => view.pan(0.15),
    d: () => view.pan(0.15),
    ArrowUp: () => (tracks.scroller.scrollTop -= 60),
    ArrowDown: () => (tracks.scroller.scrollTop += 60),
    '+': () => view.zoom(STEP, 0.5),
    '=': () => view.zoom(STEP, 0.5),
    w: () => view.zoom(STEP, 0.5),
    '-': () => view.zoom(1 / STEP, 0.5),
    s: () => view.zoom(1 / STEP, 0.5),
    '0': fit,
    Home: fit,
    '[': () => panel.step(-1),
    ']': () => panel.step(1),
    Escape: () => {
      panel.clear()
      canvas.blur()
    },
  }
  canvas.addEventListener('keydown', (event) => {
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : actions[event.key]
    if (action === undefined) return
    event.preventDefault()
    action()
    tracks.invalidate()
  })

  const buttons: Readonly<Record<string, () => void>> = {
    'zoom-in': () => view.zoom(2, 0.5),
    'zoom-out': () => view.zoom(0.5, 0.5),
    'zoom-fit': fit,
    'pan-left': () => view.pan(-0.3),
    'pan-right': () => view.pan(0.3),
    'collective-before': () => panel.step(-1),
    'collective-after': () => panel.step(1),
  }
  for (const [id, action] of Object.entries(buttons))
    byId(id).addEventListener('click', () => {
      action()
      tracks.invalidate()
    })
  const folding = byId('fold')
  folding.addEventListener('click', () => {
    const folded = folding.getAttribute('aria-pressed') !== 'true'
    folding.setAttribute('aria-pressed', String(folded))
    tracks.foldAll(folded)
  })
}
