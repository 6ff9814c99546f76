/**
 * Draws the tracks of all ranks on one canvas, aligned in time. The canvas is redrawn only after a change, and at most
 * once per display frame. The cost of drawing depends on the number of pixels, not on the number of events.
 */
import { categoryCount, WAIT } from '../categories.ts'
import { byId, element } from './dom.ts'
import { layOut, rowAt, type Extent, type Layout, type Row } from './layout.ts'
import type { Model, Place } from './model.ts'
import { drawOverlay } from './overlay.ts'
import { AXIS, readInk, type Ink, type Plot } from './plot.ts'
import { makePalette, Raster, type Palette } from './raster.ts'
import { colour, isDark } from './theme.ts'
import type { Lane } from './unpack.ts'
import { View } from './view.ts'

export type Selection =
  { readonly kind: 'event'; readonly place: Place } | { readonly kind: 'collective'; readonly index: number }

/** The row and the events under a position on the canvas. */
export interface Hit {
  readonly row: Row
  /** The events or segments with the indices from `from` up to `to` (excluded). */
  readonly from: number
  readonly to: number
  /** The interval of time that the pixel covers. */
  readonly left: number
  readonly right: number
}

/**
 * The event or segment that the user has selected with the keyboard. If `lane` is null, the selection is a segment of
 * the rank's partition.
 */
export interface Cursor {
  readonly rank: number
  readonly lane: Lane | null
  readonly index: number
}

export class Tracks implements Plot {
  readonly model: Model
  readonly view: View
  readonly canvas = byId<HTMLCanvasElement>('tracks-canvas')
  readonly scroller = byId('tracks')
  layout: Layout
  palette: Palette
  ink: Ink
  selection: Selection | null = null
  cursor: Cursor | null = null
  /** The search matches of each rank and timeline row (lane), in order of time. */
  matches: readonly (readonly Uint32Array[])[] | null = null
  /** The interval that the user is selecting, in CSS pixels from the left edge of the plot. */
  band: readonly [number, number] | null = null
  gutter = 96
  width = 0
  height = 0
  /** Functions that are called after each frame has been drawn. */
  readonly drawn: (() => void)[] = []

  private readonly content = byId('tracks-content')
  private readonly context: CanvasRenderingContext2D
  private readonly extents: Extent[]
  /** For each rank: true if its host threads are shown. */
  private readonly open: boolean[]
  private coverage = new Float32Array(0)
  private image: ImageData | null = null
  private raster: Raster | null = null
  private requested = false

  constructor(model: Model) {
    this.model = model
    this.view = new View(model.first, model.last)
    this.view.show(...model.header.window)
    const { culprit } = model.header
    this.extents = model.ranks.map(({ rank }) =>
      model.ranks.length > 24 && rank !== culprit ? 'folded' : 'busy',
    )
    this.open = model.ranks.map(() => false)
    this.layout = layOut(model.ranks, this.extents, culprit, this.open)
    const context = this.canvas.getContext('2d', { alpha: false })
    if (context === null) throw new Error('this browser has no canvas')
    this.context = context
    this.palette = makePalette(isDark(), '#ffffff', '#ffffff')
    this.ink = readInk()
    this.recolour()
    this.relayout()
    new ResizeObserver(() => this.resize()).observe(this.scroller)
    this.scroller.addEventListener('scroll', () => this.invalidate(), { passive: true })
  }

  recolour(): void {
    this.ink = readInk()
    this.palette = makePalette(isDark(), this.ink.paper, colour('--lane'))
    this.invalidate()
  }

  /** Folds or unfolds a rank on the tracks. If the row represents hidden streams, shows those streams. */
  fold(row: Row): void {
    if (row.isHosts) {
      this.openHosts(row.rank)
      return
    }
    this.extents[row.rank] = row.quiet > 0 ? 'all' : this.extents[row.rank] === 'folded' ? 'busy' : 'folded'
    this.relayout()
  }

  /** Shows or hides the host threads of a rank. */
  openHosts(rank: number): void {
    this.open[rank] = !this.open[rank]
    if (this.extents[rank] === 'folded') this.extents[rank] = 'busy'
    this.relayout()
  }

  /** True if the host threads of a rank are shown. */
  isOpen(rank: number): boolean {
    return this.open[rank]
  }

  openAllHosts(open: boolean): void {
    this.open.fill(open)
    if (open)
      for (const [rank, extent] of this.extents.entries())
        if (extent === 'folded') this.extents[rank] = 'busy'
    this.relayout()
  }

  /** Which rows of each rank are shown, as text for the page's address. */
  get state(): string {
    const letter = (rank: number): string =>
      ({ folded: 'f', busy: 'b', all: 'a' })[this.extents[rank]] + (this.open[rank] ? 'h' : '')
    const states = this.extents.map((_, rank) => letter(rank))
    return states.every((one) => one === states[0]) ? (states[0] ?? '') : states.join(',')
  }

  set state(text: string) {
    const states = text.split(',')
    this.extents.forEach((_, rank) => {
      const [extent, host] = states[states.length === 1 ? 0 : rank] ?? ''
      const known = extent && ({ f: 'folded', b: 'busy', a: 'all' } as const)[extent as 'f']
      if (known) this.extents[rank] = known
      this.open[rank] = host === 'h'
    })
    this.relayout()
  }

  /** Switches a rank to its next display mode: folded, busy streams or all streams. */
  foldNext(rank: number): void {
    const hasQuiet = this.layout.rows.some((row) => row.rank === rank && row.quiet > 0 && !row.isHosts)
    const extent = this.extents[rank]
    this.extents[rank] = extent === 'folded' ? 'busy' : hasQuiet ? 'all' : 'folded'
    this.relayout()
  }

  foldAll(folded: boolean): void {
    this.extents.fill(folded ? 'folded' : 'busy')
    this.relayout()
  }

  /** The vertical scroll position of the plot. */
  get scroll(): number {
    return this.scroller.scrollTop
  }

  get plotWidth(): number {
    return Math.max(1, this.width - this.gutter)
  }

  /** Shows an interval of time with a margin, and scrolls to the rank if one is given. */
  goTo(from: number, to: number, rank: number | null): void {
    const room = 0.6 * Math.max(to - from, 1000)
    this.view.show(from - room, to + room)
    if (rank !== null) this.reveal(this.layout.groups[rank])
    this.invalidate()
  }

  /** Scrolls to a row or a group of rows, unless the row or group is already visible. */
  reveal({ top, height }: { readonly top: number; readonly height: number }): void {
    const visible = this.height - AXIS
    if (top < this.scroll || top + height > this.scroll + visible)
      this.scroller.scrollTop = top - Math.max(0, (visible - height) / 2)
  }

  /** The row of the keyboard cursor, or undefined if that row is folded. */
  rowOf({ rank, lane }: Omit<Cursor, 'index'>): Row | undefined {
    return this.layout.rows.find((row) => row.rank === rank && row.lane === lane && row.quiet === 0)
  }

  /** The start and end of the event or segment at the keyboard cursor. */
  spanOf({ rank, lane, index }: Cursor): [from: number, to: number] {
    const { start, end } = lane ?? this.model.ranks[rank].partition
    return [start[index], end[index]]
  }

  select(selection: Selection | null): void {
    this.selection = selection
    if (selection?.kind === 'event') {
      const { rank, lane } = selection.place
      if (!this.layout.rows.some((row) => row.lane === lane)) {
        if (lane.isHost) this.open[rank] = true
        if (!lane.isHost || this.extents[rank] === 'folded') this.extents[rank] = 'all'
        this.relayout()
      }
    }
    this.invalidate()
  }

  invalidate(): void {
    if (this.requested) return
    this.requested = true
    requestAnimationFrame(() => {
      this.requested = false
      this.draw()
    })
  }

  /** The row and the events within three pixels of a position on the canvas. */
  hit(x: number, y: number): Hit | null {
    const row = rowAt(this.layout, y - AXIS + this.scroll)
    if (row === undefined || row.quiet > 0 || x < this.gutter || y < AXIS) return null
    const segments = row.lane ?? this.model.ranks[row.rank].partition
    const at = (offset: number): number => this.view.time(x - this.gutter + offset, this.plotWidth)
    const search = row.lane ? row.lane.segments : this.model.ranks[row.rank].partition
    for (const reach of [0.5, 3]) {
      const [left, right] = [at(-reach), at(reach)]
      const [from, to] =
        search.length === segments.start.length ? range(search, left, right) : rangeOf(row, left, right)
      if (from < to) return { row, from, to, left, right }
    }
    return null
  }

  private relayout(): void {
    this.layout = layOut(this.model.ranks, this.extents, this.model.header.culprit, this.open)
    this.content.style.height = `${AXIS + this.layout.height}px`
    this.resize()
  }

  private resize(): void {
    const ratio = window.devicePixelRatio || 1
    this.width = this.scroller.clientWidth
    this.height = Math.min(this.scroller.clientHeight, AXIS + this.layout.height)
    this.gutter = this.width < 560 ? 58 : 96
    const [width, height] = [Math.round(this.width * ratio), Math.round(this.height * ratio)]
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width
      this.canvas.height = height
      this.canvas.style.width = `${this.width}px`
      this.canvas.style.height = `${this.height}px`
    }
    this.invalidate()
  }

  private draw(): void {
    const ratio = window.devicePixelRatio || 1
    const columns = Math.round(this.plotWidth * ratio)
    const lines = Math.round((this.height - AXIS) * ratio)
    if (columns < 1 || lines < 1) return
    if (this.image === null || this.image.width !== columns || this.image.height !== lines) {
      this.image = new ImageData(columns, lines)
      this.raster = new Raster(columns, lines, this.image.data.buffer)
      this.coverage = new Float32Array(columns * categoryCount)
    }
    const raster = this.raster as Raster
    raster.clear(this.palette.paper)
    const { view, scroll } = this
    for (const row of this.layout.rows) {
      const top = row.top - scroll
      if (row.quiet > 0 || top + row.height < 0 || top > this.height - AXIS) continue
      const segments = row.lane ? row.lane.segments : this.model.ranks[row.rank].partition
      segments.coverage(view.from, view.to, columns, this.coverage, true)
      const [from, to] = [Math.round(top * ratio), Math.round((top + row.height) * ratio)]
      raster.lane(from, to - from, this.coverage, this.palette, Math.round(3 * ratio))
    }
    this.context.setTransform(1, 0, 0, 1, 0, 0)
    this.context.fillStyle = this.ink.paper
    this.context.fillRect(0, 0, this.canvas.width, Math.round(AXIS * ratio))
    this.context.fillRect(0, 0, Math.round(this.gutter * ratio), this.canvas.height)
    this.context.putImageData(this.image, this.canvas.width - columns, this.canvas.height - lines)
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0)
    drawOverlay(this, this.context)
    this.canvas.dataset.from = String(view.from)
    this.canvas.dataset.to = String(view.to)
    for (const done of this.drawn) done()
  }
}

function range(
  segments: { endingAfter(time: number): number; startingFrom(time: number, low?: number): number },
  left: number,
  right: number,
): [number, number] {
  const from = segments.endingAfter(left)
  return [from, segments.startingFrom(right, from)]
}

/**
 * The indices of the events of a timeline row (lane) that overlap an interval. Events and segments have different
 * indices, since the event of a collective is split into two segments.
 */
function rangeOf({ lane }: Row, left: number, right: number): [number, number] {
  if (lane === null) return [0, 0]
  let [low, high] = [0, lane.end.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (lane.end[middle] > left) high = middle
    else low = middle + 1
  }
  let to = low
  while (to < lane.start.length && lane.start[to] < right) to++
  return [low, to]
}

/** A hatching pattern for shapes that are drawn on top of the raster. */
export function hatching(context: CanvasRenderingContext2D, palette: Palette): CanvasPattern | string {
  const tile = element('canvas', { width: '8', height: '8' })
  const paint = tile.getContext('2d')
  if (paint === null) return palette.css[WAIT]
  paint.fillStyle = palette.css[WAIT]
  paint.fillRect(0, 0, 8, 8)
  paint.strokeStyle = 'rgba(255, 255, 255, 0.55)'
  paint.lineWidth = 2
  for (const x of [-8, 0, 8]) {
    paint.beginPath()
    paint.moveTo(x, 8)
    paint.lineTo(x + 8, 0)
    paint.stroke()
  }
  return context.createPattern(tile, 'repeat') ?? palette.css[WAIT]
}
