/**
 * The available values of a generated kernel, with bounds: the maximum magnitude, and the maximum deviation of any
 * target from the exact real number. An error of 0 means that every target must return the same bits.
 *
 * Error bounds: a sum of n terms in any order has an error of n² half-units of its magnitude. A matrix product has the
 * error bound of a sum, whether its multiplications and additions are rounded together or separately. Functions that no
 * standard specifies have the bound `transcendental`.
 */
import type { DType } from '../../../src/ir/dtype.ts'
import type { Value } from '../../../src/index.ts'

export interface Entry {
  readonly value: Value
  readonly dtype: DType
  readonly shape: readonly number[]
  /** An upper bound on the magnitude of an f32 value, or Infinity if unknown. */
  readonly magnitude: number
  /** An upper bound on the deviation of an f32 value from the exact real number. */
  readonly error: number
}

/** The relative size of half a unit in the last place of an f32. */
export const halfUnit = 2 ** -24
/** The allowed error of a function that no standard specifies, relative to the largest result. */
export const transcendental = 2 ** -20

export function entry(value: Value, magnitude = Infinity, error = 0): Entry {
  return { value, dtype: value.dtype, shape: value.shape, magnitude, error }
}

export const isExact = ({ error }: Entry): boolean => error === 0

type Operands = (...operands: readonly (Value | number)[]) => Value

/** Calls a method of a value by its name. */
export function call(value: Value, method: string, ...operands: readonly (Value | number)[]): Value {
  return (value[method as keyof Value] as unknown as Operands).call(value, ...operands)
}

/** Clamps an f32 to at most `limit` in magnitude. The function maps a NaN to -limit. */
export function clamp(one: Entry, limit: number): Entry {
  if (one.magnitude <= limit) return one
  return entry(call(call(one.value, 'max', -limit), 'min', limit), limit, one.error)
}

/** Computes a op b for add, sub and mul on f32, where at least one operand may be inexact. */
export function inexactBinary(method: 'add' | 'sub' | 'mul', a: Entry, b: Entry): Entry {
  const value = call(a.value, method, b.value)
  const magnitude = method === 'mul' ? a.magnitude * b.magnitude : a.magnitude + b.magnitude
  if (isExact(a) && isExact(b)) return entry(value, magnitude)
  const inherited =
    method === 'mul' ? a.error * b.magnitude + b.error * a.magnitude + a.error * b.error : a.error + b.error
  return entry(value, magnitude, inherited + magnitude * halfUnit + 2 ** -149)
}

export const transcendentals = ['exp', 'log', 'sin', 'cos', 'erf', 'pow'] as const
type Transcendental = 'exp2' | 'log2' | 'tanh' | 'sigmoid' | 'rsqrt' | (typeof transcendentals)[number]

/** Applies a function that no standard specifies, on a domain where its slope is bounded. */
export function transcendentalOf(name: Transcendental, one: Entry): Entry {
  const made = (from: Entry, slope: number, magnitude: number): Entry =>
    entry(call(from.value, name), magnitude, slope * from.error + magnitude * transcendental)
  switch (name) {
    case 'exp2': {
      const small = clamp(one, 4)
      const largest = 2 ** small.magnitude
      return made(small, largest, largest)
    }
    case 'exp': {
      const small = clamp(one, 4)
      const largest = Math.exp(small.magnitude)
      return made(small, largest, largest)
    }
    case 'sin':
    case 'cos':
      return made(clamp(one, 2 ** 30), 1, 1)
    case 'erf':
      return made(clamp(one, 16), 1.2, 1)
    case 'tanh':
    case 'sigmoid':
      return made(clamp(one, 16), 1, 1)
    case 'log2':
    case 'log':
    case 'pow':
    case 'rsqrt': {
      const small = clamp(one, 8)
      const positive = entry(call(call(small.value, 'abs'), 'max', 0.5), 8, small.error)
      if (name === 'pow') {
        const [slope, magnitude] = [1.5 * 8 ** 0.5, 8 ** 1.5]
        const value = call(positive.value, name, 1.5)
        return entry(value, magnitude, slope * positive.error + magnitude * transcendental)
      }
      return name === 'rsqrt' ? made(positive, 1.5, 1.5) : made(positive, 3, 3)
    }
    default:
      return name satisfies never
  }
}

/** The sum along an axis. */
export function sumOf(one: Entry, axis: number): Entry {
  const extent = one.shape[axis]
  const value = call(one.value, 'sum', axis)
  if (one.dtype !== 'f32') return entry(value)
  const magnitude = one.magnitude * extent
  return entry(value, magnitude, extent * one.error + extent * magnitude * halfUnit + 2 ** -149)
}

/** The bounds of accumulator + a x b, for exact operands with magnitudes of at most `size`. */
export function dotError(
  accumulator: Entry,
  depth: number,
  size: number,
): { magnitude: number; error: number } {
  const magnitude = accumulator.magnitude + depth * size * size
  return { magnitude, error: accumulator.error + (depth + 1) * magnitude * halfUnit }
}
