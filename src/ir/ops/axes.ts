/**
 * Defines the ops that reduce an axis or change the indices of elements: reductions, the index of the largest element,
 * running sums, reshaping and interleaving.
 */
import { round } from '../dtype.ts'
import { attribute, type Node } from '../node.ts'
import { elements, sameType, typeName, valueType, type Shape, type ValueType } from '../type.ts'
import { arithmetic, computed, free, maximum, minimum, shapeOf } from './elementwise.ts'
import {
  expectAmong,
  expectAxis,
  expectInputs,
  expectShape,
  expectValue,
  fail,
  type Op,
  type Unplaced,
} from './op.ts'

/** Checks the operand and the axis of an op that works along an axis. */
function expectAlong(node: Unplaced): ValueType {
  const type = expectValue(node.inputs[0], 'the operand')
  expectAmong(arithmetic, type.dtype)
  expectAxis(node.attributes.axis, type.shape.length, type)
  return type
}

/** A row or column of elements along an axis: element k is at index first + k * step. */
interface Line {
  readonly first: number
  readonly step: number
  readonly extent: number
}

/** The rows or columns of the first input along the node's axis, in row-major order of the other axes. */
function linesOf(node: Node): Line[] {
  const { shape } = node.inputs[0].type as ValueType
  const axis = attribute<number>(node, 'axis')
  const step = elements(shape.slice(axis + 1))
  const extent = shape[axis]
  return Array.from({ length: elements(shape) / extent }, (_, i) => ({
    first: Math.floor(i / step) * extent * step + (i % step),
    step,
    extent,
  }))
}

const reducing = { ...computed, elements: 'reduced', meets: 'exchange' } as const

function reduction(
  summary: string,
  start: number | undefined,
  combine: (a: number, b: number) => number,
): Op & typeof reducing {
  return {
    ...reducing,
    operations: ({ inputs, attributes }) => (inputs[0].type as ValueType).shape[attributes.axis as number],
    summary,
    infer(node) {
      expectInputs(node, 1)
      const { dtype, shape } = expectAlong(node)
      return valueType(
        dtype,
        shape.filter((_, i) => i !== node.attributes.axis),
      )
    },
    evaluate(node, [input]) {
      const { dtype } = node.inputs[0].type as ValueType
      const data = input as Float64Array
      const out = Float64Array.from(linesOf(node), ({ first, step, extent }) => {
        let total = start ?? data[first]
        for (let k = start === undefined ? 1 : 0; k < extent; k++)
          total = combine(total, data[first + k * step])
        return round(dtype, total)
      })
      return shapeOf(node).length === 0 ? out[0] : out
    },
  }
}

const gathered = { ...computed, elements: 'gathered', meets: 'exchange' } as const

/**
 * The index of the best element (largest or smallest) along an axis. For argmax and argmin, a NaN is better than any
 * number, and of equal elements the first is best.
 */
function argument(summary: string, isBetter: (a: number, b: number) => boolean): Op & typeof gathered {
  return {
    ...gathered,
    operations: ({ inputs, attributes }) =>
      2 * (inputs[0].type as ValueType).shape[attributes.axis as number],
    summary,
    infer(node) {
      expectInputs(node, 1)
      const { shape } = expectAlong(node)
      return valueType(
        'i32',
        shape.filter((_, i) => i !== node.attributes.axis),
      )
    },
    evaluate(node, [input]) {
      const data = input as Float64Array
      const out = Float64Array.from(linesOf(node), ({ first, step, extent }) => {
        let best = 0
        for (let k = 1; k < extent; k++) {
          const [held, next] = [data[first + best * step], data[first + k * step]]
          if (!Number.isNaN(held) && (Number.isNaN(next) || isBetter(next, held))) best = k
        }
        return best
      })
      return shapeOf(node).length === 0 ? out[0] : out
    },
  }
}

export const axisOps = {
  'reduce.sum': reduction('the sum of the elements along an axis', 0, (a, b) => a + b),
  'reduce.max': reduction('the largest element along an axis', undefined, maximum),
  'reduce.min': reduction('the smallest element along an axis', undefined, minimum),
  argmax: argument(
    'the index of the largest element along an axis; a NaN counts as the largest, and of equal elements the first wins',
    (a, b) => a > b,
  ),
  argmin: argument(
    'the index of the smallest element along an axis; a NaN counts as the smallest, and of equal elements the first wins',
    (a, b) => a < b,
  ),
  cumsum: {
    ...gathered,
    operations: 1,
    summary: 'running sums along an axis: every sum is rounded, and the elements are added in order',
    infer(node) {
      expectInputs(node, 1)
      return expectAlong(node)
    },
    evaluate(node, [input]) {
      const { dtype } = node.inputs[0].type as ValueType
      const out = Float64Array.from(input as Float64Array)
      for (const { first, step, extent } of linesOf(node))
        for (let k = 1; k < extent; k++)
          out[first + k * step] = round(dtype, out[first + (k - 1) * step] + out[first + k * step])
      return out
    },
  },
  reshape: {
    ...free,
    elements: 'gathered',
    meets: 'exchange',
    numbers: [0],
    summary: 'the elements of a fragment, in row-major order, as a fragment of another shape',
    infer(node) {
      expectInputs(node, 1)
      const type = expectValue(node.inputs[0], 'the operand')
      const shape = expectShape(node.attributes.shape as Shape, 'a fragment')
      if (type.shape.length === 0) fail('a scalar has no shape to change: use x.broadcast(shape)')
      if (elements(shape) !== elements(type.shape))
        fail(
          `${typeName(type)} has ${elements(type.shape)} elements, [${shape.join('x')}] has ${elements(shape)}`,
        )
      return valueType(type.dtype, shape)
    },
    evaluate: (_, [input]) => input,
  },
  interleave: {
    ...free,
    elements: 'gathered',
    meets: 'exchange',
    numbers: [0, 1],
    summary: 'interleaves the elements of a and b along the last axis: a, b, a, b, …',
    infer(node) {
      expectInputs(node, 2)
      const a = expectValue(node.inputs[0], 'the left operand')
      const b = expectValue(node.inputs[1], 'the right operand')
      if (a.shape.length === 0) fail('needs two fragments, not scalars')
      if (!sameType(a, b)) fail(`the operands differ: ${typeName(a)} and ${typeName(b)}`)
      return valueType(a.dtype, [...a.shape.slice(0, -1), 2 * a.shape[a.shape.length - 1]])
    },
    evaluate(_, inputs) {
      const [a, b] = inputs as Float64Array[]
      return Float64Array.from({ length: 2 * a.length }, (_, i) => (i % 2 === 0 ? a : b)[i >> 1])
    },
  },
} as const satisfies Record<string, Op>
