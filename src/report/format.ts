/** Figures as a person reads them: three significant digits, a unit that fits; and columns of text. */
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

/** No longer than `width`, cut in the middle, where names differ least. */
export function shorten(text: string, width: number): string {
  if (text.length <= width) return text
  const head = Math.ceil((width - 1) * 0.65)
  return `${text.slice(0, head)}…${text.slice(text.length - (width - 1 - head))}`
}

/** Parts of a whole as tenths of a percent that add up to 100.0: what rounding leaves goes to the largest remainders. */
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

/** Rows as aligned columns; those in `text` (the first) are text, the others figures. */
export function columns(rows: readonly (readonly string[])[], text: readonly number[] = [0]): string[] {
  const widths = rows[0].map((_, i) => Math.max(...rows.map((row) => row[i].length)))
  return rows.map((row) =>
    `  ${row.map((cell, i) => (text.includes(i) ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join('  ')}`.trimEnd(),
  )
}

/** Lines of at most `width`, the first indented by two, the others by four; only a word longer than a line is cut. */
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
