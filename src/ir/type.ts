/**
 * Defines the types of IR nodes. Shapes of values, tiles and shared memory are static; extents of tensors are not.
 *
 *   value     a scalar (shape []) or a fragment: elements in registers
 *   tensor    a view of a symmetric tensor on one rank's heap; extents are known at launch
 *   ref       a reference to elements in global or shared memory, one per element of its shape
 *   flags     a view of a flag set on one rank; rank 0 is one flag
 *   barriers  arrival barriers inside a program (full/empty); count 0 is one barrier picked from an array
 *   void      no value
 */
import type { DType } from './dtype.ts'

export type Shape = readonly number[]
export type Space = 'global' | 'shared'

export interface ValueType {
  readonly kind: 'value'
  readonly dtype: DType
  readonly shape: Shape
}
export interface TensorType {
  readonly kind: 'tensor'
  readonly dtype: DType
  readonly rank: number
}
export interface RefType {
  readonly kind: 'ref'
  readonly space: Space
  readonly dtype: DType
  readonly shape: Shape
}
export interface FlagsType {
  readonly kind: 'flags'
  readonly rank: number
  readonly arrivals: number
}
export interface BarriersType {
  readonly kind: 'barriers'
  readonly count: number
  readonly arrivals: number
}
export interface VoidType {
  readonly kind: 'void'
}

export type Type = ValueType | TensorType | RefType | FlagsType | BarriersType | VoidType

export const valueType = (dtype: DType, shape: Shape = []): ValueType => ({ kind: 'value', dtype, shape })
export const tensorType = (dtype: DType, rank: number): TensorType => ({ kind: 'tensor', dtype, rank })
export const refType = (space: Space, dtype: DType, shape: Shape): RefType => ({
  kind: 'ref',
  space,
  dtype,
  shape,
})
export const flagsType = (rank: number, arrivals = 1): FlagsType => ({ kind: 'flags', rank, arrivals })
export const barriersType = (count: number, arrivals: number): BarriersType => ({
  kind: 'barriers',
  count,
  arrivals,
})
export const voidType: VoidType = { kind: 'void' }

export const elements = (shape: Shape): number => shape.reduce((product, extent) => product * extent, 1)

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((extent, axis) => extent === b[axis])
}

export function sameType(a: Type, b: Type): boolean {
  return typeName(a) === typeName(b)
}

/**
 * The common shape of two shapes under NumPy's broadcasting rule: axes are aligned at the last axis, and an extent of 1
 * is repeated. The result is undefined if the shapes are incompatible.
 */
export function broadcastShapes(a: Shape, b: Shape): Shape | undefined {
  const rank = Math.max(a.length, b.length)
  const shape: number[] = []
  for (let axis = 0; axis < rank; axis++) {
    const x = a[a.length - rank + axis] ?? 1
    const y = b[b.length - rank + axis] ?? 1
    if (x !== y && x !== 1 && y !== 1) return undefined
    shape.push(x === 1 ? y : x)
  }
  return shape
}

export function typeName(type: Type): string {
  switch (type.kind) {
    case 'value':
      return type.shape.length === 0 ? type.dtype : `${type.dtype}[${type.shape.join('x')}]`
    case 'tensor':
      return `tensor<${type.dtype},${type.rank}>`
    case 'ref':
      return `${type.space}<${type.dtype}[${type.shape.join('x')}]>`
    case 'flags':
      return type.rank === 0 ? 'flag' : `flags<${type.rank}>`
    case 'barriers':
      return type.count === 0 ? 'barrier' : `barriers<${type.count}>`
    case 'void':
      return 'void'
    default:
      return type satisfies never
  }
}
