/**
 * The records of the elementary functions of f32: exponentials, logarithms, sines, roots and rounding to integers. NaN,
 * infinities and signed zeros are handled as in IEEE 754 and C, on every target.
 *
 * The bounds for cuda are the largest that NVIDIA's CUDA C++ Programming Guide lists for CUDA 11 to 13, without fast
 * math, except that of sigmoid, which follows from them. Tests on a GPU compare them with float64.
 */
import { binary, float, floats, unary, type Elementwise } from './elementwise.ts'
import type { MaximumError, Op } from './op.ts'

/** The bounds of a function: one for both CPU targets, which execute the same operations. */
const within = (cpu: number, cuda: number): { readonly maximumError: { readonly f32: MaximumError } } => ({
  // The checker rounds a float64 result, which is wrong only if the exact result is next to a tie.
  maximumError: { f32: { check: 1, wasm: cpu, native: cpu, cuda } },
})

const functionOf = (
  summary: string,
  f: (x: number) => number,
  operations: number,
  error: { readonly maximumError?: Op['maximumError'] },
): Elementwise => ({ ...unary(summary, floats, float(f), operations), ...error })

const exact = {}

/** Rounds to the nearest integer, ties to even, and keeps the sign of zero. From 2^52 on, every number is an integer. */
export function roundToEven(x: number): number {
  const size = Math.abs(x)
  if (!(size < 2 ** 52)) return x
  const rounded = size + 2 ** 52 - 2 ** 52
  return x < 0 || Object.is(x, -0) ? -rounded : rounded
}

/** The error function, by a series whose terms are all positive, so that no digits cancel. */
export function errorFunction(x: number): number {
  const size = Math.abs(x)
  if (size > 6) return Math.sign(x)
  let term = size
  let sum = size
  for (let n = 1; term > sum * 2 ** -60; n++) sum += term *= (2 * size * size) / (2 * n + 1)
  const value = (2 / Math.sqrt(Math.PI)) * Math.exp(-size * size) * sum
  return x < 0 || Object.is(x, -0) ? -value : value
}

/** x to the y, as in C. JavaScript differs: there, 1 to the NaN and ±1 to the ±infinity are NaN. */
export const power = (x: number, y: number): number =>
  x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : x ** y

export const functionOps = {
  exp2: functionOf('2 to the x', (x) => 2 ** x, 10, within(2, 2)),
  exp: functionOf('e to the x', Math.exp, 12, within(2, 2)),
  log2: functionOf('logarithm to base 2', Math.log2, 10, within(2, 1)),
  log: functionOf('natural logarithm', Math.log, 12, within(2, 1)),
  sin: functionOf('sine of x radians', Math.sin, 20, within(1, 2)),
  cos: functionOf('cosine of x radians', Math.cos, 20, within(1, 2)),
  erf: functionOf('error function', errorFunction, 20, within(2, 2)),
  sqrt: functionOf('square root', Math.sqrt, 4, exact),
  rsqrt: functionOf('1 / square root', (x) => 1 / Math.sqrt(x), 8, within(1, 2)),
  tanh: functionOf('hyperbolic tangent', Math.tanh, 20, within(4, 2)),
  // On cuda, e = e^-|x|, and the result is 1 / (1 + e) or e / (1 + e). With u = 2^-24, the relative error of e is at most
  // 4 u (2 ULP of expf), and the addition and the division add u each: together at most 6 u, which is at most 6 ULP.
  sigmoid: functionOf('1 / (1 + e^-x)', (x) => 1 / (1 + Math.exp(-x)), 20, within(4, 6)),
  floor: functionOf('the largest integer that is not above x', Math.floor, 1, exact),
  ceil: functionOf('the smallest integer that is not below x', Math.ceil, 1, exact),
  round: functionOf('the nearest integer; ties to even', roundToEven, 1, exact),
  pow: {
    ...binary('x to the y', floats, () => (x, y) => Math.fround(power(x, y)), { operations: 40 }),
    ...within(1, 8),
  },
} as const satisfies Record<string, Op>
