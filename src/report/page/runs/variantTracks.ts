/**
 * Draws one execution of a variant on a canvas. Each worker of each rank has one timeline row (lane), and the colours
 * of each pixel show the share of each category of time. The names of wide spans, the end of the execution, and the end
 * of `bsp` are drawn on top.
 */
import { runPartNames, type RunPart } from '../../../runs/results.ts'
import { categoryCount, WAIT } from '../../categories.ts'
import { categoryCodes } from '../../runs/parts.ts'
import type { PackedPicture, PackedTrack } from '../../runs/pictures.ts'
import { time } from '../../units.ts'
import { drawBand, drawGrid, FONT, inkOn, LABELS, type Ink, type Plot } from '../plot.ts'
import { Raster } from '../raster.ts'
import { Segments } from '../segments.ts'
import type { View } from '../view.ts'
import { sizeCanvas, type Frame } from './timelines.ts'

/** The height of lanes and the distance between them, for up to a given number of lanes. */
const heights = [
  { rows: 16, lane: 24, apart: 2 },
  { rows: 64, lane: 12, apart: 1 },
  { rows: 256, lane: 6, apart: 0 },
  { rows: Infinity, lane: 3, apart: 0 },
] as const
/** The minimum height of a lane that shows names, in CSS pixels. */
const NAMED = 12
const BETWEEN_RANKS = 8
const EDGE = 4
/** The minimum number of characters that a shortened name must have to be readable. */
const LEGIBLE = 9
/** The width of one character in `FONT`, in CSS pixels. */
const CHARACTER = 6.62

export interface Row {
  readonly rank: number
  readonly track: PackedTrack
  readonly segments: Segments
  readonly top: number
  /** True for the first timeline row (lane) of each rank. */
  readonly first: boolean
  /** True if the timeline row (lane) is the only row of its rank. */
  readonly alone: boolean
}

/** A span, identified by its row and its index in that row. */
export interface Place {
  readonly row: number
  readonly span: number
}

export interface SpanFacts {
  readonly from: number
  readonly to: number
  readonly part: RunPart
  readonly label: string
}

export class VariantTracks implements Plot {
  readonly canvas: HTMLCanvasElement
  readonly variant: string
  readonly rows: readonly Row[]
  readonly height: number
  band: readonly [number, number] | null = null
  /** The span that the user has selected with the keyboard. */
  selected: Place | null = null

  private readonly frame: Frame
  private readonly lane: number
  private readonly apart: number
  private readonly wall: number
  private image: ImageData | null = null

  constructor(frame: Frame, canvas: HTMLCanvasElement, { variant, wall, ranks }: PackedPicture) {
    this.frame = frame
    this.canvas = canvas
    this.variant = variant
    this.wall = wall
    const lanes = ranks.reduce((sum, { tracks }) => sum + tracks.length, 0)
    const { lane, apart } = heights.find(({ rows }) => lanes <= rows) ?? heights[3]
    this.lane = lane
    this.apart = apart
    let y = EDGE
    this.rows = ranks.flatMap(({ rank, tracks }) => {
      const rows = tracks.map((track, i) => ({
        rank,
        track,
        segments: segmentsOf(track),
        top: y + i * (lane + apart),
        first: i === 0,
        alone: tracks.length === 1,
      }))
      y += rows.length * (lane + apart) - apart + BETWEEN_RANKS
      return rows
    })
    this.height = y - BETWEEN_RANKS + EDGE
  }

  get view(): View {
    return this.frame.view
  }
  get width(): number {
    return this.frame.width
  }
  get gutter(): number {
    return this.frame.gutter
  }
  get plotWidth(): number {
    return Math.max(1, this.width - this.gutter)
  }
  get ink(): Ink {
    return this.frame.ink
  }
  invalidate(): void {
    this.frame.invalidate()
  }

  factsOf({ row, span }: Place): SpanFacts {
    const { from, to, part, label } = this.rows[row].track
    return {
      from: from[span],
      to: to[span],
      part: runPartNames[part[span]],
      label: this.frame.labels[label[span]],
    }
  }

  /**
   * The time span that is within three pixels of a position on the canvas. If several spans are within three pixels,
   * returns the longest span and the number of spans.
   */
  hit(x: number, y: number): (Place & { readonly spans: number }) | null {
    const row = this.rows.findIndex(({ top }) => y >= top && y < top + this.lane + this.apart)
    if (row < 0 || x < this.gutter) return null
    const { segments } = this.rows[row]
    const at = (offset: number): number => this.view.time(x - this.gutter + offset, this.plotWidth)
    for (const reach of [0.5, 3]) {
      const from = segments.endingAfter(at(-reach))
      const to = segments.startingFrom(at(reach), from)
      if (from === to) continue
      let span = from
      for (let i = from; i < to; i++)
        if (segments.end[i] - segments.start[i] > segments.end[span] - segments.start[span]) span = i
      return { row, span, spans: to - from }
    }
    return null
  }

  /** The point on the canvas that is the centre of a span's visible part. */
  middleOf(place: Place): { x: number; y: number } {
    const { from, to } = this.factsOf(place)
    const [left, right] = [Math.max(from, this.view.from), Math.min(to, this.view.to)]
    return {
      x: this.gutter + this.view.x((left + right) / 2, this.plotWidth),
      y: this.rows[place.row].top + this.lane / 2,
    }
  }

  draw(): void {
    const context = sizeCanvas(this.canvas, this.width, this.height)
    this.paint(context)
    this.drawEnd(context)
    drawGrid(this, context, 0)
    if (this.lane >= NAMED) for (const row of this.rows) this.drawNames(context, row)
    this.drawSelected(context)
    this.drawLabels(context)
    drawBand(this, context, 0)
    this.canvas.dataset.from = String(this.view.from)
    this.canvas.dataset.to = String(this.view.to)
  }

  private paint(context: CanvasRenderingContext2D): void {
    const { view, frame, width, gutter, plotWidth, lane } = this
    const ratio = window.devicePixelRatio || 1
    const columns = Math.round(plotWidth * ratio)
    const lines = this.canvas.height
    if (this.image === null || this.image.width !== columns || this.image.height !== lines)
      this.image = new ImageData(columns, lines)
    const raster = new Raster(columns, lines, this.image.data.buffer)
    const coverage = new Float32Array(columns * categoryCount)
    raster.clear(frame.palette.paper)
    for (const { segments, top } of this.rows) {
      segments.coverage(view.from, view.to, columns, coverage, true)
      const from = Math.round(top * ratio)
      raster.lane(
        from,
        Math.round((top + lane) * ratio) - from,
        coverage,
        frame.palette,
        Math.round(3 * ratio),
      )
    }
    context.fillStyle = this.ink.paper
    context.fillRect(0, 0, width, this.height)
    context.putImageData(this.image, Math.round(gutter * ratio), 0)
  }

  /** Draws the end of the execution, and its distance from the end of `bsp`. */
  private drawEnd(context: CanvasRenderingContext2D): void {
    const { view, gutter, plotWidth, width, height, ink, wall } = this
    const { bulkEnd } = this.frame
    const x = (at: number): number => Math.max(gutter, Math.round(gutter + view.x(at, plotWidth)))
    const end = x(wall)
    context.fillStyle = ink.paper
    context.fillRect(end, 0, width - end, height)
    const isBulk = bulkEnd === wall
    if (bulkEnd !== null && !isBulk && bulkEnd > view.from) {
      context.strokeStyle = ink.faint
      context.setLineDash([4, 3])
      context.beginPath()
      context.moveTo(x(bulkEnd) + 0.5, 0)
      context.lineTo(x(bulkEnd) + 0.5, height)
      context.stroke()
      context.setLineDash([])
    }
    if (wall < view.from) return
    context.fillStyle = ink.text
    context.fillRect(end - 1, 0, 2, height)
    const difference = bulkEnd === null || isBulk ? 0 : bulkEnd - wall
    const long =
      difference === 0 ? time(wall) : `${time(Math.abs(difference))} ${difference > 0 ? 'sooner' : 'later'}`
    context.font = `600 ${LABELS}`
    context.textBaseline = 'middle'
    context.textAlign = 'left'
    const room = (bulkEnd !== null && difference > 0 ? Math.min(x(bulkEnd), width) : width) - end - 12
    if (context.measureText(long).width <= room) context.fillText(long, end + 7, height / 2)
  }

  /** Draws the edges and names of spans that are wide enough. */
  private drawNames(context: CanvasRenderingContext2D, { segments, track, top }: Row): void {
    const { view, plotWidth, gutter, frame, ink, lane } = this
    const from = segments.endingAfter(view.from)
    const to = segments.startingFrom(view.to, from)
    if ((to - from) * 4 > plotWidth) return
    context.font = FONT
    context.textBaseline = 'middle'
    context.textAlign = 'left'
    for (let span = from; span < to; span++) {
      const left = gutter + view.x(segments.start[span], plotWidth)
      const right = gutter + view.x(segments.end[span], plotWidth)
      if (right - left < 4) continue
      context.fillStyle = ink.paper
      if (left >= gutter) context.fillRect(Math.round(left), top, 1, lane)
      const [a, b] = [Math.max(left, gutter), Math.min(right, gutter + plotWidth)]
      const room = Math.floor((b - a - 8) / CHARACTER)
      const part = runPartNames[track.part[span]]
      const label = frame.labels[track.label[span]]
      const name = part === 'useful' || label.startsWith(part) ? label : `${part}: ${label}`
      if (room < Math.min(name.length, LEGIBLE)) continue
      const text = name.length > room ? `${name.slice(0, room - 1)}…` : name
      const colour = frame.palette.css[segments.category[span]]
      if (segments.category[span] === WAIT) {
        // No text is drawn on hatching, since it is hard to read.
        context.fillStyle = colour
        context.fillRect(a + 3, top + 4, text.length * CHARACTER + 3, lane - 8)
      }
      context.fillStyle = inkOn(colour)
      context.fillText(text, a + 5, top + lane / 2 + 0.5)
    }
  }

  private drawSelected(context: CanvasRenderingContext2D): void {
    if (this.selected === null) return
    const { from, to } = this.factsOf(this.selected)
    const [left, right] = [from, to].map((at) => this.gutter + this.view.x(at, this.plotWidth))
    context.strokeStyle = this.ink.text
    context.lineWidth = 3
    context.strokeRect(left, this.rows[this.selected.row].top, Math.max(3, right - left), this.lane)
    context.lineWidth = 1
  }

  private drawLabels(context: CanvasRenderingContext2D): void {
    const { gutter, ink, height, lane } = this
    const narrow = gutter < 100
    context.fillStyle = ink.paper
    context.fillRect(0, 0, gutter, height)
    context.textBaseline = 'middle'
    for (const { rank, track, top, first, alone } of this.rows) {
      const y = top + Math.max(lane, NAMED) / 2 + 0.5
      context.fillStyle = ink.text
      context.textAlign = 'left'
      context.font = `600 ${LABELS}`
      if (first && (alone || lane < NAMED || !narrow)) context.fillText(`rank ${rank}`, 2, y)
      if (alone || lane < NAMED) continue
      context.fillStyle = ink.faint
      context.textAlign = 'right'
      context.font = LABELS.replace('12px', '11px')
      context.fillText(
        narrow ? `${rank} ${track.name}` : track.name,
        gutter - 8,
        y,
        gutter - (narrow ? 10 : 56),
      )
    }
  }
}

const segmentsOf = ({ from, to, part }: PackedTrack): Segments =>
  new Segments(
    Float64Array.from(from),
    Float64Array.from(to),
    Uint8Array.from(part, (place) => categoryCodes[place]),
  )
