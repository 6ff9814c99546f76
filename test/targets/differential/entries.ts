/**
 * The values a generated kernel has at hand, with what is known about them: how large they can be, and by how much two targets
 * may differ from the real number they stand for. An error of 0 means that every target must have the same bits.
 *
 * The bounds: a sum of n terms in any order n² half-units of its size, a product of matrices likewise with fused or separate
 * roundings, and `transcendental` for the functions that no standard fixes.
 */
import type { DType } from '../../../src/ir/dtype.ts'
import type { Value } from '../../../src/index.ts'

export interface Entry {
  readonly value: Value
  readonly dtype: DType
  readonly shape: readonly number[]
  /** Of f32: no larger than this; Infinity where nothing is known. */
  readonly magnitude: number
  /** Of f32: no further than this from the real number. */
  readonly error: number
}

/** Half a unit in the last place, relative. */
export const halfUnit = 2 ** -24
/** What exp2, log2, tanh, sigmoid and rsqrt may be off, relative to the largest result. */
export const transcendental = 2 ** -20

export function entry(value: Value, magnitude = Infinity, error = 0): Entry {
  return { value, dtype: value.dtype, shape: value.shape, magnitude, error }
}

export const isExact = ({ error }: Entry): boolean => error === 0

type Operands = (...operands: readonly (Value | number)[]) => Value

/** A method of a value by its name: what a generator writes instead of code. */
export function call(value: Value, method: string, ...operands: readonly (Value | number)[]): Value {
  return (value[method as keyof Value] as unknown as Operands).call(value, ...operands)
}

/** Of an f32 at most `limit` in size, whatever it was: a NaN becomes -limit. */
export function clamp(one: Entry, limit: number): Entry {
  if (one.magnitude <= limit) return one
  return entry(call(call(one.value, 'max', -limit), 'min', limit), limit, one.error)
}

/** a op b for add, sub and mul on f32 where one of them is not exact. */
export function inexactBinary(method: 'add' | 'sub' | 'mul', a: Entry, b: Entry): Entry {
  const value = call(a.value, method, b.value)
  const magnitude = method === 'mul' ? a.magnitude * b.magnitude : a.magnitude + b.magnitude
  if (isExact(a) && isExact(b)) return entry(value, magnitude)
  const inherited =
    method === 'mul' ? a.error * b.magnitude + b.error * a.magnitude + a.error * b.error : a.error + b.error
  return entry(value, magnitude, inherited + magnitude * halfUnit + 2 ** -149)
}

/** The functions no standard fixes, each on a domain where its slope is bounded. */
export function transcendentalOf(name: 'exp2' | 'log2' | 'tanh' | 'sigmoid' | 'rsqrt', one: Entry): Entry {
  const made = (from: Entry, slope: number, magnitude: number): Entry =>
    entry(call(from.value, name), magnitude, slope * from.error + magnitude * transcendental)
  switch (name) {
    case 'exp2': {
      const small = clamp(one, 4)
      const largest = 2 ** small.magnitude
      return made(small, largest, largest)
    }
    case 'tanh':
    case 'sigmoid':
      return made(clamp(one, 16), 1, 1)
    case 'log2':
    case 'rsqrt': {
      const small = clamp(one, 8)
      const positive = entry(call(call(small.value, 'abs'), 'max', 0.5), 8, small.error)
      return name === 'log2' ? made(positive, 3, 3) : made(positive, 1.5, 1.5)
    }
    default:
      return name satisfies never
  }
}

/** The sum along an axis of `extent` elements. */
export function sumOf(one: Entry, axis: number): Entry {
  const extent = one.shape[axis]
  const value = call(one.value, 'sum', axis)
  if (one.dtype !== 'f32') return entry(value)
  const magnitude = one.magnitude * extent
  return entry(value, magnitude, extent * one.error + extent * magnitude * halfUnit + 2 ** -149)
}

/** accumulator + a x b, with operands that are exact and no larger than `size`. */
export function dotError(
  accumulator: Entry,
  depth: number,
  size: number,
): { magnitude: number; error: number } {
  const magnitude = accumulator.magnitude + depth * size * size
  return { magnitude, error: accumulator.error + (depth + 1) * magnitude * halfUnit }
}
