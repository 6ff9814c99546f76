/**
 * Paints the rows of a timeline (lanes) into pixels. Each pixel column of a timeline row (lane) is a stack of
 * categories, and each category is as high as its share of the time. A pixel column therefore represents correctly the
 * thousands of events that it covers.
 */
import { categories, categoryCount, WAIT } from '../categories.ts'

/** Converts `#rrggbb` to the pixel format of the canvas. */
export const pixel = (hex: string): number => {
  const value = parseInt(hex.slice(1), 16)
  return ((255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >>> 16)) >>> 0
}

const mixed = (a: string, b: string, share: number): string => {
  const [x, y] = [parseInt(a.slice(1), 16), parseInt(b.slice(1), 16)]
  const part = (shift: number): number =>
    Math.round(((x >>> shift) & 255) * (1 - share) + ((y >>> shift) & 255) * share)
  return `#${((part(16) << 16) | (part(8) << 8) | part(0)).toString(16).padStart(6, '0')}`
}

export interface Palette {
  readonly paper: number
  /** The background colour of a timeline row (lane). */
  readonly lane: number
  /**
   * The two colours of each category. The second colour is the colour of the hatching, which equals the first colour if
   * the category has no hatching.
   */
  readonly first: Uint32Array
  readonly second: Uint32Array
  readonly css: readonly string[]
}

export function makePalette(dark: boolean, paper: string, lane: string): Palette {
  const css = categories.map((category) => (dark ? category.dark : category.light))
  const hatch = css.map((colour, code) =>
    code === WAIT ? mixed(colour, dark ? '#000000' : '#ffffff', 0.36) : colour,
  )
  return {
    paper: pixel(paper),
    lane: pixel(lane),
    first: Uint32Array.from(css, pixel),
    second: Uint32Array.from(hatch, pixel),
    css,
  }
}

export class Raster {
  readonly width: number
  readonly height: number
  readonly pixels: Uint32Array

  constructor(width: number, height: number, buffer: ArrayBufferLike) {
    this.width = width
    this.height = height
    this.pixels = new Uint32Array(buffer)
  }

  clear(colour: number): void {
    this.pixels.fill(colour)
  }

  /**
   * Paints one timeline row (lane) from `coverage`, clipped to the edges of the raster. `hatch` is the width of a
   * hatching stripe.
   */
  lane(top: number, height: number, coverage: Float32Array, palette: Palette, hatch: number): void {
    const from = Math.max(0, top)
    const to = Math.min(this.height, top + height)
    if (from >= to) return
    for (let y = from; y < to; y++) this.pixels.fill(palette.lane, y * this.width, (y + 1) * this.width)
    const bottom = top + height
    for (let x = 0; x < this.width; x++) {
      let covered = 0
      let y = bottom
      for (let category = 0; category < categoryCount; category++) {
        const share = coverage[x * categoryCount + category]
        if (share <= 0) continue
        covered += share
        // In a pixel column, even the category with the shortest time stays visible.
        const least = y === bottom ? Math.ceil(height / 5) : 1
        const next = Math.max(top, Math.min(y - least, bottom - Math.round(Math.min(1, covered) * height)))
        this.column(x, next, y, from, to, palette, category, hatch)
        y = next
      }
    }
  }

  private column(
    x: number,
    top: number,
    bottom: number,
    from: number,
    to: number,
    { first, second }: Palette,
    category: number,
    hatch: number,
  ): void {
    const stop = Math.min(bottom, to)
    if (category !== WAIT) {
      const colour = first[category]
      for (let y = Math.max(top, from), at = y * this.width + x; y < stop; y++, at += this.width)
        this.pixels[at] = colour
      return
    }
    for (let y = Math.max(top, from), at = y * this.width + x; y < stop; y++, at += this.width)
      this.pixels[at] = (Math.floor((x + y) / hatch) & 1) === 0 ? first[WAIT] : second[WAIT]
  }
}
