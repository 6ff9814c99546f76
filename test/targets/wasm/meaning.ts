/** What operations of Code mean, said once more in plain JavaScript: what the tests expect. */
import type { BinaryName, CompareName, UnaryName } from '../../../src/targets/cpu/code.ts'

const single = Math.fround
const word = (value: bigint): bigint => BigInt.asIntN(64, value)
const unsigned = (value: bigint): bigint => BigInt.asUintN(64, value)

export const integer: Record<BinaryName, (a: number, b: number) => number> = {
  add: (a, b) => (a + b) | 0,
  sub: (a, b) => (a - b) | 0,
  mul: (a, b) => Number(BigInt.asIntN(32, BigInt(a) * BigInt(b))),
  div: (a, b) => (b === 0 ? 0 : (a / b) | 0),
  min: (a, b) => (a < b ? a : b),
  max: (a, b) => (a < b ? b : a),
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
  shl: (a, b) => a << b,
  shr: (a, b) => a >> b,
  shrU: (a, b) => (a >>> b) | 0,
  divU: (a, b) => (b === 0 ? 0 : Math.floor((a >>> 0) / (b >>> 0)) | 0),
  rem: (a, b) => (b === 0 ? 0 : (a % b) | 0),
  remU: (a, b) => (b === 0 ? 0 : ((a >>> 0) % (b >>> 0)) | 0),
  minU: (a, b) => (a >>> 0 < b >>> 0 ? a : b),
  maxU: (a, b) => (a >>> 0 < b >>> 0 ? b : a),
}

export const long: Record<BinaryName, (a: bigint, b: bigint) => bigint> = {
  add: (a, b) => word(a + b),
  sub: (a, b) => word(a - b),
  mul: (a, b) => word(a * b),
  div: (a, b) => (b === 0n ? 0n : word(a / b)),
  min: (a, b) => (a < b ? a : b),
  max: (a, b) => (a < b ? b : a),
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
  shl: (a, b) => word(a << b),
  shr: (a, b) => a >> b,
  shrU: (a, b) => word(unsigned(a) >> b),
  divU: (a, b) => (b === 0n ? 0n : word(unsigned(a) / unsigned(b))),
  rem: (a, b) => (b === 0n ? 0n : a % b),
  remU: (a, b) => (b === 0n ? 0n : word(unsigned(a) % unsigned(b))),
  minU: (a, b) => (unsigned(a) < unsigned(b) ? a : b),
  maxU: (a, b) => (unsigned(a) < unsigned(b) ? b : a),
}

/** A NaN loses; Math.min and Math.max put -0 below 0. */
const winner = (pick: (a: number, b: number) => number) => (a: number, b: number) =>
  Number.isNaN(a) ? b : Number.isNaN(b) ? a : pick(a, b)

/** In double; of f32 operands, one rounding to single afterwards is exact for all of these. */
export const float = {
  add: (a: number, b: number) => a + b,
  sub: (a: number, b: number) => a - b,
  mul: (a: number, b: number) => a * b,
  div: (a: number, b: number) => a / b,
  min: winner(Math.min),
  max: winner(Math.max),
} satisfies Partial<Record<BinaryName, unknown>>

function nearest(value: number): number {
  const below = Math.floor(value)
  const part = value - below
  const rounded = part < 0.5 ? below : part > 0.5 || below % 2 !== 0 ? below + 1 : below
  return rounded === 0 && (value < 0 || Object.is(value, -0)) ? -0 : rounded
}

export const floatUnary = {
  neg: (a: number) => -a,
  abs: Math.abs,
  sqrt: Math.sqrt,
  floor: Math.floor,
  nearest,
} satisfies Partial<Record<UnaryName, unknown>>

const compares = <T extends number | bigint>(
  cast: (value: T) => T,
): Record<CompareName, (a: T, b: T) => boolean> => ({
  eq: (a, b) => a === b,
  ne: (a, b) => a !== b,
  lt: (a, b) => a < b,
  le: (a, b) => a <= b,
  gt: (a, b) => a > b,
  ge: (a, b) => a >= b,
  ltU: (a, b) => cast(a) < cast(b),
  leU: (a, b) => cast(a) <= cast(b),
  gtU: (a, b) => cast(a) > cast(b),
  geU: (a, b) => cast(a) >= cast(b),
})
export const compareNumbers = compares<number>((value) => value >>> 0)
export const compareLongs = compares<bigint>(unsigned)

/** Nearest single of a whole number of any size, ties to even, in one rounding. */
export function singleOf(value: bigint): number {
  const size = value < 0n ? -value : value
  const drop = size.toString(2).length - 24
  if (drop <= 0) return Number(value)
  const [step, rest] = [1n << BigInt(drop), size % (1n << BigInt(drop))]
  const down = size - rest
  const up = rest * 2n > step || (rest * 2n === step && (down / step) % 2n === 1n)
  return (value < 0n ? -1 : 1) * Number(up ? down + step : down)
}

/** Towards zero, within the limits; NaN is 0. */
export function truncated(value: number, bits: 32 | 64, isUnsigned: boolean): bigint {
  if (Number.isNaN(value)) return 0n
  const low = isUnsigned ? 0n : -(1n << BigInt(bits - 1))
  const high = isUnsigned ? (1n << BigInt(bits)) - 1n : (1n << BigInt(bits - 1)) - 1n
  const whole = Number.isFinite(value) ? BigInt(Math.trunc(value)) : value > 0 ? high : low
  const clamped = whole < low ? low : whole > high ? high : whole
  return BigInt.asIntN(bits, clamped)
}

export { single }
