/** Tests `expectClose`: |actual - expected| <= atol + rtol x |expected|, element by element. */
import { describe, expect, it } from 'vitest'
import { expectClose, type Tolerance } from 'arke'

type Case = readonly [what: string, actual: number, expected: number, tolerance: Tolerance]

const close: readonly Case[] = [
  ['equal numbers', 3, 3, {}],
  ['zeros of either sign', 0, -0, {}],
  ['a difference of exactly atol', 1.5, 1, { atol: 0.5 }],
  ['a difference of exactly rtol of the expected number', 125, 100, { rtol: 0.25 }],
  ['of a negative expected number, too', -125, -100, { rtol: 0.25 }],
  ['the sum of both tolerances', 125.5, 100, { atol: 0.5, rtol: 0.25 }],
  ['infinities of one sign', -Infinity, -Infinity, { rtol: 1 }],
]
const apart: readonly Case[] = [
  ['unequal numbers', 3, 3.0000001, {}],
  ['more than atol', 1.5, 1, { atol: 0.25 }],
  ['rtol of the actual number', 100, 125, { rtol: 0.1999 }],
  ['a small number beside an expected zero', 1e-9, 0, { rtol: 1 }],
  ['NaN', NaN, NaN, { atol: Infinity }],
  ['a finite number where infinity is expected', 1, Infinity, { rtol: 1 }],
  ['infinity where a finite number is expected', Infinity, 1, { atol: 1e300, rtol: 1 }],
  ['infinities of two signs', Infinity, -Infinity, { rtol: 1 }],
]

describe('expectClose', () => {
  it.each(close)('accepts %s', (_, actual, expected, tolerance) => {
    expectClose([7, actual], [7, expected], tolerance)
  })
  it.each(apart)('refuses %s', (_, actual, expected, tolerance) => {
    expect(() => expectClose([7, actual], [7, expected], tolerance)).toThrow(
      `element 1 is ${actual}, expected ${expected}`,
    )
  })
  it('says which tolerances there were', () => {
    expect(() => expectClose([2], [1], { rtol: 0.5 })).toThrow(
      new Error('element 0 is 2, expected 1 (atol 0, rtol 0.5)'),
    )
  })
  it('refuses arrays of two lengths', () => {
    expect(() => expectClose([1, 2], [1])).toThrow(new Error('2 elements where 1 are expected'))
  })
})
