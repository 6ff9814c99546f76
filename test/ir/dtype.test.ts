/**
 * Compares rounding, casting and wrapping with independent definitions. Small float formats are enumerated by
 * decoding every bit pattern, and the nearest number is found by search. Integers are wrapped with BigInt.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cast, dtypes, isDType, round, type DType } from '../../src/ir/dtype.ts'

interface Format {
  readonly exponentBits: number
  readonly mantissaBits: number
  /** f8e4m3 has no infinities: only the all-ones pattern is NaN, and a number that is too large saturates. */
  readonly finite?: boolean
}
const formats: Readonly<Partial<Record<DType, Format>>> = {
  f16: { exponentBits: 5, mantissaBits: 10 },
  bf16: { exponentBits: 8, mantissaBits: 7 },
  f8e4m3: { exponentBits: 4, mantissaBits: 3, finite: true },
  f8e5m2: { exponentBits: 5, mantissaBits: 2 },
}

/** The value of a pattern of sign, exponent and mantissa bits according to IEEE 754. */
function decode(bits: number, { exponentBits, mantissaBits, finite }: Format): number {
  const mantissa = bits % 2 ** mantissaBits
  const exponent = Math.floor(bits / 2 ** mantissaBits) % 2 ** exponentBits
  const sign = bits >= 2 ** (mantissaBits + exponentBits) ? -1 : 1
  const bias = 2 ** (exponentBits - 1) - 1
  const allOnes = exponent === 2 ** exponentBits - 1
  if (allOnes && finite && mantissa === 2 ** mantissaBits - 1) return NaN
  if (allOnes && !finite) return mantissa === 0 ? sign * Infinity : NaN
  if (exponent === 0) return sign * mantissa * 2 ** (1 - bias - mantissaBits)
  return sign * (1 + mantissa / 2 ** mantissaBits) * 2 ** (exponent - bias)
}

/**
 * All non-negative finite numbers in increasing order. The position of a number is its bit pattern, so even positions
 * have even mantissas.
 */
function magnitudes(format: Format): number[] {
  const patterns = Array.from({ length: 2 ** (format.exponentBits + format.mantissaBits) }, (_, bits) => bits)
  return patterns.map((bits) => decode(bits, format)).filter(Number.isFinite)
}

/**
 * The nearest magnitude, with ties to the even pattern. Numbers beyond the largest magnitude give the format's
 * overflow value.
 */
function nearest(table: readonly number[], x: number, finite: boolean): number {
  const magnitude = Math.abs(x)
  const sign = x < 0 || Object.is(x, -0) ? -1 : 1
  let below = 0
  for (let step = table.length; step >= 1; step = Math.floor(step / 2))
    while (below + step < table.length && table[below + step] <= magnitude) below += step
  const largest = table[table.length - 1]
  const gap = largest - table[table.length - 2]
  const next = below + 1 < table.length ? table[below + 1] : largest + gap
  const [down, up] = [magnitude - table[below], next - magnitude]
  if (down < up || (down === up && below % 2 === 0)) return sign * table[below]
  if (below + 1 < table.length) return sign * next
  return sign * (finite ? largest : Infinity)
}

describe.each(Object.entries(formats) as [DType, Format][])('%s', (dtype, format) => {
  const table = magnitudes(format)
  const expected = (x: number): number => nearest(table, x, format.finite ?? false)

  it('represents every pattern exactly', () => {
    expect(table.map((x) => round(dtype, x))).toEqual(table)
    expect(table.map((x) => round(dtype, -x))).toEqual(table.map((x) => -x))
    expect(dtypes[dtype].max).toBe(table[table.length - 1])
    expect(dtypes[dtype].min).toBe(-table[table.length - 1])
    expect(dtypes[dtype].bytes * 8).toBe(1 + format.exponentBits + format.mantissaBits)
  })

  it('rounds halfway numbers to even, and their neighbours to the nearer side', () => {
    const pairs = table
      .slice(1)
      .map((high, i) => ({ low: table[i], high, even: i % 2 === 0 ? table[i] : high }))
    const rounded = pairs.map(({ low, high }) => {
      const [middle, off] = [(low + high) / 2, (high - low) / 64]
      return [middle, -middle, middle - off, middle + off].map((x) => round(dtype, x))
    })
    expect(rounded).toEqual(pairs.map(({ low, high, even }) => [even, -even, low, high]))
  })

  it('overflows as its format does', () => {
    const [previous, largest] = table.slice(-2)
    const halfway = largest + (largest - previous) / 2
    const beyond = format.finite ? largest : Infinity
    for (const x of [halfway, halfway * 1.01, largest * 4, 1e300, Infinity]) {
      expect(round(dtype, x)).toBe(beyond)
      expect(round(dtype, -x)).toBe(-beyond)
    }
    expect(round(dtype, halfway - (largest - previous) / 64)).toBe(largest)
    expect(round(dtype, NaN)).toBeNaN()
  })

  it('keeps the sign of zero', () => {
    expect(round(dtype, 0)).toBe(0)
    expect(round(dtype, -0)).toBe(-0)
    expect(round(dtype, -table[1] / 4)).toBe(-0)
  })

  it('agrees with an exhaustive search on any number', () => {
    const exponent = fc.integer({ min: -150, max: 132 })
    const around = fc.tuple(fc.double({ min: -2, max: 2, noNaN: true }), exponent).map(([m, e]) => m * 2 ** e)
    fc.assert(
      fc.property(fc.oneof(around, fc.double({ noNaN: true }), fc.float({ noNaN: true })), (x) => {
        expect(round(dtype, x)).toBe(expected(x))
      }),
      { numRuns: 3000 },
    )
  })
})

describe('f32', () => {
  it('rounds to 24 bits of mantissa, ties to even', () => {
    const patterns = new DataView(new ArrayBuffer(4))
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 0x7f7ffffe }),
        fc.integer({ min: 0, max: 4 }),
        (bits, quarter) => {
          patterns.setUint32(0, bits)
          const low = patterns.getFloat32(0)
          patterns.setUint32(0, bits + 1)
          const high = patterns.getFloat32(0)
          const x = low + ((high - low) * quarter) / 4
          const even = bits % 2 === 0 ? low : high
          expect(round('f32', x)).toBe(quarter < 2 ? low : quarter > 2 ? high : even)
        },
      ),
      { numRuns: 2000 },
    )
  })
})

const widths = { i8: 8, u8: 8, i32: 32, u32: 32 } as const

describe.each(Object.entries(widths) as [keyof typeof widths, number][])('%s', (dtype, bits) => {
  const wrap = dtype.startsWith('u') ? BigInt.asUintN : BigInt.asIntN

  it('wraps modulo its width', () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), (x) => {
        expect(round(dtype, x)).toBe(Number(wrap(bits, BigInt(x))))
      }),
      { numRuns: 1000 },
    )
  })

  it('spans what its width spans', () => {
    const { min, max, bytes } = dtypes[dtype]
    expect(bytes * 8).toBe(bits)
    expect(round(dtype, min)).toBe(min)
    expect(round(dtype, max)).toBe(max)
    expect(round(dtype, max + 1)).toBe(min)
    expect(round(dtype, min - 1)).toBe(max)
    expect(max - min + 1).toBe(2 ** bits)
  })

  it('is cast from a float towards zero, saturating, with NaN as 0', () => {
    const { min, max } = dtypes[dtype]
    fc.assert(
      fc.property(
        fc.oneof(fc.float({ noNaN: true }), fc.float({ min: -300, max: 300, noNaN: true })),
        (x) => {
          const whole = x < 0 ? -Math.floor(-x) : Math.floor(x)
          expect(cast('f32', dtype, x)).toBe((whole < min ? min : whole > max ? max : whole) + 0)
        },
      ),
      { numRuns: 1000 },
    )
    expect(cast('f32', dtype, NaN)).toBe(0)
    expect(cast('f32', dtype, Infinity)).toBe(max)
    expect(cast('f32', dtype, -Infinity)).toBe(min)
    expect(Object.is(cast('f32', dtype, -0.5), 0)).toBe(true)
  })

  it('is cast from an integer by wrapping', () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), (x) => {
        expect(cast('i64', dtype, x)).toBe(Number(wrap(bits, BigInt(x))))
      }),
    )
  })
})

describe('i64', () => {
  it('is exact up to 2^53 and rejects larger results', () => {
    for (const x of [0, -1, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER]) expect(round('i64', x)).toBe(x)
    for (const x of [2 ** 53, -(2 ** 53), 2 ** 60, Infinity, 0.5])
      expect(() => round('i64', x)).toThrow(RangeError)
    expect(Object.is(round('i64', -0), 0)).toBe(true)
  })
})

describe('casts between floats and to bool', () => {
  it('round once', () => {
    // 1 + 2^-11 + 2^-30 is above the midpoint of two f16 numbers. After rounding to f32 it would be exactly at the
    // midpoint and round down.
    const x = 1 + 2 ** -11 + 2 ** -30
    expect(round('f16', x)).toBe(1 + 2 ** -10)
    expect(cast('i64', 'f32', 2 ** 24 + 1)).toBe(2 ** 24)
    expect(cast('i64', 'f32', 2 ** 24 + 3)).toBe(2 ** 24 + 4)
    expect(cast('i32', 'bf16', 257)).toBe(256)
  })

  it('to bool test for zero', () => {
    for (const x of [1, -1, 0.25, Infinity, NaN]) expect(cast('f32', 'bool', x)).toBe(1)
    for (const x of [0, -0]) expect(cast('f32', 'bool', x)).toBe(0)
    expect(cast('i32', 'bool', -7)).toBe(1)
    expect(cast('bool', 'f32', 1)).toBe(1)
    expect(cast('bool', 'i32', 0)).toBe(0)
  })
})

it('recognises exactly the names of the dtypes', () => {
  for (const name of Object.keys(dtypes)) expect(isDType(name)).toBe(true)
  for (const name of ['f64', 'toString', '', 3, undefined]) expect(isDType(name)).toBe(false)
})
