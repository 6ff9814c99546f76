/**
 * Compares the meaning of ops, which is the reference for every target, with BigInt for integers, float64 for floats,
 * and plain index arithmetic for shapes.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { atomicOf, inferType, SpecError, type AtomicName, type OpName } from '../../src/ir/ops/index.ts'
import { round, type DType } from '../../src/ir/dtype.ts'
import { refType, tensorType, valueType, type Shape } from '../../src/ir/type.ts'
import { erfReference } from '../ulp.ts'
import { evaluate, node, param } from './build.ts'

const wrap = {
  i32: (x: bigint) => BigInt.asIntN(32, x),
  u32: (x: bigint) => BigInt.asUintN(32, x),
  i64: (x: bigint) => BigInt.asIntN(64, x),
} as const
type IntegerName = keyof typeof wrap
const integerNames: readonly IntegerName[] = ['i32', 'u32', 'i64']

const i32 = fc.oneof(fc.integer(), fc.integer({ min: -9, max: 9 }), fc.constantFrom(-(2 ** 31), 2 ** 31 - 1))
const u32 = fc.oneof(
  fc.nat(),
  fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  fc.constantFrom(0, 1, 2 ** 31, 2 ** 32 - 1),
)
/** Integers small enough that no product exceeds 2^53, the limit of i64. */
const i64 = fc.integer({ min: -(2 ** 26), max: 2 ** 26 })
/** Floats for which the sum of any two is exact. */
const wideI64 = fc.integer({ min: 1 - 2 ** 52, max: 2 ** 52 - 1 })
const integer = { i32, u32, i64 } as const
const f32 = fc.oneof(
  fc.float({ noNaN: true, noDefaultInfinity: true }),
  fc.float({ min: -8, max: 8, noNaN: true }),
  fc.constantFrom(0, -0, 1, -1, Infinity, -Infinity, NaN),
)

const scalar = (op: OpName, dtype: DType, ...x: number[]): number =>
  evaluate(
    op,
    x.map(() => valueType(dtype)),
    x,
  ) as number

describe.each(integerNames)('on %s', (dtype) => {
  const meaning: Partial<Record<OpName, (a: bigint, b: bigint) => bigint>> = {
    add: (a, b) => a + b,
    sub: (a, b) => a - b,
    mul: (a, b) => a * b,
    div: (a, b) => a / b,
    mod: (a, b) => a % b,
    min: (a, b) => (a < b ? a : b),
    max: (a, b) => (a > b ? a : b),
    and: (a, b) => a & b,
    or: (a, b) => a | b,
    xor: (a, b) => a ^ b,
  }
  it.each(Object.keys(meaning) as OpName[])('%s', (op) => {
    const divides = op === 'div' || op === 'mod'
    fc.assert(
      fc.property(integer[dtype], integer[dtype], (a, b) => {
        fc.pre(!divides || b !== 0)
        expect(scalar(op, dtype, a, b)).toBe(Number(wrap[dtype](meaning[op]!(BigInt(a), BigInt(b)))))
      }),
      { numRuns: 500 },
    )
  })

  it('shifts', () => {
    const most = dtype === 'i64' ? 20 : 31
    fc.assert(
      fc.property(integer[dtype], fc.integer({ min: 0, max: most }), (a, by) => {
        expect(scalar('shl', dtype, a, by)).toBe(Number(wrap[dtype](BigInt(a) << BigInt(by))))
        expect(scalar('shr', dtype, a, by)).toBe(Number(wrap[dtype](BigInt(a) >> BigInt(by))))
      }),
      { numRuns: 500 },
    )
  })

  it('unary ops', () => {
    fc.assert(
      fc.property(integer[dtype], (a) => {
        expect(scalar('neg', dtype, a)).toBe(Number(wrap[dtype](-BigInt(a))))
        expect(scalar('not', dtype, a)).toBe(Number(wrap[dtype](~BigInt(a))))
        if (dtype !== 'u32') expect(scalar('abs', dtype, a)).toBe(Number(wrap[dtype](BigInt(a < 0 ? -a : a))))
      }),
    )
  })

  it('comparisons', () => {
    fc.assert(
      fc.property(integer[dtype], integer[dtype], fc.boolean(), (a, other, same) => {
        const b = same ? a : other
        const [x, y] = [BigInt(a), BigInt(b)]
        const answers = { eq: x === y, ne: x !== y, lt: x < y, le: x <= y, gt: x > y, ge: x >= y }
        for (const [op, answer] of Object.entries(answers))
          expect(scalar(op as OpName, dtype, a, b)).toBe(Number(answer))
      }),
    )
  })

  it('division by zero is an error, not a number', () => {
    expect(() => scalar('div', dtype, 1, 0)).toThrow(RangeError)
    expect(() => scalar('mod', dtype, 1, 0)).toThrow(RangeError)
  })
})

describe('on i64 beyond 32 bits', () => {
  it('adds, divides and masks exactly', () => {
    fc.assert(
      fc.property(wideI64, wideI64, (a, b) => {
        const [x, y] = [BigInt(a), BigInt(b)]
        const exact = { add: x + y, sub: x - y, and: x & y, or: x | y, xor: x ^ y }
        for (const [op, result] of Object.entries(exact))
          expect(scalar(op as OpName, 'i64', a, b)).toBe(Number(result))
        if (b !== 0) {
          expect(scalar('div', 'i64', a, b)).toBe(Number(x / y))
          expect(scalar('mod', 'i64', a, b)).toBe(Number(x % y))
        }
      }),
      { numRuns: 1000 },
    )
  })
  it('refuses results that are not exact', () => {
    expect(() => scalar('mul', 'i64', 2 ** 40, 2 ** 20)).toThrow(RangeError)
    expect(() => scalar('shl', 'i64', 2 ** 40, 20)).toThrow(RangeError)
    expect(() => scalar('add', 'i64', Number.MAX_SAFE_INTEGER, 1)).toThrow(RangeError)
  })
})

describe('on f32', () => {
  const meaning: Partial<Record<OpName, (a: number, b: number) => number>> = {
    add: (a, b) => a + b,
    sub: (a, b) => a - b,
    mul: (a, b) => a * b,
    div: (a, b) => a / b,
    // If one operand of min or max is NaN, the result is the other operand.
    min: (a, b) => (a !== a ? b : b !== b ? a : a < b ? a : b),
    max: (a, b) => (a !== a ? b : b !== b ? a : a > b ? a : b),
  }
  it.each(Object.keys(meaning) as OpName[])('%s rounds the exact result once', (op) => {
    fc.assert(
      fc.property(f32, f32, (a, b) => {
        const result = Math.fround(meaning[op]!(a, b))
        // The sign of the minimum or maximum of two zeros is unspecified.
        if (result === 0 && (op === 'min' || op === 'max')) expect(scalar(op, 'f32', a, b)).toBeCloseTo(0)
        else expect(scalar(op, 'f32', a, b)).toBe(result)
      }),
      { numRuns: 500 },
    )
  })

  const functions: Partial<Record<OpName, (x: number) => number>> = {
    neg: (x) => -x,
    abs: (x) => (x < 0 || Object.is(x, -0) ? -x : x),
    exp2: (x) => Math.exp(x * Math.LN2),
    log2: (x) => Math.log(x) / Math.LN2,
    exp: (x) => Math.E ** x,
    log: (x) => Math.log10(x) * Math.LN10,
    sin: (x) => Math.cos(x - Math.PI / 2),
    cos: (x) => 1 - 2 * Math.sin(x / 2) ** 2,
    erf: erfReference,
    sqrt: (x) => x ** 0.5,
    rsqrt: (x) => x ** -0.5,
    tanh: (x) => (Math.abs(x) > 20 ? Math.sign(x) : Math.expm1(2 * x) / (Math.expm1(2 * x) + 2)),
    sigmoid: (x) => 0.5 + 0.5 * Math.tanh(x / 2),
  }
  it.each(Object.keys(functions) as OpName[])('%s', (op) => {
    const domain = ['log2', 'log', 'sqrt', 'rsqrt'].includes(op)
      ? fc.float({ min: Math.fround(1e-6), max: Math.fround(1e6), noNaN: true })
      : fc.float({ min: -60, max: 60, noNaN: true })
    fc.assert(
      fc.property(domain, (x) => {
        const wanted = functions[op]!(x)
        const got = scalar(op, 'f32', x)
        expect(Math.fround(got)).toBe(got)
        // The tolerance is one unit in the last place of f32, plus the error of the reference itself near 0 and 1.
        expect(Math.abs(got - wanted)).toBeLessThanOrEqual(Math.abs(wanted) * 2 ** -22 + 2 ** -50)
      }),
      { numRuns: 500 },
    )
  })
  it('handles infinities and NaN', () => {
    expect(scalar('exp2', 'f32', -Infinity)).toBe(0)
    expect(scalar('exp2', 'f32', 200)).toBe(Infinity)
    expect(scalar('log2', 'f32', 0)).toBe(-Infinity)
    expect(scalar('log2', 'f32', -1)).toBeNaN()
    expect(scalar('sqrt', 'f32', -1)).toBeNaN()
    expect(scalar('rsqrt', 'f32', 0)).toBe(Infinity)
    expect(scalar('sigmoid', 'f32', -1000)).toBe(0)
    expect(scalar('tanh', 'f32', 1000)).toBe(1)
  })
  it('compares as IEEE 754 does', () => {
    fc.assert(
      fc.property(f32, f32, fc.boolean(), (a, other, same) => {
        const b = same ? a : other
        const answers = { eq: a === b, ne: !(a === b), lt: a < b, le: a <= b, gt: b < a, ge: b <= a }
        for (const [op, answer] of Object.entries(answers))
          expect(scalar(op as OpName, 'f32', a, b)).toBe(Number(answer))
      }),
    )
  })
})

it('bools', () => {
  for (const a of [0, 1])
    for (const b of [0, 1]) {
      expect(scalar('and', 'bool', a, b)).toBe(a * b)
      expect(scalar('or', 'bool', a, b)).toBe(a + b > 0 ? 1 : 0)
      expect(scalar('xor', 'bool', a, b)).toBe((a + b) % 2)
      expect(scalar('eq', 'bool', a, b)).toBe(a === b ? 1 : 0)
      expect(scalar('not', 'bool', a)).toBe(1 - a)
    }
})

// Shapes

const extent = fc.integer({ min: 1, max: 7 })
const matrixShape = fc.tuple(extent, extent)
const floats = (shape: Shape): fc.Arbitrary<Float64Array> => {
  const count = shape.reduce((product, one) => product * one, 1)
  const element = fc.float({ min: -100, max: 100, noNaN: true })
  return fc.array(element, { minLength: count, maxLength: count }).map((list) => Float64Array.from(list))
}
const matrix = matrixShape.chain((shape) => fc.tuple(fc.constant(shape), floats(shape)))
/** The matrix as an array of rows. */
const rowsOf = ([m, n]: readonly [number, number], data: ArrayLike<number>): number[][] =>
  Array.from({ length: m }, (_, i) => Array.from({ length: n }, (_, j) => data[i * n + j]))
const listOf = (datum: unknown): number[] => Array.from(datum as Float64Array)

describe('fragments', () => {
  it('elementwise ops work on each element', () => {
    fc.assert(
      fc.property(matrix, ([shape, data]) => {
        const type = valueType('f32', shape)
        const twice = evaluate('add', [type, type], [data, data])
        expect(listOf(twice)).toEqual(listOf(data).map((x) => Math.fround(2 * x)))
        const squashed = evaluate('neg', [type], [data])
        expect(listOf(squashed)).toEqual(listOf(data).map((x) => -x))
      }),
    )
  })

  it('select chooses by the mask', () => {
    fc.assert(
      fc.property(matrix, ([shape, data]) => {
        const mask = data.map((x) => (x > 0 ? 1 : 0))
        const types = [valueType('bool', shape), valueType('f32', shape), valueType('f32', shape)]
        const chosen = evaluate('select', types, [mask, data, data.map((x) => x * 0.5)])
        expect(listOf(chosen)).toEqual(listOf(data).map((x) => (x > 0 ? x : x * 0.5)))
      }),
    )
    expect(evaluate('select', [valueType('bool'), valueType('i32'), valueType('i32')], [1, 7, 8])).toBe(7)
    expect(evaluate('select', [valueType('bool'), valueType('i32'), valueType('i32')], [0, 7, 8])).toBe(8)
  })

  it('cast converts each element', () => {
    const data = Float64Array.of(1.5, -2.5, 300, NaN)
    expect(listOf(evaluate('cast', [valueType('f32', [4])], [data], { dtype: 'u8' }))).toEqual([1, 0, 255, 0])
    expect(
      listOf(evaluate('cast', [valueType('i32', [2])], [Float64Array.of(300, -1)], { dtype: 'u8' })),
    ).toEqual([44, 255])
  })

  it('iota counts', () => {
    expect(listOf(evaluate('iota', [], [], { extent: 5 }))).toEqual([0, 1, 2, 3, 4])
  })

  it('sums, maxima and minima along an axis', () => {
    fc.assert(
      fc.property(matrix, ([shape, data]) => {
        const rows = rowsOf(shape, data)
        const columns = rows[0].map((_, j) => rows.map((row) => row[j]))
        const sum = (list: number[]): number => Math.fround(list.reduce((a, b) => a + b, 0))
        for (const [axis, lines] of [columns, rows].entries()) {
          const reduce = (op: OpName): number[] =>
            listOf(evaluate(op, [valueType('f32', shape)], [data], { axis }))
          expect(reduce('reduce.sum')).toEqual(lines.map(sum))
          expect(reduce('reduce.max')).toEqual(lines.map((line) => [...line].sort((a, b) => b - a)[0]))
          expect(reduce('reduce.min')).toEqual(lines.map((line) => [...line].sort((a, b) => a - b)[0]))
        }
      }),
    )
    const row = Float64Array.of(2 ** 31 - 1, 1, 2)
    expect(evaluate('reduce.sum', [valueType('i32', [3])], [row], { axis: 0 })).toBe(-(2 ** 31) + 2)
  })

  it('broadcast repeats rows, columns and scalars', () => {
    fc.assert(
      fc.property(matrix, ([[m, n], data]) => {
        const row = data.slice(0, n)
        const column = data.slice(0, m)
        const shape = [m, n]
        const at = (f: (i: number, j: number) => number): number[] =>
          Array.from({ length: m * n }, (_, k) => f(Math.floor(k / n), k % n))
        const stretch = (from: Shape, x: Float64Array | number): number[] =>
          listOf(evaluate('broadcast', [valueType('f32', from)], [x], { shape }))
        expect(stretch([1, n], row)).toEqual(at((_, j) => row[j]))
        expect(stretch([n], row)).toEqual(at((_, j) => row[j]))
        expect(stretch([m, 1], column)).toEqual(at((i) => column[i]))
        expect(stretch([1, 1], data.slice(0, 1))).toEqual(at(() => data[0]))
        expect(stretch([], 2.5)).toEqual(at(() => 2.5))
        expect(stretch([m, n], data)).toEqual(listOf(data))
      }),
    )
  })

  it('expand and transpose keep every element', () => {
    fc.assert(
      fc.property(matrix, ([shape, data]) => {
        const rows = rowsOf(shape, data)
        const turned = evaluate('transpose', [valueType('f32', shape)], [data])
        expect(listOf(turned)).toEqual(rows[0].flatMap((_, j) => rows.map((row) => row[j])))
        const line = data.slice(0, shape[1])
        for (const axis of [0, 1])
          expect(listOf(evaluate('expand', [valueType('f32', [shape[1]])], [line], { axis }))).toEqual(
            listOf(line),
          )
      }),
    )
    expect(node('expand', [param(valueType('f32', [3]))], { axis: 0 }).type).toEqual(valueType('f32', [1, 3]))
    expect(node('expand', [param(valueType('f32', [3]))], { axis: 1 }).type).toEqual(valueType('f32', [3, 1]))
  })

  it('dot is the sum of products and the accumulator, rounded once', () => {
    const shapes = fc.tuple(extent, extent, extent)
    fc.assert(
      fc.property(
        shapes.chain(([m, n, k]) =>
          fc.tuple(fc.constant([m, n, k]), floats([m, k]), floats([k, n]), floats([m, n])),
        ),
        ([[m, n, k], a, b, c]) => {
          const [x, y] = [rowsOf([m, k], a), rowsOf([k, n], b)]
          const types = [valueType('f32', [m, k]), valueType('f32', [k, n]), valueType('f32', [m, n])]
          const product = listOf(evaluate('dot', types, [a, b, c]))
          product.forEach((value, at) => {
            const [i, j] = [Math.floor(at / n), at % n]
            const terms = x[i].map((factor, l) => factor * y[l][j])
            const magnitude = terms.reduce((sum, term) => sum + Math.abs(term), Math.abs(c[at]))
            const wanted = terms.reduceRight((sum, term) => sum + term, 0) + c[at]
            expect(Math.abs(value - wanted)).toBeLessThanOrEqual(
              Math.abs(wanted) * 2 ** -24 + magnitude * 2 ** -45 + 2 ** -150,
            )
            expect(Math.fround(value)).toBe(value)
          })
        },
      ),
    )
  })

  it('dot of i8 is exact and wraps in i32', () => {
    const k = 3
    const a = Float64Array.of(-128, 127, 5)
    const b = Float64Array.of(-128, 127, -7)
    const types = [valueType('i8', [1, k]), valueType('i8', [k, 1]), valueType('i32', [1, 1])]
    expect(listOf(evaluate('dot', types, [a, b, Float64Array.of(1)]))).toEqual([
      128 * 128 + 127 * 127 - 35 + 1,
    ])
    expect(listOf(evaluate('dot', types, [a, b, Float64Array.of(2 ** 31 - 1)]))).toEqual([
      Number(BigInt.asIntN(32, BigInt(2 ** 31 - 1 + 128 * 128 + 127 * 127 - 35))),
    ])
  })
})

describe('atomics', () => {
  const exact: Readonly<Record<Exclude<AtomicName, 'atomic.cas'>, (old: bigint, value: bigint) => bigint>> = {
    'atomic.add': (a, b) => a + b,
    'atomic.sub': (a, b) => a - b,
    'atomic.xchg': (_, b) => b,
    'atomic.and': (a, b) => a & b,
    'atomic.or': (a, b) => a | b,
    'atomic.xor': (a, b) => a ^ b,
    'atomic.min': (a, b) => (a < b ? a : b),
    'atomic.max': (a, b) => (a > b ? a : b),
  }
  it.each(Object.keys(exact) as (keyof typeof exact)[])('%s', (op) => {
    for (const dtype of integerNames) {
      const meaning = atomicOf({ op }).change((x) => round(dtype, x))
      const values = dtype === 'i64' ? wideI64 : integer[dtype]
      fc.assert(
        fc.property(values, values, (old, value) => {
          expect(meaning(old, value, 0)).toBe(Number(wrap[dtype](exact[op](BigInt(old), BigInt(value)))))
        }),
        { numRuns: 300 },
      )
    }
  })
  it('compare-and-swap', () => {
    const meaning = atomicOf({ op: 'atomic.cas' }).change((x) => round('i32', x))
    expect(meaning(3, 3, 9)).toBe(9)
    expect(meaning(4, 3, 9)).toBeUndefined()
  })
  const all = [...Object.keys(exact), 'atomic.cas'] as AtomicName[]
  it.each(all)('%s: states whether the order of its lanes is observable', (op) => {
    const { commutes, change } = atomicOf({ op })
    const meaning = change((x) => round('i32', x))
    const small = fc.integer({ min: -3, max: 3 })
    const inBothOrders = fc.property(small, small, small, (old, a, b) => {
      const leave = (was: number, value: number): number => meaning(was, value, value + 1) ?? was
      return leave(leave(old, a), b) === leave(leave(old, b), a)
    })
    expect(fc.check(inBothOrders, { numRuns: 300 }).failed).toBe(!commutes)
  })
  it('on f32', () => {
    const meaning = atomicOf({ op: 'atomic.add' }).change((x) => round('f32', x))
    expect(meaning(16777216, 1, 0)).toBe(16777216)
    expect(atomicOf({ op: 'atomic.max' }).change((x) => x)(NaN, 1, 0)).toBe(1)
  })
  it('knows no others', () => {
    expect(() => atomicOf({ op: 'atomic.nand' as OpName })).toThrow('atomic.nand')
    expect(() => atomicOf({ op: 'load' })).toThrow('load is not an atomic')
  })
})

describe('signatures', () => {
  const f = (shape: Shape = [], dtype: DType = 'f32') => param(valueType(dtype, shape))
  const wrong: readonly (readonly [OpName, ReturnType<typeof f>[], Record<string, unknown>, RegExp])[] = [
    ['add', [f([2]), f([3])], {}, /operands differ/],
    ['add', [f([], 'bf16'), f([], 'bf16')], {}, /not on bf16: cast first/],
    ['add', [f()], {}, /takes 2 inputs, has 1/],
    ['mod', [f(), f()], {}, /not on f32/],
    ['not', [f()], {}, /not on f32/],
    ['exp2', [f([], 'i32')], {}, /not on i32/],
    ['select', [f(), f(), f()], {}, /must be bool/],
    ['select', [f([], 'bool'), f(), f([], 'i32')], {}, /choices differ/],
    ['select', [f([2], 'bool'), f(), f()], {}, /must have the same shape as the two choices/],
    ['cast', [f()], { dtype: 'f64' }, /f64 is not a dtype/],
    ['const', [], { dtype: 'f64', value: 1 }, /f64 is not a dtype/],
    ['iota', [], { extent: 0 }, /at least 1/],
    ['reduce.sum', [f([2, 3])], { axis: 2 }, /axis 2 is outside f32\[2x3\]/],
    ['reduce.sum', [f([2, 3])], { axis: 0.5 }, /axis 0.5 is outside/],
    ['argmax', [f([2, 3])], { axis: NaN }, /axis NaN is outside/],
    ['cumsum', [f([2, 3])], { axis: NaN }, /axis NaN is outside/],
    ['reduce.max', [f([2], 'bf16')], { axis: 0 }, /not on bf16: cast first, x\.to\(f32\)/],
    ['expand', [f([2, 3])], { axis: 0 }, /one to 2 extents/],
    ['expand', [f([2])], { axis: 0.5 }, /axis 0.5 is outside/],
    ['expand', [f([2])], { axis: 2 }, /axis 2 is outside/],
    ['broadcast', [f([2])], { shape: [3] }, /cannot be broadcast to/],
    ['broadcast', [f()], { shape: [2, 3, 4] }, /one to 2 extents/],
    ['broadcast', [f()], { shape: [2.5] }, /at least 1/],
    ['transpose', [f([2])], {}, /two axes/],
    ['transpose', [param(refType('global', 'f32', [2, 2]))], {}, /to shared memory before transposing/],
    ['dot', [f([2, 3]), f([4, 5]), f([2, 5])], {}, /inner extents differ/],
    ['dot', [f([2, 3]), f([3, 5], 'f16'), f([2, 5])], {}, /operands differ/],
    ['dot', [f([2, 3], 'i32'), f([3, 5], 'i32'), f([2, 5], 'i32')], {}, /not defined on i32/],
    ['dot', [f([2, 3]), f([3, 5]), f([2, 4])], {}, /must be f32\[2x5\]/],
    [
      'dot',
      [param(refType('global', 'f32', [2, 3])), f([3, 5]), f([2, 5])],
      {},
      /copy the operand to a shared tile/,
    ],
    ['shared', [], { dtype: 'bool', shape: [2] }, /mask/],
    ['shared', [], { dtype: 'f32', shape: [1, 2, 3, 4] }, /one to 3 extents/],
    ['tile', [param(tensorType('f32', 2)), f([], 'i32'), f([], 'i32')], { shape: [0, 4] }, /at least 1/],
    ['tile', [param(tensorType('f32', 3))], { shape: [1, 1, 1] }, /pick\(\) the first ones/],
    ['dim', [param(tensorType('f32', 2))], { axis: 2 }, /axis 2 is outside/],
    ['dim', [param(tensorType('f32', 2))], { axis: 0.5 }, /axis 0.5 is outside/],
    [
      'slice',
      [param(tensorType('f32', 2)), f([], 'i32'), f([], 'i32')],
      { axis: 0.5 },
      /axis 0.5 is outside/,
    ],
    ['at', [param(tensorType('f32', 2)), f([], 'i32')], {}, /takes 2 indices, has 1/],
    ['rows', [param(tensorType('f32', 1)), f([4], 'i32'), f([], 'i32')], { width: 4 }, /two axes/],
    ['load', [param(refType('global', 'f32', [4])), f([3], 'bool')], {}, /mask has shape \[3\]/],
    ['load', [param(refType('global', 'f32', [4]))], { order: 'release', scope: 'system' }, /order release/],
    ['load', [param(refType('global', 'f32', [4]))], { order: 'acquire', scope: 'warp' }, /scope warp/],
    ['store', [param(refType('global', 'bf16', [4])), f([4])], {}, /cast it, with .to\(bf16\)/],
    ['copy', [param(refType('global', 'f32', [4])), param(refType('shared', 'f16', [4]))], {}, /load, cast/],
    [
      'atomic.cas',
      [param(refType('global', 'f32', [])), f(), f()],
      { order: 'relaxed', scope: 'system' },
      /not on f32/,
    ],
  ]
  it.each(wrong)('%s refuses %#', (op, inputs, attributes, message) => {
    const infer = () => inferType(op, { inputs, attributes: attributes as never, blocks: [] })
    expect(infer).toThrow(SpecError)
    expect(infer).toThrow(message)
  })
})
