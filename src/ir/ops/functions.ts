/**
 * Defines the ops for elementary functions of f32: exponentials, logarithms, sines, roots and rounding to integers.
 * NaN, infinities and signed zeros are handled as in IEEE 754 and C, on every target.
 */
import { binary, float, floats, unary, type Elementwise } from './elementwise.ts'
import type { Op } from './op.ts'

/** The record fields that are equal for all functions that every target rounds correctly. */
const exact = (summary: string, f: (x: number) => number, operations: number): Elementwise =>
  unary(summary, floats, float(f), operations)

/** The record fields that are equal for all functions whose maximum error differs between targets. */
const approximate = (
  ...record: Parameters<typeof exact>
): Elementwise & { readonly isApproximate: true } => ({
  ...exact(...record),
  isApproximate: true,
})

/**
 * Rounds a number to the nearest integer, ties to even, and keeps the sign of zero. From 2^52 on, every float64 number
 * is an integer.
 */
export function roundToEven(x: number): number {
  const size = Math.abs(x)
  if (!(size < 2 ** 52)) return x
  const rounded = size + 2 ** 52 - 2 ** 52
  return x < 0 || Object.is(x, -0) ? -rounded : rounded
}

/** The error function (erf), computed by a series whose terms are all positive, so that no digits cancel. */
export function errorFunction(x: number): number {
  const size = Math.abs(x)
  if (size > 6) return Math.sign(x)
  let term = size
  let sum = size
  for (let n = 1; term > sum * 2 ** -60; n++) sum += term *= (2 * size * size) / (2 * n + 1)
  const value = (2 / Math.sqrt(Math.PI)) * Math.exp(-size * size) * sum
  return x < 0 || Object.is(x, -0) ? -value : value
}

/**
 * Computes x to the power of y, as defined in C. JavaScript's power function differs from C's: in JavaScript, 1 to the
 * NaN and ±1 to the ±infinity are NaN.
 */
export const power = (x: number, y: number): number =>
  x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : x ** y

export const functionOps = {
  exp2: approximate('2 to the x', (x) => 2 ** x, 10),
  exp: approximate('e to the x', Math.exp, 12),
  log2: approximate('logarithm to base 2', Math.log2, 10),
  log: approximate('natural logarithm', Math.log, 12),
  sin: approximate('sine of x radians', Math.sin, 20),
  cos: approximate('cosine of x radians', Math.cos, 20),
  erf: approximate('error function', errorFunction, 20),
  sqrt: exact('square root', Math.sqrt, 4),
  rsqrt: approximate('1 / square root', (x) => 1 / Math.sqrt(x), 8),
  tanh: approximate('hyperbolic tangent', Math.tanh, 20),
  sigmoid: approximate('1 / (1 + e^-x)', (x) => 1 / (1 + Math.exp(-x)), 20),
  floor: exact('the largest integer that is at most x', Math.floor, 1),
  ceil: exact('the smallest integer that is at least x', Math.ceil, 1),
  round: exact('the integer nearest to x; ties go to the even integer', roundToEven, 1),
  pow: {
    ...binary('x to the y', floats, () => (x, y) => Math.fround(power(x, y)), { operations: 40 }),
    isApproximate: true,
  },
} as const satisfies Record<string, Op>
