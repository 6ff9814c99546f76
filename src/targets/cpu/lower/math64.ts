/**
 * Implements sin, cos and pow of f32, computed in f64 and rounded once. The functions sin, cos and pow have no vector
 * form. Code has no f64 vectors, and the reduction of a large angle needs 64-bit integers. The functions use no fused
 * multiply-add, so every CPU target returns the same bits. `../maximumErrors.ts` states the maximum errors.
 */
import {
  add,
  and,
  binary,
  codeFunction,
  compare,
  constant,
  convert,
  i32,
  mul,
  select,
  sub,
  unary,
} from '../build.ts'
import type { Operand, Writer } from '../build.ts'
import type { CodeFunction, Expression, Local } from '../code.ts'

const f64 = (value: number): Expression => constant('f64', value)
const i64 = (value: number): Expression => constant('i64', value)
const shiftLeft = (a: Operand, by: number): Expression => binary('shl', a, i64(by))
const asF64 = (a: Operand): Expression => convert('bits', 'f64', a)
const asI64 = (a: Operand): Expression => convert('bits', 'i64', a)

function polynomial(x: Local, coefficients: readonly number[]): Expression {
  return coefficients
    .slice(0, -1)
    .reduceRight<Expression>(
      (sum, coefficient) => add(f64(coefficient), mul(x, sum)),
      f64(coefficients.at(-1)!),
    )
}

/** The first 192 bits of 2 / pi after the binary point. */
export const twoOverPi = 0xa2f9836e4e441529fc2757d1f534ddc0db6295993c439041n
const bitsOfTwoOverPi = 192n
/** The 32 bits of 2 / pi that end with bit 8 (k + 1) after the binary point. */
const word = (k: number): number =>
  Number(BigInt.asUintN(32, twoOverPi >> (bitsOfTwoOverPi - 8n * BigInt(k + 1))))

/**
 * Sets `words` to the bits of 2 / pi that decide the quadrant of a number whose exponent is in `group`. The bits of 2 /
 * pi before the stored words contribute multiples of four quadrants.
 */
function chooseWords(writer: Writer, group: Local, words: readonly Local[], from = 0, to = 16): void {
  if (to - from === 1) {
    words.forEach((local, i) => writer.set(local, i64(word(from + 4 * i))))
    return
  }
  const middle = (from + to) / 2
  writer.if(
    compare('lt', group, i32(middle)),
    () => chooseWords(writer, group, words, from, middle),
    () => chooseWords(writer, group, words, middle, to),
  )
}

/** The angle from which on the product of pi / 2 and the number of quadrants is not accurate enough in f64. */
const largeAngle = 2 ** 20

/**
 * Sets `rest` and `quadrant` such that size = quadrant * pi / 2 + rest. The remainder `rest` is at most pi / 4 in
 * magnitude.
 */
function reduce(writer: Writer, size: Local, rest: Local, quadrant: Local): void {
  writer.if(
    compare('lt', size, constant('f32', largeAngle)),
    () => {
      const wide = writer.let('wide', convert('promote', 'f64', size))
      const count = writer.let('count', unary('nearest', mul(wide, f64(2 / Math.PI))))
      // The constant pi / 2 is split into two terms. The first term has 25 bits, so that its product with `count` is
      // exact.
      const high = sub(wide, mul(count, f64(1.5707963109016418)))
      writer.set(rest, sub(high, mul(count, f64(1.5893254773528196e-8))))
      writer.set(quadrant, convert('truncate', 'i32', count))
    },
    () => {
      // Payne and Hanek's method with integers, as in ARM's optimized-routines: the product of the mantissa and the
      // bits of 2 / pi around the point, in units of 2^-62 quadrants.
      const bits = writer.let('bits', convert('bits', 'i32', size))
      const group = writer.let('group', and(binary('shr', bits, i32(26)), i32(15)))
      const words = ['first', 'second', 'third'].map((name): Local => ({ type: 'i64', name }))
      chooseWords(writer, group, words)
      const mantissa = binary('or', and(bits, i32(0x7fffff)), i32(0x800000))
      const shifted = binary('shl', mantissa, and(binary('shr', bits, i32(23)), i32(7)))
      const scaled = writer.let('scaled', convert('extend', 'i64', shifted))
      const [first, second, third] = words.map((local) => mul(scaled, local))
      const joined = binary('or', binary('shrU', third, i64(32)), shiftLeft(first, 32))
      const product = writer.let('product', add(joined, second))
      const count = writer.let('count', binary('shrU', add(product, shiftLeft(i64(1), 61)), i64(62)))
      const fraction = sub(product, shiftLeft(count, 62))
      writer.set(rest, mul(convert('float', 'f64', fraction), f64((Math.PI / 2) * 2 ** -62)))
      writer.set(quadrant, convert('wrap', 'i32', count))
    },
  )
}

/**
 * Coefficients of (sin r - r) / r^3 and (cos r - 1) / r^2 in powers of r^2, on [0, pi / 4]. The coefficients of sine
 * and cosine are those of FreeBSD's k_sinf and k_cosf.
 */
const sineCoefficients = [
  -0.166666666416265235595, 0.0083333293858894631756, -0.000198393348360966317347, 2.7183114939898219064e-6,
]
const cosineCoefficients = [
  -0.49999999725103100312, 0.0416666233237390631894, -0.00138867637746099294692, 2.43904487962774090654e-5,
]

/** Computes the sine, or the cosine if `turn` is 1: the cosine of x is the sine of x plus one quadrant (pi / 2). */
const circular = (name: string, turn: 0 | 1): CodeFunction =>
  codeFunction(
    name,
    [['x', 'f32']],
    (writer, x) => {
      const size = writer.let('size', unary('abs', x))
      // For tiny x and for -0, sin x = x. For an infinite or NaN x, the result x - x is NaN.
      if (turn === 0) writer.if(compare('lt', size, constant('f32', 2 ** -12)), () => writer.return(x))
      writer.if(unary('eqz', compare('lt', size, constant('f32', Infinity))), () => writer.return(sub(x, x)))
      const rest: Local = { type: 'f64', name: 'rest' }
      const quadrant: Local = { type: 'i32', name: 'quadrant' }
      reduce(writer, size, rest, quadrant)
      const at = writer.let('at', add(quadrant, i32(turn)))
      const square = writer.let('square', mul(rest, rest))
      const sine = add(rest, mul(mul(rest, square), polynomial(square, sineCoefficients)))
      const cosine = add(f64(1), mul(square, polynomial(square, cosineCoefficients)))
      const value = writer.let('value', select(and(at, i32(1)), cosine, sine))
      const isNegative = turn === 0 ? compare('lt', x, constant('f32', 0)) : i32(0)
      const flips = binary('xor', and(binary('shrU', at, i32(1)), i32(1)), isNegative)
      writer.return(convert('demote', 'f32', select(flips, unary('neg', value), value)))
    },
    { result: 'f32' },
  )

export const sine = circular('sin_f32', 0)
export const cosine = circular('cos_f32', 1)

/** Computes the logarithm to base 2 of a positive finite number by the series of the inverse hyperbolic tangent. */
function log2(writer: Writer, x: Local): Expression {
  const bits = writer.let('bits', asI64(x))
  const sqrtHalf = shiftLeft(i64(0x3fe6a09e), 32)
  const exponent = writer.let('exponent', binary('shr', sub(bits, sqrtHalf), i64(52)))
  const mantissa = writer.let('mantissa', asF64(sub(bits, shiftLeft(exponent, 52))))
  const s = writer.let('s', binary('div', sub(mantissa, f64(1)), add(mantissa, f64(1))))
  const square = writer.let('square', mul(s, s))
  const series = polynomial(
    square,
    Array.from({ length: 10 }, (_, n) => 2 / Math.LN2 / (2 * n + 1)),
  )
  return add(convert('float', 'f64', exponent), mul(s, series))
}

/** Computes 2^t for t in [-1000, 1000]. */
function exp2(writer: Writer, t: Local): Expression {
  const whole = writer.let('whole', unary('nearest', t))
  const rest = writer.let('rest', sub(t, whole))
  let coefficient = 1
  const series = polynomial(
    rest,
    Array.from({ length: 13 }, (_, n) => (coefficient *= n === 0 ? 1 : Math.LN2 / n)),
  )
  const exponent = convert('truncate', 'i64', whole)
  return mul(series, asF64(shiftLeft(add(exponent, i64(1023)), 52)))
}

/**
 * Computes x to the power of y, as C's `pow`: the special cases come first, then 2^(y log2 |x|) with the sign of an odd
 * power.
 */
export const power: CodeFunction = codeFunction(
  'pow_f32',
  [
    ['x', 'f32'],
    ['y', 'f32'],
  ],
  (writer, x, y) => {
    const [one, infinity] = [constant('f32', 1), constant('f32', Infinity)]
    const size = writer.let('size', unary('abs', x))
    const isOne = binary('or', compare('eq', y, constant('f32', 0)), compare('eq', x, one))
    const isUnit = and(compare('eq', size, one), compare('eq', unary('abs', y), infinity))
    writer.if(binary('or', isOne, isUnit), () => writer.return(one))
    // A NaN is the only value that differs from itself.
    const isNaN = binary('or', compare('ne', x, x), compare('ne', y, y))
    const isFinite = compare('lt', size, infinity)
    const isFraction = compare('ne', unary('floor', y), y)
    const isBelow = compare('lt', x, constant('f32', 0))
    writer.if(binary('or', isNaN, and(and(isBelow, isFinite), isFraction)), () =>
      writer.return(constant('f32', NaN)),
    )
    const wide = writer.let('wide', convert('promote', 'f64', size))
    const finite = writer.let('finite', log2(writer, wide))
    const logarithm = select(
      compare('eq', size, constant('f32', 0)),
      f64(-Infinity),
      select(compare('lt', size, infinity), finite, f64(Infinity)),
    )
    const exponent = writer.let('exponent', convert('promote', 'f64', y))
    const scaled = writer.let('scaled', mul(exponent, logarithm))
    // In f32, 2 to a power below -200 or above 200 is 0 or infinity.
    const bounded = writer.let('bounded', binary('min', binary('max', scaled, f64(-200)), f64(200)))
    const result = writer.let('result', convert('demote', 'f32', exp2(writer, bounded)))
    const half = writer.let('half', mul(exponent, f64(0.5)))
    const isOdd = and(
      compare('eq', unary('floor', exponent), exponent),
      compare('ne', unary('floor', half), half),
    )
    const sign = binary('shrU', convert('bits', 'i32', x), i32(31))
    writer.return(select(and(sign, isOdd), unary('neg', result), result))
  },
  { result: 'f32' },
)
