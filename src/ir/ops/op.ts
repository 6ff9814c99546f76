/**
 * What an op is: a signature that infers its type or says what is wrong, its side effect, and, for pure ops, its meaning
 * in plain TypeScript. The meaning is the oracle: the checker evaluates it and every target is compared with it.
 */
import { dtypes, isDType, type DType } from '../dtype.ts'
import type { Attributes, Block, Node } from '../node.ts'
import { typeName, type RefType, type Shape, type Type, type ValueType } from '../type.ts'

/**
 * pure     a function of its inputs; may be folded, duplicated, removed
 * read     reads memory; removed when unused (weak loads only, see `isRemovable`)
 * write    writes memory
 * sync     orders memory or blocks
 * control  owns blocks
 * declare  allocates program-local storage
 */
export type Effect = 'pure' | 'read' | 'write' | 'sync' | 'control' | 'declare'

/** A scalar is a number, a fragment its elements in row-major order. */
export type Datum = number | Float64Array

export interface Unplaced {
  readonly inputs: readonly Node[]
  readonly attributes: Attributes
  readonly blocks: readonly Block[]
}

export interface Op {
  readonly effect: Effect
  readonly summary: string
  /** The type of the node, or a thrown SpecError. */
  infer(node: Unplaced): Type
  /** For pure ops on values. */
  evaluate?(node: Node, inputs: readonly Datum[]): Datum
}

/** An op applied where its signature does not allow it. */
export class SpecError extends Error {}

export function fail(problem: string): never {
  throw new SpecError(problem)
}

export function expectValue(node: Node | undefined, what: string): ValueType {
  if (node?.type.kind !== 'value')
    fail(`${what} must be a value, not ${node ? typeName(node.type) : 'nothing'}`)
  return node.type
}

export function expectScalar(
  node: Node | undefined,
  what: string,
  allowed: readonly DType[] = ['i32', 'i64'],
): ValueType {
  const type = expectValue(node, what)
  if (type.shape.length > 0 || !allowed.includes(type.dtype))
    fail(`${what} must be a scalar of ${allowed.join(' or ')}, not ${typeName(type)}`)
  return type
}

export function expectRef(node: Node | undefined, what: string): RefType {
  if (node?.type.kind !== 'ref')
    fail(
      `${what} must be a place in memory (a tile, a shared tile or an element), not ${node ? typeName(node.type) : 'nothing'}`,
    )
  return node.type
}

export function expectArithmetic(type: ValueType, op: string): void {
  if (!dtypes[type.dtype].arithmetic)
    fail(`${op} is not defined on ${type.dtype}: cast to f32 or i32 first, with .to(f32)`)
}

export function expectDType(dtype: unknown): DType {
  if (!isDType(dtype)) fail(`${String(dtype)} is not a dtype; they are ${Object.keys(dtypes).join(', ')}`)
  return dtype
}

/** A shape known when recording: between one and `atMost` extents of at least 1. */
export function expectShape(shape: Shape, what: string, atMost = 2): Shape {
  const isExtent = (extent: number): boolean => Number.isInteger(extent) && extent >= 1
  if (shape.length < 1 || shape.length > atMost || !shape.every(isExtent))
    fail(`${what} of [${shape.join('x')}]: one to ${atMost} extents of at least 1`)
  return shape
}

export function expectInputs(node: Unplaced, atLeast: number, atMost = atLeast): void {
  const count = node.inputs.length
  if (count < atLeast || count > atMost)
    fail(`takes ${atLeast === atMost ? atLeast : `${atLeast} to ${atMost}`} inputs, has ${count}`)
}
