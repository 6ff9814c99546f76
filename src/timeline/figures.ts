/** Formats numbers for readers, with three significant digits and a suitable unit. */

export function duration(microseconds: number): string {
  const size = Math.abs(microseconds)
  if (size >= 1e6) return `${digits(microseconds / 1e6)} s`
  if (size >= 1e3) return `${digits(microseconds / 1e3)} ms`
  return `${digits(microseconds)} µs`
}

export const percent = (part: number, whole: number): string =>
  whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : '–'

export function digits(value: number): string {
  const size = Math.abs(value)
  if (size === 0) return '0'
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2)
}

export const plural = (count: number, thing: string): string => `${count} ${thing}${count === 1 ? '' : 's'}`
