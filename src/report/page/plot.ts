/**
 * Defines a canvas with a time axis from left to right, and the functions that draw the axis and a selected interval.
 */
import { time } from '../units.ts'
import { colour } from './theme.ts'
import { markDistance, type View } from './view.ts'

export const FONT = '11px ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace'
export const LABELS = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'

/** The height of the axis above a plot. */
export const AXIS = 26

/** The geometry of a plot, in CSS pixels. */
export interface Plot {
  readonly canvas: HTMLCanvasElement
  readonly view: View
  /** The left edge of the time axis. */
  readonly gutter: number
  /** The width of the time axis. */
  readonly plotWidth: number
  readonly width: number
  readonly height: number
  readonly ink: Ink
  /** The interval that the user is selecting, relative to the left edge of the time axis, or null if there is none. */
  band: readonly [number, number] | null
  /** Redraws the plot when the browser draws its next frame. */
  invalidate(): void
}

export interface Ink {
  readonly text: string
  readonly faint: string
  readonly line: string
  readonly paper: string
  readonly accent: string
}

export const readInk = (): Ink => ({
  text: colour('--ink'),
  faint: colour('--ink-faint'),
  line: colour('--line'),
  paper: colour('--paper'),
  accent: colour('--accent'),
})

/** The positions and labels of the time marks. */
function marksOf({ view, gutter, plotWidth }: Plot): { readonly x: number; readonly label: string }[] {
  const distance = markDistance(view.span, plotWidth, plotWidth < 480 ? 80 : 120)
  const [unit, size] =
    distance >= 1e8
      ? (['s', 1e9] as const)
      : distance >= 1e5
        ? (['ms', 1e6] as const)
        : distance >= 100
          ? (['µs', 1e3] as const)
          : (['ns', 1] as const)
  const digits = Math.max(0, Math.ceil(-Math.log10(distance / size) - 1e-9))
  const marks: { x: number; label: string }[] = []
  for (let mark = Math.ceil(view.from / distance) * distance; mark < view.to; mark += distance)
    marks.push({
      x: Math.round(gutter + view.x(mark, plotWidth)),
      label: `${(mark / size).toFixed(digits)} ${unit}`,
    })
  return marks
}

/** Draws faint lines at the time marks, from `top` down. */
export function drawGrid(plot: Plot, context: CanvasRenderingContext2D, top: number): void {
  context.fillStyle = plot.ink.line
  context.globalAlpha = 0.35
  for (const { x } of marksOf(plot)) context.fillRect(x, top, 1, plot.height - top)
  context.globalAlpha = 1
}

/** Draws the time marks above the plot. */
export function drawAxis(plot: Plot, context: CanvasRenderingContext2D): void {
  const { ink, width } = plot
  context.font = LABELS
  context.textBaseline = 'middle'
  context.textAlign = 'left'
  for (const { x, label } of marksOf(plot)) {
    context.fillStyle = ink.line
    context.fillRect(x, AXIS - 6, 1, 6)
    context.fillStyle = ink.faint
    if (x + 4 + 6.5 * label.length < width) context.fillText(label, x + 4, AXIS / 2)
  }
  context.fillStyle = ink.line
  context.fillRect(0, AXIS - 1, width, 1)
}

/** Draws the interval that the user is selecting and its length, from `top` down. */
export function drawBand(plot: Plot, context: CanvasRenderingContext2D, top: number): void {
  if (plot.band === null) return
  const { view, plotWidth, gutter, ink, height } = plot
  const [a, b] = [Math.min(...plot.band), Math.max(...plot.band)]
  context.fillStyle = ink.accent
  context.globalAlpha = 0.2
  context.fillRect(gutter + a, top, b - a, height - top)
  context.globalAlpha = 1
  context.font = `600 ${LABELS}`
  context.textBaseline = 'middle'
  context.textAlign = 'left'
  const label = time(((b - a) / plotWidth) * view.span)
  context.fillRect(gutter + a, top, context.measureText(label).width + 12, 20)
  context.fillStyle = ink.paper
  context.fillText(label, gutter + a + 6, top + 10.5)
}

/** Returns black or white, whichever is easier to read on the colour. */
export function inkOn(hex: string): string {
  const value = parseInt(hex.slice(1), 16)
  const luminance = 0.299 * (value >>> 16) + 0.587 * ((value >>> 8) & 255) + 0.114 * (value & 255)
  return luminance > 130 ? '#000000' : '#ffffff'
}
