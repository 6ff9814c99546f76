/** Every expression of Code as wasm against plain JavaScript; vectors lane by lane against the same. */
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import type { BinaryName, CodeType, CompareName, ConvertName } from '../../../src/targets/cpu/code.ts'
import * as build from '../../../src/targets/cpu/build.ts'
import { enableRelaxedSimd } from '../../../src/targets/wasm/node.ts'
import { edges, evaluator, pairs, quads } from './harness.ts'
import type { Value } from './harness.ts'
import * as meaning from './meaning.ts'

let relaxedModes: boolean[] = [false]
beforeAll(() => {
  if (enableRelaxedSimd()) relaxedModes = [false, true]
})

const names = <T extends string>(record: Partial<Record<T, unknown>>): T[] => Object.keys(record) as T[]
const shifts: readonly BinaryName[] = ['shl', 'shr', 'shrU']
const lanesOf = (value: Value): readonly number[] => value as readonly number[]
const word = (value: bigint): number => Number(BigInt.asIntN(32, value))

const anyI32 = fc.oneof(fc.constantFrom(...edges.i32), fc.integer({ min: -0x80000000, max: 0x7fffffff }))
const anyI64 = fc.oneof(
  fc.constantFrom(...edges.i64),
  fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n }),
)
const anyF32 = fc.oneof(fc.constantFrom(...edges.f32), fc.float())

describe('binary operations', () => {
  test.each(names(meaning.integer))('i32 %s', (name) => {
    const run = evaluator(['i32', 'i32'], (a, b) => build.binary(name, a, b))
    const expected = meaning.integer[name]
    const check = (a: number, b: number): void => {
      const amount = shifts.includes(name) ? b & 31 : b
      expect([a, amount, run(a, amount)]).toEqual([a, amount, expected(a, amount)])
    }
    for (const [a, b] of pairs(edges.i32)) check(a, b)
    fc.assert(fc.property(anyI32, anyI32, check), { seed: 1 })
  })

  test.each(names(meaning.integer))('i32 %s by a constant', (name) => {
    for (const b of edges.i32.filter((value) => !shifts.includes(name) || (value >= 0 && value < 32))) {
      const run = evaluator(['i32'], (a) => build.binary(name, a, build.i32(b)))
      for (const a of edges.i32) expect([a, b, run(a)]).toEqual([a, b, meaning.integer[name](a, b)])
    }
  })

  test.each(names(meaning.long))('i64 %s', (name) => {
    const run = evaluator(['i64', 'i64'], (a, b) => build.binary(name, a, b))
    const check = (a: bigint, b: bigint): void => {
      const amount = shifts.includes(name) ? b & 63n : b
      expect([a, amount, run(a, amount)]).toEqual([a, amount, meaning.long[name](a, amount)])
    }
    for (const [a, b] of pairs(edges.i64)) check(a, b)
    fc.assert(fc.property(anyI64, anyI64, check), { seed: 2 })
  })

  test.each(names(meaning.float))('f32 and f64 %s', (name) => {
    const [f32, f64] = (['f32', 'f64'] as const).map((type) =>
      evaluator([type, type], (a, b) => build.binary(name, a, b)),
    )
    const check32 = (a: number, b: number): void => {
      expect([a, b, f32(a, b)]).toEqual([a, b, Math.fround(meaning.float[name](a, b))])
    }
    const check64 = (a: number, b: number): void => {
      expect([a, b, f64(a, b)]).toEqual([a, b, meaning.float[name](a, b)])
    }
    for (const [a, b] of pairs(edges.f32)) check32(a, b)
    for (const [a, b] of pairs(edges.f64)) check64(a, b)
    fc.assert(fc.property(anyF32, anyF32, check32), { seed: 3 })
    fc.assert(fc.property(fc.double(), fc.double(), check64), { seed: 4 })
  })

  test.each(['min', 'max'] as const)('%s of floats with a constant on either side', (name) => {
    for (const limit of edges.f32) {
      const expected = (a: number): number => meaning.float[name](a, limit)
      for (const type of ['f32', 'f64'] as const) {
        const right = evaluator([type], (a) => build.binary(name, a, build.constant(type, limit)))
        const left = evaluator([type], (a) => build.binary(name, build.constant(type, limit), a))
        for (const a of edges.f32)
          expect([a, limit, right(a), left(a)]).toEqual([a, limit, expected(a), expected(a)])
      }
      for (const relaxed of relaxedModes) {
        const run = evaluator(['vf32'], (a) => build.binary(name, a, build.constant('vf32', limit)), {
          relaxed,
        })
        for (const a of quads(edges.f32)) expect([a, limit, run(a)]).toEqual([a, limit, a.map(expected)])
      }
    }
  })

  test.each(names(meaning.float))('vf32 %s is f32 in every lane', (name) => {
    for (const relaxed of relaxedModes) {
      const run = evaluator(['vf32', 'vf32'], (a, b) => build.binary(name, a, b), { relaxed })
      for (const four of quads(pairs(edges.f32))) {
        const [a, b] = [four.map(([x]) => x), four.map(([, y]) => y)]
        expect([a, b, run(a, b)]).toEqual([
          a,
          b,
          four.map(([x, y]) => Math.fround(meaning.float[name](x, y))),
        ])
      }
    }
  })

  const vectorNames = ['add', 'sub', 'mul', 'min', 'max', 'minU', 'maxU', 'and', 'or', 'xor'] as const
  test.each(vectorNames)('vi32 %s is i32 in every lane', (name) => {
    const run = evaluator(['vi32', 'vi32'], (a, b) => build.binary(name, a, b))
    for (const four of quads(pairs(edges.i32))) {
      const [a, b] = [four.map(([x]) => x), four.map(([, y]) => y)]
      expect([a, b, run(a, b)]).toEqual([a, b, four.map(([x, y]) => meaning.integer[name](x, y))])
    }
  })

  test.each(shifts)('vi32 %s shifts all lanes by one amount', (name) => {
    const run = evaluator(['vi32', 'i32'], (a, b) => build.binary(name, a, b))
    for (const a of quads(edges.i32))
      for (const amount of [0, 1, 7, 16, 31])
        expect(run(a, amount)).toEqual(a.map((lane) => meaning.integer[name](lane, amount)))
  })

  test('operands of min, max and division that are not locals are evaluated once and kept', () => {
    const run = evaluator(['i32', 'i32'], (a, b) =>
      build.max(
        build.binary('div', build.add(a, b), build.sub(a, b)),
        build.binary('rem', build.mul(a, b), build.min(a, b)),
      ),
    )
    const { add, sub, mul, div, rem, min, max } = meaning.integer
    for (const [a, b] of pairs(edges.i32))
      expect(run(a, b)).toBe(max(div(add(a, b), sub(a, b)), rem(mul(a, b), min(a, b))))
  })
})

describe('unary operations', () => {
  test.each(names(meaning.floatUnary))('%s of f32, f64 and vf32', (name) => {
    const expected = meaning.floatUnary[name]
    const [f32, f64, vf32] = (['f32', 'f64', 'vf32'] as const).map((type) =>
      evaluator([type], (a) => build.unary(name, a)),
    )
    for (const a of edges.f32) expect([a, f32(a)]).toEqual([a, Math.fround(expected(a))])
    for (const a of edges.f64) expect([a, f64(a)]).toEqual([a, expected(a)])
    for (const a of quads(edges.f32))
      expect([a, vf32(a)]).toEqual([a, a.map((lane) => Math.fround(expected(lane)))])
    fc.assert(
      fc.property(fc.float(), (a) => {
        expect(f32(a)).toBe(Math.fround(expected(a)))
      }),
      { seed: 5 },
    )
  })

  test.each(['neg', 'abs', 'not'] as const)('%s of i32, i64 and vi32', (name) => {
    const expected = {
      neg: (a: bigint) => -a,
      abs: (a: bigint) => (a < 0n ? -a : a),
      not: (a: bigint) => ~a,
    }[name]
    const [i32, i64, vi32] = (['i32', 'i64', 'vi32'] as const).map((type) =>
      evaluator([type], (a) => build.unary(name, a)),
    )
    for (const a of edges.i32) expect(i32(a)).toBe(word(expected(BigInt(a))))
    for (const a of edges.i64) expect(i64(a)).toBe(BigInt.asIntN(64, expected(a)))
    for (const a of quads(edges.i32)) expect(vi32(a)).toEqual(a.map((lane) => word(expected(BigInt(lane)))))
  })

  test('eqz of i32 and i64', () => {
    const i32 = evaluator(['i32'], (a) => build.unary('eqz', a))
    const i64 = evaluator(['i64'], (a) => build.unary('eqz', a))
    for (const a of edges.i32) expect(i32(a)).toBe(a === 0 ? 1 : 0)
    for (const a of edges.i64) expect(i64(a)).toBe(a === 0n ? 1 : 0)
  })
})

describe('comparisons', () => {
  const floatNames = ['eq', 'ne', 'lt', 'le', 'gt', 'ge'] as const
  const integerNames: readonly CompareName[] = [...floatNames, 'ltU', 'leU', 'gtU', 'geU']

  test.each(integerNames)('%s of i32, i64 and vi32', (name) => {
    const [i32, i64, vi32] = (['i32', 'i64', 'vi32'] as const).map((type) =>
      evaluator([type, type], (a, b) => build.compare(name, a, b)),
    )
    const zero = evaluator(['i32'], (a) => build.compare(name, a, build.i32(0)))
    const expected = meaning.compareNumbers[name]
    for (const a of edges.i32) expect(zero(a)).toBe(Number(expected(a, 0)))
    for (const [a, b] of pairs(edges.i32)) expect(i32(a, b)).toBe(Number(expected(a, b)))
    for (const [a, b] of pairs(edges.i64)) expect(i64(a, b)).toBe(Number(meaning.compareLongs[name](a, b)))
    for (const four of quads(pairs(edges.i32))) {
      const [a, b] = [four.map(([x]) => x), four.map(([, y]) => y)]
      expect(vi32(a, b)).toEqual(four.map(([x, y]) => (expected(x, y) ? -1 : 0)))
    }
  })

  test.each(floatNames)('%s of f32, f64 and vf32', (name) => {
    const [f32, f64, vf32] = (['f32', 'f64', 'vf32'] as const).map((type) =>
      evaluator([type, type], (a, b) => build.compare(name, a, b)),
    )
    const expected = meaning.compareNumbers[name]
    for (const [a, b] of pairs(edges.f32)) expect(f32(a, b)).toBe(Number(expected(a, b)))
    for (const [a, b] of pairs(edges.f64)) expect(f64(a, b)).toBe(Number(expected(a, b)))
    for (const four of quads(pairs(edges.f32))) {
      const [a, b] = [four.map(([x]) => x), four.map(([, y]) => y)]
      expect(vf32(a, b)).toEqual(four.map(([x, y]) => (expected(x, y) ? -1 : 0)))
    }
  })
})

describe('products and choices', () => {
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
    // (1 + e)(1 + e) - 1 - 2e is e * e if rounded once, and 0 if the product is rounded first.
    const e = 2 ** -13
    const result = lanesOf(run([1 + e, 2, 3, 4], [1 + e, 2, 3, 4], [-1 - 2 * e, 1, 1, 1]))
    expect([0, e * e]).toContain(result[0])
    expect(result.slice(1)).toEqual([5, 10, 17])
  })

  test.each(['i32', 'f32', 'f64'] as const)('select of %s evaluates both and takes one', (type) => {
    const run = evaluator(['i32', type, type], (condition, a, b) => build.select(condition, a, b))
    for (const condition of [0, 1]) expect(run(condition, 5, 7)).toBe(condition ? 5 : 7)
  })

  test('select of vectors goes by lane', () => {
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

describe('conversions', () => {
  const conversion = (name: ConvertName, from: CodeType, to: CodeType): ((value: Value) => Value) =>
    evaluator([from], (a) => build.convert(name, to, a))

  test('bits are kept', () => {
    const view = new DataView(new ArrayBuffer(8))
    const f32 = conversion('bits', 'i32', 'f32')
    const i32 = conversion('bits', 'f32', 'i32')
    for (const a of edges.f32) {
      view.setFloat32(0, a)
      expect(i32(a)).toBe(view.getInt32(0))
      expect(f32(view.getInt32(0))).toBe(a)
    }
    const i64 = conversion('bits', 'f64', 'i64')
    for (const a of edges.f64) {
      view.setFloat64(0, a)
      expect(i64(a)).toBe(view.getBigInt64(0))
    }
    expect(conversion('bits', 'vf32', 'vi32')([1, -0, 0, 2])).toEqual([
      0x3f800000, -0x80000000, 0, 0x40000000,
    ])
    expect(conversion('bits', 'vi32', 'vf32')([0x3f800000, -0x80000000, 0, 0x40000000])).toEqual([
      1, -0, 0, 2,
    ])
  })

  test('integers widen and wrap', () => {
    const [signed, unsigned] = [conversion('extend', 'i32', 'i64'), conversion('extendU', 'i32', 'i64')]
    for (const a of edges.i32) {
      expect(signed(a)).toBe(BigInt(a))
      expect(unsigned(a)).toBe(BigInt(a >>> 0))
    }
    for (const a of edges.i64) expect(conversion('wrap', 'i64', 'i32')(a)).toBe(word(a))
  })

  test('integers to floats round to nearest', () => {
    const check32 = (a: number): void => {
      expect(conversion('float', 'i32', 'f32')(a)).toBe(Math.fround(a))
      expect(conversion('floatU', 'i32', 'f32')(a)).toBe(Math.fround(a >>> 0))
      expect(conversion('float', 'i32', 'f64')(a)).toBe(a)
      expect(conversion('floatU', 'i32', 'f64')(a)).toBe(a >>> 0)
    }
    const wide = [2 ** 24 + 1, 2 ** 24 + 3, 0x7fffffc0, -0x7fffffc0, -65, 0x1fffffe]
    ;[...edges.i32, ...wide].forEach(check32)
    for (const a of quads([...edges.i32, ...wide])) {
      expect(conversion('float', 'vi32', 'vf32')(a)).toEqual(a.map((lane) => Math.fround(lane)))
      expect(conversion('floatU', 'vi32', 'vf32')(a)).toEqual(a.map((lane) => Math.fround(lane >>> 0)))
    }
    for (const a of edges.i64) {
      expect(conversion('float', 'i64', 'f64')(a)).toBe(Number(a))
      expect(conversion('floatU', 'i64', 'f64')(a)).toBe(Number(BigInt.asUintN(64, a)))
      expect(conversion('float', 'i64', 'f32')(a)).toBe(meaning.singleOf(a))
      expect(conversion('floatU', 'i64', 'f32')(a)).toBe(meaning.singleOf(BigInt.asUintN(64, a)))
    }
  })

  test.each([false, true])('floats to integers go towards zero and saturate (unsigned: %s)', (unsigned) => {
    const name = unsigned ? 'truncateU' : 'truncate'
    for (const from of ['f32', 'f64'] as const) {
      const [narrow, wide] = [conversion(name, from, 'i32'), conversion(name, from, 'i64')]
      for (const a of edges[from]) {
        expect([a, narrow(a)]).toEqual([a, Number(meaning.truncated(a, 32, unsigned))])
        expect([a, wide(a)]).toEqual([a, meaning.truncated(a, 64, unsigned)])
      }
    }
    const vector = conversion(name, 'vf32', 'vi32')
    for (const a of quads(edges.f32))
      expect([a, vector(a)]).toEqual([a, a.map((lane) => Number(meaning.truncated(lane, 32, unsigned)))])
  })

  test('f32 and f64', () => {
    for (const a of edges.f32) expect(conversion('promote', 'f32', 'f64')(a)).toBe(a)
    for (const a of edges.f64) expect(conversion('demote', 'f64', 'f32')(a)).toBe(Math.fround(a))
  })

  test('what no type has is refused with its name', () => {
    expect(() => evaluator(['f32'], (a) => build.unary('not', a))).toThrow('no not of f32')
    expect(() => evaluator(['vi32', 'vi32'], (a, b) => build.binary('div', a, b))).toThrow('no div of vi32')
    expect(() => evaluator(['f32', 'f32'], (a, b) => build.compare('ltU', a, b))).toThrow('no ltU of f32')
    expect(() => conversion('truncate', 'i32', 'i32')).toThrow('no truncate to i32 of i32')
  })
})
