/**
 * An independent model of the small float formats. Every bit pattern is decoded, and rounding is a search for the
 * nearest value, with ties to the even pattern. The model shares no code with the dtype arithmetic under test.
 */
import type { DType } from '../../../src/ir/dtype.ts'

interface Format {
  readonly exponentBits: number
  readonly mantissaBits: number
  /** True for a format without infinities, in which larger values become the largest one. */
  readonly saturates?: boolean
}
const formats: Readonly<Partial<Record<DType, Format>>> = {
  f16: { exponentBits: 5, mantissaBits: 10 },
  bf16: { exponentBits: 8, mantissaBits: 7 },
  f8e5m2: { exponentBits: 5, mantissaBits: 2 },
  f8e4m3: { exponentBits: 4, mantissaBits: 3, saturates: true },
}

function decode({ exponentBits, mantissaBits }: Format, pattern: number): number {
  const bias = 2 ** (exponentBits - 1) - 1
  const exponent = pattern >> mantissaBits
  const fraction = (pattern & (2 ** mantissaBits - 1)) / 2 ** mantissaBits
  return exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias)
}

const tables = new Map<DType, Float64Array>()

/** All finite numbers of a format from 0 up, plus one more value, which represents infinity when rounding. */
function numbers(dtype: DType, format: Format): Float64Array {
  const known = tables.get(dtype)
  if (known) return known
  const { exponentBits, mantissaBits, saturates } = format
  // f8e4m3 also uses the last exponent for numbers, except for one NaN.
  const finite = saturates
    ? 2 ** (exponentBits + mantissaBits) - 1
    : (2 ** exponentBits - 1) * 2 ** mantissaBits
  const made = Float64Array.from({ length: finite + 1 }, (_, pattern) => decode(format, pattern))
  tables.set(dtype, made)
  return made
}

function nearest(dtype: DType, format: Format, x: number): number {
  if (Number.isNaN(x)) return NaN
  const sign = x < 0 || Object.is(x, -0) ? -1 : 1
  const size = Math.abs(x)
  const all = numbers(dtype, format)
  const last = all.length - 1
  if (size >= all[last]) return sign * (format.saturates ? all[last - 1] : Infinity)
  let [low, high] = [0, last]
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (all[middle] <= size) low = middle
    else high = middle
  }
  const [down, up] = [size - all[low], all[high] - size]
  const chosen = down < up || (down === up && low % 2 === 0) ? low : high
  return sign * (chosen === last ? (format.saturates ? all[last - 1] : Infinity) : all[chosen])
}

const widths: Readonly<Partial<Record<DType, readonly [bits: number, signed: boolean]>>> = {
  i8: [8, true],
  u8: [8, false],
  i32: [32, true],
  u32: [32, false],
  i64: [64, true],
}
export const isInteger = (dtype: DType): boolean => widths[dtype] !== undefined

/** Wraps an integer to the width of the dtype. */
export function wrap(dtype: DType, x: bigint): number {
  const [bits, signed] = widths[dtype]!
  return Number(signed ? BigInt.asIntN(bits, x) : BigInt.asUintN(bits, x))
}

/** Converts a number from one dtype to another. */
export function convert(from: DType, to: DType, x: number): number {
  if (to === 'bool') return x !== 0 ? 1 : 0
  const format = formats[to]
  if (format) return nearest(to, format, x)
  if (to === 'f32') return Math.fround(x)
  if (isInteger(from) || from === 'bool') return wrap(to, BigInt(x))
  if (Number.isNaN(x)) return 0
  const [bits, signed] = widths[to]!
  const high = signed ? 2 ** (bits - 1) - 1 : 2 ** bits - 1
  const low = signed ? -(2 ** (bits - 1)) : 0
  return Math.max(Math.min(Math.trunc(x), high), low) + 0
}
