/**
 * Moves the view of a plot by pointer, wheel or keys. The wheel scrolls the page unless the plot has the focus or Ctrl
 * is held, so that scrolling past the plot does not zoom it.
 */
import { byId } from './dom.ts'
import type { Plot } from './plot.ts'

const STEP = 1.5

/** A position on the canvas, in CSS pixels. */
export interface Point {
  readonly x: number
  readonly y: number
}

/** How a plot reacts to the user's actions. */
export interface Actions {
  /** The mouse is over the plot, at position `at`, and no button is pressed. */
  hover(at: Point, event: PointerEvent): void
  /** The pointer has left the plot, so the tooltip is no longer valid. */
  leave(): void
  /** The pointer or a finger was pressed and released at the same position. */
  click(at: Point, event: PointerEvent): void
  /** Shows the whole time axis. */
  fit(): void
  /** The mouse has dragged the plot down by `down` pixels. */
  drag?(down: number): void
  /** The actions of additional keys. For a key that zooms or pans, the action given here replaces the usual one. */
  readonly keys: Readonly<Record<string, () => void>>
}

export function steer(plot: Plot, actions: Actions): void {
  const { canvas, view } = plot
  const pointers = new Map<number, Point>()
  let moved = false
  let banded = false

  const point = (event: MouseEvent): Point => {
    const box = canvas.getBoundingClientRect()
    return { x: event.clientX - box.left, y: event.clientY - box.top }
  }
  const shareAt = (x: number): number => Math.min(Math.max((x - plot.gutter) / plot.plotWidth, 0), 1)

  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return
    canvas.setPointerCapture(event.pointerId)
    canvas.focus({ preventScroll: true })
    pointers.set(event.pointerId, point(event))
    moved = pointers.size > 1
    banded = event.shiftKey
    actions.leave()
  })

  canvas.addEventListener('pointermove', (event) => {
    const now = point(event)
    const before = pointers.get(event.pointerId)
    if (before === undefined) {
      if (event.pointerType === 'mouse') actions.hover(now, event)
      return
    }
    if (!moved && Math.hypot(now.x - before.x, now.y - before.y) < 4) return
    moved = true
    if (pointers.size === 2) pinch(event.pointerId, now)
    else if (banded) plot.band = [plot.band?.[0] ?? before.x - plot.gutter, now.x - plot.gutter]
    else {
      view.pan((before.x - now.x) / plot.plotWidth)
      if (event.pointerType === 'mouse') actions.drag?.(before.y - now.y)
    }
    pointers.set(event.pointerId, now)
    plot.invalidate()
  })

  const release = (event: PointerEvent): void => {
    const down = pointers.delete(event.pointerId)
    if (!down || event.type === 'pointercancel') return
    if (plot.band !== null) {
      const [a, b] = plot.band
      plot.band = null
      view.show(view.time(Math.min(a, b), plot.plotWidth), view.time(Math.max(a, b), plot.plotWidth))
      plot.invalidate()
    } else if (!moved) actions.click(point(event), event)
  }
  canvas.addEventListener('pointerup', release)
  canvas.addEventListener('pointercancel', release)
  canvas.addEventListener('pointerleave', (event) => {
    // Lifting a finger also causes a leave event, but the tooltip that a tap opened must stay.
    if (event.pointerType === 'mouse') actions.leave()
  })

  function pinch(id: number, now: Point): void {
    const [moving, other] = [pointers.get(id), [...pointers].find(([key]) => key !== id)?.[1]]
    if (moving === undefined || other === undefined) return
    const distance = (a: number): number => Math.max(8, Math.abs(a - other.x))
    view.zoom(distance(now.x) / distance(moving.x), shareAt((now.x + other.x) / 2))
    view.pan((moving.x - now.x) / 2 / plot.plotWidth)
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
        view.pan(sideways / plot.plotWidth)
      else return
      event.preventDefault()
      actions.leave()
      plot.invalidate()
    },
    { passive: false },
  )

  const keys: Readonly<Record<string, () => void>> = {
    ArrowLeft: () => view.pan(-0.15),
    a: () => view.pan(-0.15),
    ArrowRight: () => view.pan(0.15),
    d: () => view.pan(0.15),
    '+': () => view.zoom(STEP, 0.5),
    '=': () => view.zoom(STEP, 0.5),
    w: () => view.zoom(STEP, 0.5),
    '-': () => view.zoom(1 / STEP, 0.5),
    s: () => view.zoom(1 / STEP, 0.5),
    '0': () => actions.fit(),
    Home: () => actions.fit(),
    ...actions.keys,
  }
  canvas.addEventListener('keydown', (event) => {
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key]
    if (action === undefined) return
    event.preventDefault()
    action()
    plot.invalidate()
  })
}

/** Connects the zoom buttons of a page with a timeline. */
export function zoomByButtons(plot: Pick<Plot, 'view' | 'invalidate'>, fit: () => void): void {
  const buttons: Readonly<Record<string, () => void>> = {
    'zoom-in': () => plot.view.zoom(2, 0.5),
    'zoom-out': () => plot.view.zoom(0.5, 0.5),
    'zoom-fit': fit,
    'pan-left': () => plot.view.pan(-0.3),
    'pan-right': () => plot.view.pan(0.3),
  }
  for (const [id, action] of Object.entries(buttons))
    byId(id).addEventListener('click', () => {
      action()
      plot.invalidate()
    })
}
