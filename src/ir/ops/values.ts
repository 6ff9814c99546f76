/**
 * Defines the ops on values: constants, ids, elementwise arithmetic, shape changes, reductions and the matrix product.
 */
import { ArithmeticError, cast, dtypes, round, type DType } from '../dtype.ts'
import { attribute, type Node } from '../node.ts'
import {
  broadcastShapes,
  elements,
  refType,
  sameShape,
  sameType,
  typeName,
  valueType,
  type Shape,
  type ValueType,
} from '../type.ts'
import {
  arithmetic,
  binary,
  bits,
  comparable,
  compare,
  dtypeOf,
  elementwise,
  free,
  integers,
  map,
  maximum,
  minimum,
  rounding,
  shapeOf,
  toBool,
  unary,
  type ElementMeaning,
} from './elementwise.ts'
import { axisOps } from './axes.ts'
import { functionOps } from './functions.ts'
import { productWait } from './companions.ts'
import {
  expectAxis,
  expectDType,
  expectInputs,
  expectScalar,
  expectShape,
  expectValue,
  fail,
  straight,
  type Op,
} from './op.ts'

/** Bitwise ops on i64 use BigInt. Bitwise ops on 32-bit dtypes use JavaScript's own operators. */
const bitwise =
  (narrow: (a: number, b: number) => number, wide: (a: bigint, b: bigint) => bigint): ElementMeaning =>
  (dtype) =>
    dtype === 'i64'
      ? (a, b) => round(dtype, Number(BigInt.asIntN(64, wide(BigInt(a), BigInt(b)))))
      : (a, b) => round(dtype, narrow(a, b))

function divide(dtype: DType, a: number, b: number): number {
  if (dtypes[dtype].kind === 'float') return Math.fround(a / b)
  if (b === 0) throw new ArithmeticError('integer division by zero')
  return round(dtype, Math.trunc(a / b))
}

function remainder(dtype: DType, a: number, b: number): number {
  if (b === 0) throw new ArithmeticError('integer remainder by zero')
  return round(dtype, a % b) + 0
}

const id = { ...free, elements: 'other', infer: () => valueType('i32') } as const

const isInteger = (dtype: DType): boolean => dtype !== 'f32'

/**
 * Replaces a sum of two integers, one of which is 0, by the other integer. The sum of a float and 0 cannot be replaced,
 * because -0 + 0 is 0, not -0.
 */
const unlessZero: Op['simplify'] = (dtype, [a, b]) =>
  !isInteger(dtype) ? undefined : b === 0 ? { input: 0 } : a === 0 ? { input: 1 } : undefined
const unlessRightZero: Op['simplify'] = (dtype, [, b]) =>
  isInteger(dtype) && b === 0 ? { input: 0 } : undefined

export const valueOps = {
  const: {
    ...free,
    elements: 'indices',
    numbers: 'given',
    summary: 'a constant: a number that is known when the kernel is recorded',
    infer: (node) => valueType(expectDType(node.attributes.dtype)),
    evaluate: (node) => attribute<number>(node, 'value'),
  },
  iota: {
    ...free,
    elements: 'indices',
    summary: 'the numbers 0, 1, 2, … as a fragment of i32',
    infer: (node) => valueType('i32', expectShape([node.attributes.extent as number], 'a fragment')),
    evaluate: (node) => Float64Array.from({ length: attribute<number>(node, 'extent') }, (_, i) => i),
  },
  rank: { ...id, varies: 'by rank', summary: 'the rank on which this program runs' },
  program: {
    ...id,
    varies: 'by program',
    summary: 'the index of this program among the programs of its launch on its rank',
  },
  programs: {
    ...id,
    varies: 'by program',
    summary: 'the number of programs that the launch has on this rank',
  },

  neg: unary('-x', arithmetic, (dtype) => (x) => round(dtype, -x)),
  abs: unary('|x|', ['f32', 'i32', 'i64'], (dtype) => (x) => round(dtype, Math.abs(x))),
  not: unary('the bitwise complement of x; for a bool, the negation', bits, (dtype) =>
    dtype === 'bool' ? (x) => (x ? 0 : 1) : (x) => round(dtype, dtype === 'i64' ? -x - 1 : ~x),
  ),
  ...functionOps,

  add: binary(
    'a + b',
    arithmetic,
    rounding((a, b) => a + b),
    { simplify: unlessZero },
  ),
  sub: binary(
    'a - b',
    arithmetic,
    rounding((a, b) => a - b),
    { simplify: unlessRightZero },
  ),
  mul: binary(
    'a * b',
    arithmetic,
    (dtype) =>
      dtype === 'i32'
        ? Math.imul
        : dtype === 'u32'
          ? (a, b) => Math.imul(a, b) >>> 0
          : (a, b) => round(dtype, a * b),
    {
      simplify(dtype, [a, b]) {
        if (b === 1 || (isInteger(dtype) && a === 0)) return { input: 0 }
        return a === 1 || (isInteger(dtype) && b === 0) ? { input: 1 } : undefined
      },
    },
  ),
  div: binary(
    'a / b; for integers, rounded towards zero',
    arithmetic,
    (dtype) => (a, b) => divide(dtype, a, b),
    {
      operations: 8,
      simplify: (_, [, b]) => (b === 1 ? { input: 0 } : undefined),
    },
  ),
  mod: binary(
    'the remainder of the division a / b, with the sign of a',
    integers,
    (dtype) => (a, b) => remainder(dtype, a, b),
    {
      operations: 8,
      simplify: (_, [, b]) => (b === 1 ? { value: 0 } : undefined),
    },
  ),
  min: binary('the smaller of a and b; if one of them is NaN, the other', arithmetic, () => minimum),
  max: binary('the larger of a and b; if one of them is NaN, the other', arithmetic, () => maximum),
  and: binary(
    'the bitwise and of a and b; for bools, the logical and',
    bits,
    bitwise(
      (a, b) => a & b,
      (a, b) => a & b,
    ),
  ),
  or: binary(
    'the bitwise or of a and b; for bools, the logical or',
    bits,
    bitwise(
      (a, b) => a | b,
      (a, b) => a | b,
    ),
    { simplify: unlessZero },
  ),
  xor: binary(
    'the bitwise exclusive or of a and b',
    bits,
    bitwise(
      (a, b) => a ^ b,
      (a, b) => a ^ b,
    ),
    { simplify: unlessZero },
  ),
  shl: binary(
    'a shifted left by b bits',
    integers,
    bitwise(
      (a, b) => a << b,
      (a, b) => a << b,
    ),
    { simplify: unlessRightZero },
  ),
  shr: binary(
    'a shifted right by b bits; for signed integers, an arithmetic shift',
    integers,
    (dtype) =>
      dtype === 'u32'
        ? (a, b) => (a >>> b) >>> 0
        : dtype === 'i64'
          ? (a, b) => Math.floor(a / 2 ** b)
          : (a, b) => a >> b,
    { simplify: unlessRightZero },
  ),

  eq: binary(
    'a = b',
    comparable,
    compare((a, b) => a === b),
    { result: toBool },
  ),
  ne: binary(
    'a ≠ b',
    comparable,
    compare((a, b) => a !== b),
    { result: toBool },
  ),
  lt: binary(
    'a < b',
    arithmetic,
    compare((a, b) => a < b),
    { result: toBool },
  ),
  le: binary(
    'a ≤ b',
    arithmetic,
    compare((a, b) => a <= b),
    { result: toBool },
  ),
  gt: binary(
    'a > b',
    arithmetic,
    compare((a, b) => a > b),
    { result: toBool },
  ),
  ge: binary(
    'a ≥ b',
    arithmetic,
    compare((a, b) => a >= b),
    { result: toBool },
  ),

  select: {
    ...elementwise,
    numbers: [1, 2],
    operations: 1,
    summary: 'the elements of a where the condition is true, and those of b where it is false',
    infer(node) {
      expectInputs(node, 3)
      const condition = expectValue(node.inputs[0], 'the condition')
      const a = expectValue(node.inputs[1], 'the first choice')
      const b = expectValue(node.inputs[2], 'the second choice')
      if (condition.dtype !== 'bool') fail(`the condition must be bool, not ${typeName(condition)}`)
      if (!sameType(a, b)) fail(`the choices differ: ${typeName(a)} and ${typeName(b)}`)
      if (!sameShape(condition.shape, a.shape))
        fail(`the condition must have the same shape as the two choices`)
      return a
    },
    evaluate: (node, inputs) => map(elements(shapeOf(node)), inputs, (c, a, b) => (c ? a : b)),
    simplify: (_, [condition]) => (condition === undefined ? undefined : { input: condition ? 1 : 2 }),
  },
  cast: {
    ...elementwise,
    numbers: [0],
    operations: 1,
    summary: 'converts the elements of a value to another dtype',
    infer(node) {
      expectInputs(node, 1)
      return valueType(expectDType(node.attributes.dtype), expectValue(node.inputs[0], 'the operand').shape)
    },
    evaluate(node, inputs) {
      const from = dtypeOf(node.inputs[0])
      const to = dtypeOf(node)
      return map(elements(shapeOf(node)), inputs, (x) => cast(from, to, x))
    },
  },

  ...axisOps,

  expand: {
    ...free,
    elements: 'stretched',
    numbers: [0],
    summary: 'adds an axis of extent 1 to a fragment',
    infer(node) {
      expectInputs(node, 1)
      const type = expectValue(node.inputs[0], 'the operand')
      const axis = node.attributes.axis as number
      expectAxis(axis, type.shape.length + 1, type)
      const shape = [...type.shape.slice(0, axis), 1, ...type.shape.slice(axis)]
      return valueType(type.dtype, expectShape(shape, 'a fragment'))
    },
    evaluate: (_, [input]) => (typeof input === 'number' ? Float64Array.of(input) : input),
  },
  broadcast: {
    ...free,
    elements: 'stretched',
    numbers: [0],
    summary: 'repeats a scalar, or the axes of extent 1 of a fragment, to fill a shape',
    infer(node) {
      expectInputs(node, 1)
      const type = expectValue(node.inputs[0], 'the operand')
      const shape = expectShape(node.attributes.shape as Shape, 'a fragment')
      const common = broadcastShapes(type.shape, shape)
      if (!common || !sameShape(common, shape))
        fail(`${typeName(type)} cannot be broadcast to [${shape.join('x')}]`)
      return valueType(type.dtype, shape)
    },
    evaluate(node, [input]) {
      const shape = shapeOf(node)
      const out = new Float64Array(elements(shape))
      if (typeof input === 'number') return out.fill(input)
      const from = shapeOf(node.inputs[0])
      const [rows, columns] = shape.length === 1 ? [1, shape[0]] : [shape[0], shape[1]]
      const fromColumns = from[from.length - 1]
      const fromRows = from.length === 2 ? from[0] : 1
      for (let i = 0; i < rows; i++)
        for (let j = 0; j < columns; j++)
          out[i * columns + j] = input[(fromRows === 1 ? 0 : i) * fromColumns + (fromColumns === 1 ? 0 : j)]
      return out
    },
  },
  transpose: {
    ...free,
    elements: 'moved',
    numbers: [0],
    isView: true,
    summary:
      'exchanges the rows and columns of a fragment or shared tile; for a shared tile, the result is a view of the same elements',
    infer(node) {
      expectInputs(node, 1)
      const type = node.inputs[0].type
      if ((type.kind !== 'value' && type.kind !== 'ref') || type.shape.length !== 2)
        fail(`needs a fragment or a shared tile of two axes, not ${typeName(type)}`)
      const shape = [type.shape[1], type.shape[0]]
      if (type.kind === 'value') return valueType(type.dtype, shape)
      if (type.space !== 'shared') fail('copy a global tile to shared memory before transposing it')
      return refType('shared', type.dtype, shape)
    },
    evaluate(node, [input]) {
      const [rows, columns] = shapeOf(node)
      const data = input as Float64Array
      const out = new Float64Array(data.length)
      for (let i = 0; i < rows; i++)
        for (let j = 0; j < columns; j++) out[i * columns + j] = data[j * rows + i]
      return out
    },
  },
  dot: {
    ...straight,
    needs: productWait,
    completes: 'by unit',
    effect: 'read',
    elements: 'other',
    numbers: 'other',
    isView: false,
    ahead: 'consumer',
    accesses: [
      { at: 0, level: 'shared', reads: true, writes: false },
      { at: 1, level: 'shared', reads: true, writes: false },
      // The access to operands of a matrix product that a compiler stage has copied from registers to shared memory.
      { at: 3, level: 'shared', reads: true, writes: false },
    ],
    order: 'none',
    scope: 'none',
    operations: ({ inputs }) => 2 * (inputs[0].type as ValueType).shape[1],
    summary:
      'the matrix product accumulator + a x b; products are exact, and the hardware keeps sums in f32 (i32 for i8), the evaluator in f64',
    infer(node) {
      expectInputs(node, 3, 4)
      const [a, b, acc] = node.inputs.map((input) => input.type)
      if (node.inputs.length > 3 && node.inputs[3].op !== 'staging')
        fail(`the fourth input must be a staging buffer (staging), not ${node.inputs[3].op}`)
      for (const [type, name] of [
        [a, 'a'],
        [b, 'b'],
      ] as const) {
        if ((type.kind !== 'value' && type.kind !== 'ref') || type.shape.length !== 2)
          fail(`operand ${name} must be a shared tile or a fragment of two axes, not ${typeName(type)}`)
      }
      const left = a as ValueType
      const right = b as ValueType
      if (left.dtype !== right.dtype) fail(`the operands differ: ${left.dtype} and ${right.dtype}`)
      if (!['f32', 'f16', 'bf16', 'f8e4m3', 'f8e5m2', 'i8'].includes(left.dtype))
        fail(`is not defined on ${left.dtype}`)
      const wanted = valueType(left.dtype === 'i8' ? 'i32' : 'f32', [left.shape[0], right.shape[1]])
      if (left.shape[1] !== right.shape[0])
        fail(`the inner extents differ: [${left.shape.join('x')}] x [${right.shape.join('x')}]`)
      if (!sameType(acc, wanted)) fail(`the accumulator must be ${typeName(wanted)}, not ${typeName(acc)}`)
      return wanted
    },
    evaluate(node, inputs) {
      const [a, b, acc] = inputs as Float64Array[]
      const [m, n] = shapeOf(node)
      const k = (node.inputs[0].type as ValueType).shape[1]
      const dtype = dtypeOf(node)
      const out = new Float64Array(m * n)
      for (let i = 0; i < m; i++)
        for (let j = 0; j < n; j++) {
          let sum = acc[i * n + j]
          for (let l = 0; l < k; l++) sum += a[i * k + l] * b[l * n + j]
          out[i * n + j] = round(dtype, sum)
        }
      return out
    },
  },
} as const satisfies Record<string, Op>

/** Checks an index of the view op `at`, which may be a scalar or a fragment. */
export function expectIndex(node: Node | undefined, what: string): ValueType {
  const type = expectValue(node, what)
  if (type.shape.length === 0) return expectScalar(node, what)
  if (type.dtype !== 'i32') fail(`${what} must be i32, not ${typeName(type)}`)
  return type
}
