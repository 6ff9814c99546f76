/**
 * Shows the timelines of the variants of one benchmark point. The timelines share one view, so that all timelines move
 * and zoom together, and one time axis above them.
 */
import type { PackedPoint } from '../../runs/pictures.ts'
import type { Tooltip } from '../dom.ts'
import { AXIS, drawAxis, readInk, type Ink, type Plot } from '../plot.ts'
import { makePalette, type Palette } from '../raster.ts'
import { colour, isDark } from '../theme.ts'
import { View } from '../view.ts'
import { listenToVariant } from './input.ts'
import { VariantTracks } from './variantTracks.ts'

/** The state that all canvases of one benchmark point share. */
export interface Frame {
  readonly view: View
  readonly labels: readonly string[]
  /** The end of the execution of `bsp`, or null if `bsp` was not measured. */
  readonly bulkEnd: number | null
  readonly ink: Ink
  readonly palette: Palette
  readonly width: number
  readonly gutter: number
  invalidate(): void
}

export class Timelines implements Frame {
  readonly view: View
  readonly labels: readonly string[]
  readonly bulkEnd: number | null
  ink: Ink = readInk()
  palette: Palette = makePalette(isDark(), colour('--paper'), colour('--lane'))
  width = 0
  gutter = 0

  private readonly article: HTMLElement
  private readonly axis: HTMLCanvasElement
  private readonly variants: readonly VariantTracks[]
  private requested = false

  constructor(article: HTMLElement, { labels, variants }: PackedPoint, tooltip: Tooltip) {
    this.article = article
    this.labels = labels
    this.view = new View(0, Math.max(1, ...variants.map(({ wall }) => wall)))
    this.bulkEnd = variants.find(({ variant }) => variant === 'bsp')?.wall ?? null
    this.axis = canvasIn(article, '.axis')
    this.variants = variants.map(
      (picture, i) => new VariantTracks(this, canvasIn(article, '.variant canvas', i), picture),
    )
    for (const variant of this.variants) listenToVariant(variant, tooltip)
    new ResizeObserver(() => this.invalidate()).observe(article)
  }

  recolour(): void {
    this.ink = readInk()
    this.palette = makePalette(isDark(), this.ink.paper, colour('--lane'))
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

  private draw(): void {
    this.width = this.article.clientWidth
    if (this.width < 1) return
    this.gutter = this.width < 560 ? 70 : 116
    const context = sizeCanvas(this.axis, this.width, AXIS)
    context.fillStyle = this.ink.paper
    context.fillRect(0, 0, this.width, AXIS)
    const { view, gutter, width, ink, axis: canvas } = this
    const plot: Plot = {
      ...{ canvas, view, gutter, width, ink },
      plotWidth: Math.max(1, width - gutter),
      height: AXIS,
      band: null,
      invalidate: () => this.invalidate(),
    }
    drawAxis(plot, context)
    for (const variant of this.variants) variant.draw()
  }
}

function canvasIn(article: HTMLElement, selector: string, place = 0): HTMLCanvasElement {
  return article.querySelectorAll<HTMLCanvasElement>(selector)[place]
}

/** Sets the size of a canvas in CSS pixels, which are also its drawing units. */
export function sizeCanvas(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1
  const [columns, lines] = [Math.round(width * ratio), Math.round(height * ratio)]
  if (canvas.width !== columns || canvas.height !== lines) {
    canvas.width = columns
    canvas.height = lines
    canvas.style.width = `${width}px`
    canvas.style.height = `${height}px`
  }
  const context = canvas.getContext('2d', { alpha: false })
  if (context === null) throw new Error('this browser has no canvas')
  context.setTransform(ratio, 0, 0, ratio, 0, 0)
  return context
}
