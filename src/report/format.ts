/** Formats numbers with three significant digits and a suitable unit, and aligns text in columns. */
import { digits } from '../timeline/figures.ts'

export { digits, duration, percent, plural } from '../timeline/figures.ts'

export function bytes(count: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let unit = 0
  while (count >= 1000 && unit < units.length - 1) {
    count /= 1000
    unit++
  }
  return `${unit === 0 ? count.toFixed(0) : digits(count)} ${units[unit]}`
}

/** Shortens a text to `width` characters by cutting its middle, since names differ least in the middle. */
export function shorten(text: string, width: number): string {
  if (text.length <= width) return text
  const head = Math.ceil((width - 1) * 0.65)
  return `${text.slice(0, head)}…${text.slice(text.length - (width - 1 - head))}`
}

/**
 * Formats shares of a total as percentages with one decimal, such that the percentages add up to 100.0. The rounding
 * difference is added to the shares with the largest remainders.
 */
export function shares(parts: readonly number[], whole: number): string[] {
  if (!(whole > 0)) return parts.map(() => '–')
  const exact = parts.map((part) => (1000 * part) / whole)
  const tenths = exact.map(Math.floor)
  const left =
    Math.round(exact.reduce((sum, share) => sum + share, 0)) - tenths.reduce((sum, n) => sum + n, 0)
  const order = exact.map((_, i) => i).sort((a, b) => exact[b] - tenths[b] - (exact[a] - tenths[a]) || a - b)
  for (const i of order.slice(0, Math.max(0, left))) tenths[i]++
  return tenths.map((share) => `${(share / 10).toFixed(1)} %`)
}

/**
 * Aligns the cells of rows in columns. The columns listed in `text` (by default the first) are left-aligned text, and
 * all other columns are right-aligned numbers.
 */
export function columns(rows: readonly (readonly string[])[], text: readonly number[] = [0]): string[] {
  const widths = rows[0].map((_, i) => Math.max(...rows.map((row) => row[i].length)))
  return rows.map((row) =>
    `  ${row.map((cell, i) => (text.includes(i) ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join('  ')}`.trimEnd(),
  )
}

/**
 * Wraps a text into lines of at most `width` characters. The first line is indented by two characters and the others by
 * four. A word is shortened only if it is longer than a line.
 */
export function wrap(text: string, width = 100): string[] {
  const lines: string[] = []
  let line = ' '
  for (const word of text.split(' ').map((one) => shorten(one, width - 4))) {
    if (line.length + 1 + word.length > width && line.trim() !== '') {
      lines.push(line)
      line = '   '
    }
    line += ` ${word}`
  }
  return [...lines, line]
}
