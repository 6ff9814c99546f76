/** Formats times and counts with a resolution of 1 ns, in the same way for tables and tooltips. */
import { digits } from './format.ts'

/** Formats nanoseconds in a suitable unit with three digits. */
export function time(nanoseconds: number): string {
  const size = Math.abs(nanoseconds)
  const sign = nanoseconds < 0 ? '−' : ''
  if (size < 999.5) return `${sign}${Math.round(size)} ns`
  if (size < 999.5e3) return `${sign}${digits(size / 1e3)} µs`
  if (size < 999.5e6) return `${sign}${digits(size / 1e6)} ms`
  return `${sign}${digits(size / 1e9)} s`
}

export const timeOfUs = (microseconds: number | null): string =>
  microseconds === null ? 'unknown' : time(microseconds * 1e3)

/** Formats a number such as 12345 as 12 345, independent of the locale. */
export const count = (value: number): string => String(value).replace(/\B(?=(\d{3})+$)/g, '\u202f')
