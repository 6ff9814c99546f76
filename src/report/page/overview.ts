/**
 * A strip that shows the whole time of all ranks, with a marker for the interval that the tracks show. Dragging the
 * marker moves the interval that the tracks show.
 */
import { categoryCount } from '../categories.ts'
import { byId } from './dom.ts'
import { Raster } from './raster.ts'
import type { Tracks } from './tracks.ts'

const HEIGHT = 30

export class Overview {
  private readonly canvas = byId<HTMLCanvasElement>('overview')
  private readonly tracks: Tracks
  private image: ImageData | null = null

  constructor(tracks: Tracks) {
    this.tracks = tracks
    tracks.drawn.push(() => this.draw())
    new ResizeObserver(() => {
      this.image = null
      tracks.invalidate()
    }).observe(this.canvas)
    const move = (event: PointerEvent): void => {
      const { view, gutter } = tracks
      const box = this.canvas.getBoundingClientRect()
      const share = (event.clientX - box.left - gutter) / Math.max(1, box.width - gutter)
      const middle = view.first + share * (view.last - view.first)
      view.show(middle - view.span / 2, middle + view.span / 2)
      tracks.invalidate()
    }
    this.canvas.addEventListener('pointerdown', (event) => {
      this.canvas.setPointerCapture(event.pointerId)
      move(event)
    })
    this.canvas.addEventListener('pointermove', (event) => {
      if (event.buttons > 0) move(event)
    })
  }

  /** Must be called after a change of the colours, so that the strip is painted again. */
  recolour(): void {
    this.image = null
  }

  private draw(): void {
    const ratio = window.devicePixelRatio || 1
    const { width } = this.canvas.getBoundingClientRect()
    const { gutter, view, ink } = this.tracks
    const columns = Math.round((width - gutter) * ratio)
    const context = this.canvas.getContext('2d', { alpha: false })
    if (columns < 1 || context === null) return
    if (this.image === null || this.image.width !== columns) {
      this.canvas.width = Math.round(width * ratio)
      this.canvas.height = Math.round(HEIGHT * ratio)
      this.image = this.paint(columns, this.canvas.height)
    }
    context.setTransform(1, 0, 0, 1, 0, 0)
    context.fillStyle = ink.paper
    context.fillRect(0, 0, this.canvas.width, this.canvas.height)
    context.putImageData(this.image, this.canvas.width - columns, 0)
    context.setTransform(ratio, 0, 0, ratio, 0, 0)
    const at = (time: number): number =>
      gutter + ((time - view.first) / (view.last - view.first)) * (width - gutter)
    const [left, right] = [at(view.from), Math.max(at(view.from) + 3, at(view.to))]
    context.fillStyle = ink.paper
    context.globalAlpha = 0.6
    context.fillRect(gutter, 0, left - gutter, HEIGHT)
    context.fillRect(right, 0, width - right, HEIGHT)
    context.globalAlpha = 1
    context.strokeStyle = ink.text
    context.lineWidth = 1.5
    context.strokeRect(left + 0.75, 0.75, right - left - 1.5, HEIGHT - 1.5)
    context.fillStyle = ink.faint
    context.font = '11px system-ui, sans-serif'
    context.textBaseline = 'middle'
    context.fillText(gutter < 80 ? 'all' : 'all ranks', 6, HEIGHT / 2)
  }

  /** Paints the share of each category of time, as the mean over all ranks. */
  private paint(columns: number, height: number): ImageData {
    const { model, view, palette } = this.tracks
    const one = new Float32Array(columns * categoryCount)
    const mean = new Float32Array(columns * categoryCount)
    for (const { partition } of model.ranks) {
      partition.coverage(view.first, view.last, columns, one)
      for (let i = 0; i < mean.length; i++) mean[i] += one[i] / model.ranks.length
    }
    const image = new ImageData(columns, height)
    const raster = new Raster(columns, height, image.data.buffer)
    raster.lane(0, height, mean, palette, Math.max(1, Math.round(3 * (window.devicePixelRatio || 1))))
    return image
  }
}
