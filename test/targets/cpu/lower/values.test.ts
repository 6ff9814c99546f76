/**
 * Tests that lowered operations on values match their op records, for every dtype, on scalars and on fragments of odd
 * shapes.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cast, dtypes, round, type DType, type StorageDType } from '../../../../src/ir/dtype.ts'
import type { OpName } from '../../../../src/ir/ops/index.ts'
import { ops } from '../../../../src/ir/ops/index.ts'
import { valueType } from '../../../../src/ir/type.ts'
import { kernel, tensor, type Fragment } from '../../../../src/index.ts'
import { evaluate } from '../../../ir/build.ts'
import { Harness, wasmPlatform } from '../harness.ts'

const platform = wasmPlatform()
const shapes = [
  [3, 5],
  [4, 8],
  [1, 7],
  [5, 1],
  [2, 13],
] as const

/** Numbers of a dtype, including its special values. */
const numbers = (dtype: DType): fc.Arbitrary<number> => {
  if (dtype === 'bool') return fc.constantFrom(0, 1)
  const info = dtypes[dtype]
  if (info.kind === 'float')
    return fc
      .oneof(
        fc.constantFrom(
          0,
          -0,
          1,
          -1,
          0.5,
          info.max,
          info.min,
          Infinity,
          -Infinity,
          NaN,
          1e-40,
          2 ** -126,
          3.5,
          -2.5,
        ),
        fc.double({ min: -300, max: 300, noNaN: true }).map(Math.fround),
        fc.float({ noNaN: true }),
      )
      .map((x) => round(dtype, x))
  const [low, high] = dtype === 'i64' ? [-(2 ** 31), 2 ** 31] : [info.min, info.max]
  return fc.oneof(fc.constantFrom(0, 1, high, low, 2, 7), fc.integer({ min: low, max: high }))
}

const storable = (dtype: DType): StorageDType => (dtype === 'bool' ? 'i32' : dtype)

/** Applies an op to whole fragments in a kernel. */
function apply(
  op: OpName,
  types: readonly DType[],
  shape: readonly [number, number],
  data: readonly (readonly number[])[],
  attributes: Readonly<Record<string, string>> = {},
): Float64Array {
  const result = attributes.dtype as DType | undefined
  const probe = evaluate(
    op,
    types.map((dtype) => valueType(dtype, shape)),
    data.map((one) => Float64Array.from(one)),
    attributes,
  )
  const isBool = ['eq', 'ne', 'lt', 'le', 'gt', 'ge'].includes(op)
  const output: DType = result ?? (isBool ? 'bool' : op === 'select' ? types[1] : types[0])
  const params = {
    a: tensor(storable(types[0]), 2),
    b: tensor(storable(types[1] ?? 'i32'), 2),
    c: tensor(storable(types[2] ?? 'i32'), 2),
    out: tensor(storable(output), 2),
  }
  const program = kernel(`apply_${op}`, params, (t, args) => {
    const inputs = types.map((dtype, i) => {
      const loaded = t.load([args.a, args.b, args.c][i].tile([0, 0], shape)) as Fragment<'i32', 2>
      return dtype === 'bool' ? loaded.ne(0) : loaded
    })
    const method = op === 'cast' ? 'to' : op
    const rest = op === 'cast' ? [result] : inputs.slice(1)
    const target = inputs[0] as unknown as Record<string, (...rest: unknown[]) => Fragment<'i32', 2>>
    const value = target[method](...rest)
    t.store(args.out.tile([0, 0], shape) as never, (output === 'bool' ? value.to('i32') : value) as never)
  })
  const harness = new Harness(platform, 1)
  const [a, b, c] = [0, 1, 2].map((i) =>
    harness.from(storable(types[i] ?? 'i32'), shape, data[i] ?? new Array(shape[0] * shape[1]).fill(0)),
  )
  const out = harness.empty(storable(output), shape)
  harness.launch(program, { a, b, c, out }, { grid: 1 })
  expect(harness.returned).toEqual([1])
  expect(probe).toBeInstanceOf(Float64Array)
  return harness.read(out, 0)
}

const reals: readonly DType[] = ['f32']
const integers: readonly DType[] = ['i32', 'u32', 'i64']
const exactOps: readonly (readonly [OpName, readonly DType[], number])[] = [
  ['neg', [...reals, ...integers], 1],
  ['abs', ['f32', 'i32', 'i64'], 1],
  ['not', [...integers, 'bool'], 1],
  ['sqrt', reals, 1],
  ['rsqrt', reals, 1],
  ['floor', reals, 1],
  ['ceil', reals, 1],
  ['round', reals, 1],
  ['add', [...reals, ...integers], 2],
  ['sub', [...reals, ...integers], 2],
  ['mul', ['f32', 'i32', 'u32'], 2],
  ['div', reals, 2],
  ['min', [...reals, ...integers], 2],
  ['max', [...reals, ...integers], 2],
  ['and', [...integers, 'bool'], 2],
  ['or', [...integers, 'bool'], 2],
  ['xor', [...integers, 'bool'], 2],
  ['eq', [...reals, ...integers, 'bool'], 2],
  ['ne', [...reals, ...integers, 'bool'], 2],
  ['lt', [...reals, ...integers], 2],
  ['le', [...reals, ...integers], 2],
  ['gt', [...reals, ...integers], 2],
  ['ge', [...reals, ...integers], 2],
]
const same = (actual: ArrayLike<number>, expected: ArrayLike<number>): void => {
  expect(Array.from(actual, (x) => (Object.is(x, -0) ? '-0' : String(x)))).toEqual(
    Array.from(expected, (x) => (Object.is(x, -0) ? '-0' : String(x))),
  )
}

function expectMeaning(
  op: OpName,
  types: readonly DType[],
  limit: (values: number[], i: number) => number[] = (v) => v,
  attributes: Readonly<Record<string, string>> = {},
): void {
  fc.assert(
    fc.property(
      fc.constantFrom(...shapes),
      fc.infiniteStream(fc.tuple(...types.map(numbers))),
      (shape, stream) => {
        const count = shape[0] * shape[1]
        const rows = [...stream.take(count)]
        const data = types.map((_, i) =>
          limit(
            rows.map((row) => row[i]),
            i,
          ),
        )
        const expected = evaluate(
          op,
          types.map((dtype) => valueType(dtype, shape)),
          data.map((one) => Float64Array.from(one)),
          attributes,
        )
        same(apply(op, types, shape, data, attributes), expected as Float64Array)
      },
    ),
    { seed: 3, numRuns: 4 },
  )
}

describe('operations on elements', () => {
  it.each(exactOps.flatMap(([op, types, arity]) => types.map((dtype) => [op, dtype, arity] as const)))(
    '%s of %s',
    (op, dtype, arity) => expectMeaning(op, new Array<DType>(arity).fill(dtype)),
  )
  it.each(integers)('div and mod of %s', (dtype) => {
    const nonZero = (values: number[], i: number): number[] => (i === 1 ? values.map((x) => x || 3) : values)
    expectMeaning('div', [dtype, dtype], nonZero)
    expectMeaning('mod', [dtype, dtype], nonZero)
  })
  it.each(['i32', 'u32'] as const)('shifts of %s, by each element', (dtype) => {
    const amounts = (values: number[], i: number): number[] =>
      i === 1 ? values.map((x) => Math.abs(x) % 32) : values
    expectMeaning('shl', [dtype, dtype], amounts)
    expectMeaning('shr', [dtype, dtype], amounts)
  })
  it('select', () => {
    for (const dtype of [...reals, ...integers] as DType[]) expectMeaning('select', ['bool', dtype, dtype])
  })
  const every = (Object.keys(dtypes) as DType[]).filter((dtype) => dtype !== 'bool')
  it.each(every.flatMap((from) => every.filter((to) => to !== from).map((to) => [from, to] as const)))(
    'cast from %s to %s',
    (from, to) => {
      fc.assert(
        fc.property(fc.array(numbers(from), { minLength: 15, maxLength: 15 }), (values) => {
          same(
            apply('cast', [from], [3, 5], [values], { dtype: to }),
            values.map((x) => cast(from, to, x)),
          )
        }),
        { seed: 5, numRuns: 2 },
      )
    },
  )
  it.each(['exp2', 'log2', 'tanh', 'sigmoid', 'exp', 'log', 'sin', 'cos', 'erf'] as const)(
    '%s is close',
    (op) => {
      fc.assert(
        fc.property(
          fc.array(
            fc.double({ min: -20, max: 20, noNaN: true }).map((x) => Math.fround(x)),
            { minLength: 26, maxLength: 26 },
          ),
          (values) => {
            const actual = apply(op, ['f32'], [2, 13], [values])
            const expected = evaluate(
              op,
              [valueType('f32', [2, 13])],
              [Float64Array.from(values)],
            ) as Float64Array
            actual.forEach((x, i) => {
              if (Number.isNaN(expected[i])) expect(x).toBeNaN()
              else if (Number.isFinite(expected[i]))
                expect(Math.abs(x - expected[i])).toBeLessThanOrEqual(
                  2e-6 * Math.max(Math.abs(expected[i]), 1),
                )
              else expect(x).toBe(expected[i])
            })
          },
        ),
        { seed: 7, numRuns: 4 },
      )
    },
  )
  it('covers every operation on elements', () => {
    const covered = new Set<string>([
      ...exactOps.map(([op]) => op),
      'div',
      'mod',
      'shl',
      'shr',
      'select',
      'cast',
      'exp2',
      'log2',
      'tanh',
      'sigmoid',
      'exp',
      'log',
      'sin',
      'cos',
      'erf',
      'pow',
    ])
    const shaping = [
      'const',
      'iota',
      'rank',
      'program',
      'programs',
      'expand',
      'broadcast',
      'transpose',
      'dot',
      'epoch',
      'dim',
      'param',
      'result',
    ]
    const missing = Object.entries(ops).filter(
      ([name, op]) => op.effect === 'pure' && op.evaluate && !covered.has(name) && !shaping.includes(name),
    )
    // Ops that are tested in test/targets/primitives/gathered.test.ts.
    const gathered = ['argmax', 'argmin', 'cumsum', 'reshape', 'interleave']
    // The op `random` is tested in test/targets/primitives/random.test.ts.
    const random = ['random']
    // Only GPU stages insert `convert` and `combine`, so no CPU lowering sees them.
    const others = ['reduce.sum', 'reduce.max', 'reduce.min', ...gathered, ...random, 'convert', 'combine']
    expect(missing.map(([name]) => name)).toEqual(others)
  })
})

describe('reductions', () => {
  it.each(['f32', 'i32', 'u32', 'i64'] as const)('of %s along both axes', (dtype) => {
    const harness = new Harness(platform, 1)
    for (const shape of [
      [3, 5],
      [7, 16],
      [4, 37],
      [1, 9],
      [9, 1],
    ] as const)
      for (const axis of [0, 1])
        for (const op of ['sum', 'maximum', 'minimum'] as const) {
          const count = shape[0] * shape[1]
          const data = Array.from({ length: count }, (_, i) =>
            round(dtype, ((i * 37) % 101) - (dtype === 'u32' ? 0 : 50)),
          )
          const program = kernel(
            `reduce_${op}_${shape.join('x')}_${axis}`,
            { x: tensor(dtype, 2), out: tensor(dtype, 1) },
            (t, { x, out }) => {
              const value = t.load(x.tile([0, 0], shape)) as Fragment<'f32', 2>
              t.store(out.tile([0], [shape[1 - axis]]) as never, value[op](axis) as never)
            },
          )
          const x = harness.from(dtype, shape, data)
          const out = harness.empty(dtype, [shape[1 - axis]])
          harness.launch(program, { x, out }, { grid: 1 })
          const name = { sum: 'reduce.sum', maximum: 'reduce.max', minimum: 'reduce.min' } as const
          const expected = evaluate(name[op], [valueType(dtype, shape)], [Float64Array.from(data)], {
            axis,
          }) as Float64Array
          same(harness.read(out, 0), expected)
        }
  })
})
