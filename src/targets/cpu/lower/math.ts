/**
 * Implements exp2, exp, log2, log, erf, tanh and sigmoid of f32 and vf32 over the whole range, including infinities,
 * NaN and subnormal numbers. The functions exp, log, erf and tanh use no fused multiply-add, so every target and every
 * vector width returns the same bits. `../maximumErrors.ts` states the maximum errors.
 */
import { add, and, binary, compare, constant, convert, mul, select, sub, unary, use } from '../build.ts'
import type { Operand, Writer } from '../build.ts'
import type { Expression, Local } from '../code.ts'
import { isVector } from './convert.ts'

function shapedLike(operand: Operand) {
  const vector = isVector(use(operand).type)
  const [int, float] = vector ? (['vi32', 'vf32'] as const) : (['i32', 'f32'] as const)
  return {
    int: (value: number): Expression => constant(int, value | 0),
    float: (value: number): Expression => constant(float, Math.fround(value)),
    asInt: (a: Operand): Expression => convert('bits', int, a),
    asFloat: (a: Operand): Expression => convert('bits', float, a),
    toFloat: (a: Operand): Expression => convert('float', float, a),
    shift: (name: 'shl' | 'shr', a: Operand, by: number): Expression => binary(name, a, constant('i32', by)),
  }
}

/** Evaluates the polynomial c0 + x (c1 + x (c2 + …)). */
function polynomial(x: Local, coefficients: readonly number[]): Expression {
  const { float } = shapedLike(x)
  return coefficients
    .slice(0, -1)
    .reduceRight<Expression>(
      (sum, coefficient) => add(float(coefficient), mul(x, sum)),
      float(coefficients.at(-1)!),
    )
}

/** Computes value * 2^n for n in [-252, 252], rounded only once even if the result is subnormal. */
function scale(writer: Writer, value: Operand, n: Local): Expression {
  const { int, asFloat, shift } = shapedLike(value)
  const half = writer.let('half', shift('shr', n, 1))
  const power = (exponent: Operand): Expression => asFloat(shift('shl', add(exponent, int(127)), 23))
  return mul(mul(value, power(half)), power(sub(n, half)))
}

/** Clamps a number to a range. A NaN remains NaN, unlike with `min` and `max`. */
function clamp(x: Local, low: number, high: number): Expression {
  const { float } = shapedLike(x)
  return select(
    compare('lt', x, float(low)),
    float(low),
    select(compare('gt', x, float(high)), float(high), x),
  )
}

/**
 * Rounds a number below 2^22 in magnitude to the nearest integer, and returns the result as a float and as an integer.
 * Adding the anchor 1.5 * 2^23 to the number removes the fraction.
 */
function nearest(writer: Writer, x: Operand): { readonly whole: Local; readonly n: Local } {
  const { int, float, asInt } = shapedLike(x)
  const anchored = writer.let('anchored', add(x, float(1.5 * 2 ** 23)))
  return {
    whole: writer.let('whole', sub(anchored, float(1.5 * 2 ** 23))),
    n: writer.let('n', sub(asInt(anchored), int(0x4b400000))),
  }
}

/** Coefficients of (2^f - 1) / f on [-0.5, 0.5]. */
const exp2Coefficients = [0.6931472, 0.2402265, 0.05550357, 0.009618083, 0.0013390863, 1.5453163e-4]
/** Coefficients of (e^r - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2]. */
const expCoefficients = [0.5, 0.16666576, 0.041666556, 0.008363179, 0.0013926184]
/** Coefficients of (tanh x - x) / x^3 in powers of x^2, on [0, 0.625]. */
const tanhCoefficients = [-0.33333328, 0.13332768, -0.05385061, 0.020995755, -0.0060946415]

export function exp2(writer: Writer, value: Operand): Expression {
  const x = writer.let('x', value)
  const { float } = shapedLike(x)
  // In f32, 2 to a power below -151 or above 129 is 0 or infinity.
  const bounded = writer.let('bounded', clamp(x, -151, 129))
  const { whole, n } = nearest(writer, bounded)
  const rest = writer.let('rest', sub(bounded, whole))
  const power = add(float(1), mul(rest, polynomial(rest, exp2Coefficients)))
  return scale(writer, power, n)
}

export function exp(writer: Writer, value: Operand): Expression {
  const x = writer.let('x', value)
  const { float } = shapedLike(x)
  const bounded = writer.let('bounded', clamp(x, -105, 90))
  const { whole, n } = nearest(writer, mul(bounded, float(Math.LOG2E)))
  // The constant ln 2 is split into two terms. The first term has so few bits that its product with the integer `whole`
  // is exact.
  const high = sub(bounded, mul(whole, float(0.693359375)))
  const rest = writer.let('rest', sub(high, mul(whole, float(-2.1219444e-4))))
  const square = mul(rest, rest)
  const power = add(float(1), add(rest, mul(square, polynomial(rest, expCoefficients))))
  return scale(writer, power, n)
}

/** The terms of a positive number's logarithm: x = 2^exponent (1 + f), and log(1 + f) = f - halfSquare + series. */
interface Logarithm {
  readonly exponent: Local
  /** True if x is subnormal. For a subnormal x, `exponent` is 24 too large, which the callers correct. */
  readonly subnormal: Local
  readonly f: Local
  readonly halfSquare: Local
  readonly series: Expression
}

/**
 * Reduces the mantissa to [sqrt 1/2, sqrt 2) and computes the series of its logarithm, by the method of FreeBSD's
 * e_logf.
 */
function logarithm(writer: Writer, x: Local): Logarithm {
  const { int, float, asInt, asFloat, shift } = shapedLike(x)
  const subnormal = writer.let('subnormal', compare('lt', x, float(2 ** -126)))
  const normal = writer.let('normal', select(subnormal, mul(x, float(2 ** 24)), x))
  const sqrtHalf = int(0x3f3504f3)
  const exponent = writer.let('exponent', shift('shr', sub(asInt(normal), sqrtHalf), 23))
  const mantissa = asFloat(sub(asInt(normal), shift('shl', exponent, 23)))
  const f = writer.let('f', sub(mantissa, float(1)))
  const s = writer.let('s', binary('div', f, add(float(2), f)))
  const z = writer.let('z', mul(s, s))
  const w = writer.let('w', mul(z, z))
  const odd = mul(z, add(float(0.66666662693), mul(w, float(0.28498786688))))
  const even = mul(w, add(float(0.40000972152), mul(w, float(0.24279078841))))
  const halfSquare = writer.let('halfSquare', mul(float(0.5), mul(f, f)))
  const series = mul(s, add(halfSquare, add(even, odd)))
  return { exponent, subnormal, f, halfSquare, series }
}

/**
 * Returns `finite` for a positive finite x, and the logarithm of zero, negative numbers, infinity and NaN as defined by
 * IEEE 754.
 */
function logarithmOrSpecial(x: Local, finite: Expression): Expression {
  const { int, float, asFloat } = shapedLike(x)
  const [nan, infinity] = [asFloat(int(0x7fc00000)), asFloat(int(0x7f800000))]
  const special = select(compare('eq', x, float(0)), asFloat(int(0xff800000)), nan)
  const positive = select(compare('lt', x, infinity), finite, x)
  // Handles zero and negative arguments of the logarithm. A NaN fails both comparisons and is returned as NaN.
  return select(compare('le', x, float(0)), special, positive)
}

/**
 * Computes the base-2 logarithm by the method of FreeBSD's e_log2f, which multiplies the leading bits of the natural
 * logarithm separately.
 */
export function log2(writer: Writer, value: Operand): Expression {
  const x = writer.let('x', value)
  const { int, float, asInt, asFloat, toFloat } = shapedLike(x)
  const { exponent, subnormal, f, halfSquare, series } = logarithm(writer, x)
  const high = writer.let('high', asFloat(and(asInt(sub(f, halfSquare)), int(0xfffff000))))
  const low = writer.let('low', add(sub(sub(f, high), halfSquare), series))
  const [log2eHigh, log2eLow] = [float(1.4428710938), float(-1.7605285393e-4)]
  const shiftedBy = select(subnormal, float(-24), float(0))
  const whole = add(toFloat(exponent), shiftedBy)
  const small = add(mul(add(low, high), log2eLow), mul(low, log2eHigh))
  return logarithmOrSpecial(x, add(add(small, mul(high, log2eHigh)), whole))
}

export function log(writer: Writer, value: Operand): Expression {
  const x = writer.let('x', value)
  const { float, toFloat } = shapedLike(x)
  const { exponent, subnormal, f, halfSquare, series } = logarithm(writer, x)
  const whole = writer.let('whole', add(toFloat(exponent), select(subnormal, float(-24), float(0))))
  // The constant ln 2 is split into two terms. The first term has so few bits that its product with the integer `whole`
  // is exact.
  const small = sub(add(series, mul(whole, float(9.0580006145e-6))), halfSquare)
  return logarithmOrSpecial(x, add(add(small, f), mul(whole, float(0.69313812256))))
}

/** Coefficients of (erf x - x) / x in powers of x^2, on [0, 0.927734375]. */
const erfNear = [0.128379166, -0.376125336, 0.112819925, -0.0267681349, 0.00499119423, -5.96761703e-4]
/** Coefficients of (log(1 - erf x) + x) / x, on [0.927734375, 4]. */
const erfFar = [
  -0.128717512, -0.634846687, -0.106777877, 0.0242546219, -0.00388396438, 3.83197126e-4, -1.7285347e-5,
]

/** Near 0, erf is a polynomial. Elsewhere, erf is computed as 1 - e^p(x), which rounds to 1 for x of 4 or more. */
export function erf(writer: Writer, value: Operand): Expression {
  const x = writer.let('x', value)
  const { int, float, asInt, asFloat } = shapedLike(x)
  const size = writer.let('size', unary('abs', x))
  const square = writer.let('square', mul(size, size))
  const near = add(size, mul(size, polynomial(square, erfNear)))
  const bounded = writer.let('bounded', clamp(size, 0, 4))
  const exponent = sub(mul(bounded, polynomial(bounded, erfFar)), bounded)
  const far = sub(float(1), exp(writer, exponent))
  const result = select(compare('lt', size, float(0.927734375)), near, far)
  return asFloat(binary('or', asInt(result), and(asInt(x), int(0x80000000))))
}

export function tanh(writer: Writer, value: Operand): Expression {
  const x = writer.let('x', value)
  const { int, float, asInt, asFloat } = shapedLike(x)
  const magnitude = writer.let('magnitude', unary('abs', x))
  const square = writer.let('square', mul(magnitude, magnitude))
  const near = add(magnitude, mul(magnitude, mul(square, polynomial(square, tanhCoefficients))))
  const power = exp(writer, add(magnitude, magnitude))
  const far = sub(float(1), binary('div', float(2), add(power, float(1))))
  const size = select(compare('lt', magnitude, float(0.625)), near, far)
  return asFloat(binary('or', asInt(size), and(asInt(x), int(0x80000000))))
}

export function sigmoid(writer: Writer, value: Operand): Expression {
  const x = writer.let('x', value)
  const { float } = shapedLike(x)
  const power = writer.let('power', exp(writer, unary('neg', unary('abs', x))))
  // Computes 1 / (1 + e^-x), rewritten for negative x so that the exponential does not overflow.
  return binary('div', select(compare('lt', x, float(0)), power, float(1)), add(float(1), power))
}
