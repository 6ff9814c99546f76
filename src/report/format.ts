/** Figures as a person reads them: three significant digits, a unit that fits; and columns of text. */

export function duration(microseconds: number): string {
  const size = Math.abs(microseconds)
  if (size >= 1e6) return `${digits(microseconds / 1e6)} s`
  if (size >= 1e3) return `${digits(microseconds / 1e3)} ms`
  return `${digits(microseconds)} us`
}

export function bytes(count: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let unit = 0
  while (count >= 1000 && unit < units.length - 1) {
    count /= 1000
    unit++
  }
  return `${unit === 0 ? count.toFixed(0) : digits(count)} ${units[unit]}`
}

export const percent = (part: number, whole: number): string =>
  whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : '–'

export function digits(value: number): string {
  const size = Math.abs(value)
  if (size === 0) return '0'
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2)
}

export const plural = (count: number, thing: string): string => `${count} ${thing}${count === 1 ? '' : 's'}`

/** No longer than `width`, cut in the middle, where names differ least. */
export function shorten(text: string, width: number): string {
  if (text.length <= width) return text
  const head = Math.ceil((width - 1) * 0.65)
  return `${text.slice(0, head)}…${text.slice(text.length - (width - 1 - head))}`
}

/** Rows as aligned columns; the first is text, the others are figures. */
export function columns(rows: readonly (readonly string[])[], indent = '  '): string[] {
  const widths = rows[0].map((_, i) => Math.max(...rows.map((row) => row[i].length)))
  return rows.map((row) =>
    (
      indent + row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join('  ')
    ).trimEnd(),
  )
}
