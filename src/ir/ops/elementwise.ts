/**
 * Helpers for the records of ops on values: fields that many records share, dtypes, and records of elementwise
 * functions.
 */
import { round, type DType } from '../dtype.ts'
import type { Node } from '../node.ts'
import { elements, sameType, typeName, valueType, type Shape, type ValueType } from '../type.ts'
import {
  expectAmong,
  expectInputs,
  expectValue,
  fail,
  noMemory,
  straight,
  type Datum,
  type Op,
} from './op.ts'

/** The record fields that are equal for all ops whose result is computed, not read from memory. */
export const computed = {
  ...noMemory,
  ...straight,
  effect: 'pure',
  numbers: 'other',
  isView: false,
  ahead: 'both',
} as const
export const elementwise = { ...computed, elements: 'same' } as const
/**
 * The record fields that are equal for all ops without arithmetic: constants, and ops that return the same numbers at
 * other indices.
 */
export const free = { ...computed, operations: 0 } as const

/** The record of an op that applies a function of numbers to each element. */
export type Elementwise = Op & typeof elementwise

export const dtypeOf = (node: Node): DType => (node.type as ValueType).dtype
export const shapeOf = (node: Node): Shape => (node.type as ValueType).shape

/** Applies a function of numbers elementwise. All inputs of an elementwise op have the same shape. */
export function map(count: number, inputs: readonly Datum[], f: (...x: number[]) => number): Datum {
  if (typeof inputs[0] === 'number') return f(...(inputs as number[]))
  const out = new Float64Array(count)
  const [a, b, c] = inputs as Float64Array[]
  if (inputs.length === 1) for (let i = 0; i < count; i++) out[i] = f(a[i])
  else if (inputs.length === 2) for (let i = 0; i < count; i++) out[i] = f(a[i], b[i])
  else if (inputs.length === 3) for (let i = 0; i < count; i++) out[i] = f(a[i], b[i], c[i])
  else for (let i = 0; i < count; i++) out[i] = f(...(inputs as Float64Array[]).map((x) => x[i]))
  return out
}

export type ElementMeaning = (dtype: DType) => (...x: number[]) => number

export function unary(
  summary: string,
  allowed: readonly DType[],
  meaning: ElementMeaning,
  operations = 1,
): Elementwise {
  return {
    ...elementwise,
    operations,
    summary,
    infer(node) {
      expectInputs(node, 1)
      const type = expectValue(node.inputs[0], 'the operand')
      expectAmong(allowed, type.dtype)
      return type
    },
    evaluate: (node, inputs) => map(elements(shapeOf(node)), inputs, meaning(dtypeOf(node))),
  }
}

export function binary(
  summary: string,
  allowed: readonly DType[],
  meaning: ElementMeaning,
  {
    result = (dtype) => dtype,
    operations = 1,
    simplify,
  }: { result?: (dtype: DType) => DType; operations?: number; simplify?: Op['simplify'] } = {},
): Elementwise {
  return {
    ...elementwise,
    operations,
    summary,
    ...(simplify && { simplify }),
    infer(node) {
      expectInputs(node, 2)
      const a = expectValue(node.inputs[0], 'the left operand')
      const b = expectValue(node.inputs[1], 'the right operand')
      expectAmong(allowed, a.dtype)
      if (!sameType(a, b)) fail(`the operands differ: ${typeName(a)} and ${typeName(b)}`)
      return valueType(result(a.dtype), a.shape)
    },
    evaluate: (node, inputs) => map(elements(shapeOf(node)), inputs, meaning(dtypeOf(node.inputs[0]))),
  }
}

export const arithmetic: readonly DType[] = ['f32', 'i32', 'u32', 'i64']
export const integers: readonly DType[] = ['i32', 'u32', 'i64']
export const bits: readonly DType[] = ['i32', 'u32', 'i64', 'bool']
export const floats: readonly DType[] = ['f32']
export const comparable: readonly DType[] = [...arithmetic, 'bool']
export const toBool = (): DType => 'bool'
export const rounding =
  (f: (a: number, b: number) => number): ElementMeaning =>
  (dtype) =>
  (a, b) =>
    round(dtype, f(a, b))
export const compare =
  (f: (a: number, b: number) => boolean): ElementMeaning =>
  () =>
  (a, b) =>
    f(a, b) ? 1 : 0
export const float =
  (f: (x: number) => number): ElementMeaning =>
  () =>
  (x) =>
    Math.fround(f(x))

/**
 * Returns the smaller of two numbers. As on GPUs, the result of min and max is the other operand if one operand is NaN.
 */
export const minimum = (a: number, b: number): number =>
  Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.min(a, b)
export const maximum = (a: number, b: number): number =>
  Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.max(a, b)
