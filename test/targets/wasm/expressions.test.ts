/**
 * Expressions as wasm, beyond the cases for every machine (test/targets/cpu/ops.test.ts): nested operands, the freedom
 * of relaxed SIMD, constants and lanes, and rejected operations.
 */
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import * as build from '../../../src/targets/cpu/build.ts'
import { enableRelaxedSimd } from '../../../src/targets/wasm/node.ts'
import { edges, evaluator, pairs } from './harness.ts'
import type { Value } from './harness.ts'

let relaxedModes: boolean[] = [false]
beforeAll(() => {
  if (enableRelaxedSimd()) relaxedModes = [false, true]
})

const lanesOf = (value: Value): readonly number[] => value as readonly number[]
const anyF32 = fc.oneof(fc.constantFrom(...edges.f32), fc.float())

describe('operands', () => {
  test('compound operands of min, max and division are evaluated once', () => {
    const run = evaluator(['i32', 'i32'], (a, b) =>
      build.max(
        build.binary('div', build.add(a, b), build.sub(a, b)),
        build.binary('rem', build.mul(a, b), build.min(a, b)),
      ),
    )
    const divided = (a: number, b: number): number => (b === 0 ? 0 : (a / b) | 0)
    const left = (a: number, b: number): number => (b === 0 ? 0 : (a % b) | 0)
    for (const [a, b] of pairs(edges.i32))
      expect(run(a, b)).toBe(
        Math.max(divided((a + b) | 0, (a - b) | 0), left(Math.imul(a, b), Math.min(a, b))),
      )
  })

  test('operations that a type does not have are rejected by name', () => {
    expect(() => evaluator(['f32'], (a) => build.unary('not', a))).toThrow('no not of f32')
    expect(() => evaluator(['vi32', 'vi32'], (a, b) => build.binary('div', a, b))).toThrow('no div of vi32')
    expect(() => evaluator(['f32', 'f32'], (a, b) => build.compare('ltU', a, b))).toThrow('no ltU of f32')
    expect(() => evaluator(['i32'], (a) => build.convert('truncate', 'i32', a))).toThrow(
      'no truncate to i32 of i32',
    )
  })
})

describe('fma, select and constants', () => {
  test('fma without relaxed SIMD rounds twice', () => {
    const f32 = evaluator(['f32', 'f32', 'f32'], (a, b, c) => build.fma(a, b, c))
    const vf32 = evaluator(['vf32', 'vf32', 'vf32'], (a, b, c) => build.fma(a, b, c))
    const twice = (a: number, b: number, c: number): number => Math.fround(Math.fround(a * b) + c)
    fc.assert(
      fc.property(anyF32, anyF32, anyF32, (a, b, c) => {
        expect(f32(a, b, c)).toBe(twice(a, b, c))
        expect(vf32([a, b, c, 1], [b, c, a, b], [c, a, b, a])).toEqual([
          twice(a, b, c),
          twice(b, c, a),
          twice(c, a, b),
          twice(1, b, a),
        ])
      }),
      { seed: 6 },
    )
  })

  test('fma with relaxed SIMD rounds once or twice', () => {
    const run = evaluator(['vf32', 'vf32', 'vf32'], (a, b, c) => build.fma(a, b, c), {
      relaxed: relaxedModes.includes(true),
    })
    // The expression (1 + e)(1 + e) - 1 - 2e is e * e if rounded once, and 0 if the product is rounded first.
    const e = 2 ** -13
    const result = lanesOf(run([1 + e, 2, 3, 4], [1 + e, 2, 3, 4], [-1 - 2 * e, 1, 1, 1]))
    expect([0, e * e]).toContain(result[0])
    expect(result.slice(1)).toEqual([5, 10, 17])
  })

  test.each(['i32', 'f32', 'f64'] as const)('select of %s evaluates both choices and returns one', (type) => {
    const run = evaluator(['i32', type, type], (condition, a, b) => build.select(condition, a, b))
    for (const condition of [0, 1]) expect(run(condition, 5, 7)).toBe(condition ? 5 : 7)
  })

  test('select of vectors chooses per lane', () => {
    for (const relaxed of relaxedModes) {
      const floats = evaluator(['vi32', 'vf32', 'vf32'], (c, a, b) => build.select(c, a, b), { relaxed })
      expect(floats([0, -1, -1, 0], [1, NaN, 3, 4], [5, 6, 7, -0])).toEqual([5, NaN, 3, -0])
      const integers = evaluator(['vi32', 'vi32', 'vi32'], (c, a, b) => build.select(c, a, b), { relaxed })
      expect(integers([-1, 0, 0, -1], [1, 2, 3, 4], [5, 6, 7, 8])).toEqual([1, 6, 7, 4])
    }
  })

  test('constants, lanes, splat and extract', () => {
    for (const value of edges.i32) {
      expect(evaluator([], () => build.i32(value))()).toBe(value)
      expect(evaluator([], () => build.constant('vi32', value))()).toEqual([value, value, value, value])
    }
    for (const value of edges.f32) {
      expect(evaluator([], () => build.f32(value))()).toBe(value)
      expect(evaluator([], () => build.constant('vf32', value))()).toEqual([value, value, value, value])
    }
    for (const value of edges.f64) expect(evaluator([], () => build.constant('f64', value))()).toBe(value)
    for (const value of [0, 63, 64, -64, -65, 2 ** 53 - 1, 1 - 2 ** 53, 2 ** 31, -(2 ** 40)])
      expect(evaluator([], () => build.constant('i64', value))()).toBe(BigInt(value))
    expect(evaluator([], () => build.lanes)()).toEqual([0, 1, 2, 3])
    expect(evaluator(['f32'], (a) => build.splat(a))(1.5)).toEqual([1.5, 1.5, 1.5, 1.5])
    expect(evaluator(['i32'], (a) => build.splat(a))(-3)).toEqual([-3, -3, -3, -3])
    for (const lane of [0, 1, 2, 3]) {
      expect(evaluator(['vf32'], (a) => build.extract(a, lane))([0.5, 1.5, 2.5, -0])).toBe(
        [0.5, 1.5, 2.5, -0][lane],
      )
      expect(evaluator(['vi32'], (a) => build.extract(a, lane))([9, -8, 7, 6])).toBe([9, -8, 7, 6][lane])
    }
  })
})
