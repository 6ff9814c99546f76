/**
 * Defines the memory ops: loads, stores, copies, atomics and shared tiles.
 *
 * A load or store without an order is weak and must not be part of a race. A load or store with an order is a
 * strong access to single elements. Optional inputs come last: load (ref, mask, other), store (ref, value, mask),
 * copy (source, target, mask), atomics (ref, value, [desired of cas], mask).
 */
import { dtypes, type DType } from '../dtype.ts'
import type { Node } from '../node.ts'
import {
  elements,
  refType,
  sameShape,
  typeName,
  valueType,
  voidType,
  type RefType,
  type Shape,
} from '../type.ts'
import {
  expectDType,
  expectInputs,
  expectRef,
  expectShape,
  expectValue,
  fail,
  noMemory,
  straight,
  yieldsNothing,
  type Atomic,
  type Op,
  type Unplaced,
} from './op.ts'
import { maximum, minimum } from './elementwise.ts'

export const orders = ['relaxed', 'acquire', 'release', 'acqRel', 'seqCst'] as const
export type Order = (typeof orders)[number]
export const scopes = ['block', 'device', 'system'] as const
export type Scope = (typeof scopes)[number]

/** Checks the optional mask of an access to elements of the given shape. */
export function expectMask(mask: Node | undefined, shape: Shape): void {
  if (!mask) return
  const type = expectValue(mask, 'the mask')
  if (type.dtype !== 'bool') fail(`the mask must be bool, not ${typeName(type)}`)
  if (!sameShape(type.shape, shape))
    fail(`the mask has shape [${type.shape.join('x')}], but the memory has shape [${shape.join('x')}]`)
}

function expectOrder(node: Unplaced, allowed: readonly (Order | undefined)[]): void {
  const { order, scope } = node.attributes
  if (!allowed.includes(order as Order | undefined))
    fail(`order ${order ?? 'weak'} is not one of ${allowed.map((one) => one ?? 'weak').join(', ')}`)
  if (order !== undefined && !scopes.includes(scope as Scope))
    fail(`scope ${scope} is not one of ${scopes.join(', ')}`)
}

function expectMatch(ref: RefType, value: Node | undefined, what: string): void {
  const type = expectValue(value, what)
  if (type.dtype !== ref.dtype)
    fail(`${what} is ${type.dtype}, but the memory holds ${ref.dtype}: cast it, with .to(${ref.dtype})`)
  if (!sameShape(type.shape, ref.shape))
    fail(`${what} has shape [${type.shape.join('x')}], but the memory has shape [${ref.shape.join('x')}]`)
}

const atomicDtypes: readonly DType[] = ['i32', 'u32', 'i64', 'f32']
const bitwiseDtypes: readonly DType[] = ['i32', 'u32', 'i64']

const changing = {
  ...straight,
  effect: 'write',
  elements: 'other',
  numbers: 'other',
  isView: false,
  order: 'attribute',
  scope: 'attribute',
  ahead: 'consumer',
  operations: 1,
} as const

/**
 * Returns the record of an op that reads and writes an element atomically. The argument `values` is the number of
 * operands of the atomic op.
 */
function atomic(
  summary: string,
  allowed: readonly DType[],
  meaning: Atomic,
  values = 1,
): Op & typeof changing {
  const operands = Array.from({ length: values }, (_, i) => 1 + i)
  return {
    ...changing,
    accesses: [{ at: 0, level: 'either', reads: true, writes: true, mask: 1 + values, values: operands }],
    atomic: meaning,
    summary: `${summary}; yields the previous value of the element`,
    infer(node) {
      expectInputs(node, 1 + values, 2 + values)
      const ref = expectRef(node.inputs[0], 'the target')
      if (!allowed.includes(ref.dtype)) fail(`is defined on ${allowed.join(', ')}, not on ${ref.dtype}`)
      for (const value of node.inputs.slice(1, 1 + values)) expectMatch(ref, value, 'the operand')
      expectMask(node.inputs[1 + values], ref.shape)
      expectOrder(node, ['relaxed', 'acquire', 'release', 'acqRel'])
      return valueType(ref.dtype, ref.shape)
    },
  }
}

export const memoryOps = {
  shared: {
    ...yieldsNothing,
    ...noMemory,
    ...straight,
    effect: 'declare',
    place: 'top',
    ahead: 'both',
    summary: "declares a tile in the program's shared memory, whose elements are uninitialised at first",
    infer(node) {
      const shape = expectShape(node.attributes.shape as Shape, 'a shared tile', 3)
      const dtype = expectDType(node.attributes.dtype)
      if (dtype === 'bool')
        fail('a shared tile cannot hold bool: convert a mask with .to(i32) and store it as i32')
      return refType('shared', dtype, shape)
    },
  },
  load: {
    ...straight,
    effect: 'read',
    elements: 'other',
    numbers: 'given',
    isView: false,
    ahead: 'both',
    accesses: [{ at: 0, level: 'either', reads: true, writes: false, mask: 1 }],
    order: 'attribute',
    scope: 'attribute',
    operations: 0,
    summary:
      'loads elements from memory into registers; where the mask is false, the result is `other` (0 by default)',
    infer(node) {
      expectInputs(node, 1, 3)
      const ref = expectRef(node.inputs[0], 'the source')
      if (ref.shape.length > 2) fail(`a fragment has at most two axes: pick() a stage of ${typeName(ref)}`)
      expectMask(node.inputs[1], ref.shape)
      if (node.inputs[2]) expectMatch(ref, node.inputs[2], '`other`')
      expectOrder(node, [undefined, 'relaxed', 'acquire'])
      return valueType(ref.dtype, ref.shape)
    },
  },
  store: {
    ...yieldsNothing,
    ...straight,
    effect: 'write',
    accesses: [{ at: 0, level: 'either', reads: false, writes: true, mask: 2, values: [1] }],
    order: 'attribute',
    scope: 'attribute',
    ahead: 'consumer',
    summary: 'stores elements from registers to memory where the mask is true',
    infer(node) {
      expectInputs(node, 2, 3)
      const ref = expectRef(node.inputs[0], 'the target')
      expectMatch(ref, node.inputs[1], 'the value')
      expectMask(node.inputs[2], ref.shape)
      expectOrder(node, [undefined, 'relaxed', 'release'])
      return voidType
    },
  },
  copy: {
    ...yieldsNothing,
    ...straight,
    effect: 'write',
    accesses: [
      { at: 0, level: 'either', reads: true, writes: false, mask: 2 },
      { at: 1, level: 'either', reads: false, writes: true, mask: 2 },
    ],
    order: 'none',
    scope: 'none',
    ahead: 'producer',
    summary: 'copies elements between memories; the copy is complete before the next operation of its role',
    infer(node) {
      expectInputs(node, 2, 3)
      const { source, target } = expectCopy(node.inputs[0], node.inputs[1])
      expectMask(node.inputs[2], source.shape)
      expectMulticast(node)
      if (node.attributes.multicast !== undefined)
        if (node.inputs.length > 2 || source.space !== 'global' || target.space !== 'shared')
          fail(
            'a copy with `multicast` must copy whole tiles from global to shared memory and cannot have a mask',
          )
      return voidType
    },
  },
  'copy.async': {
    ...yieldsNothing,
    ...straight,
    effect: 'write',
    accesses: [
      { at: 0, level: 'global', reads: true, writes: false },
      { at: 1, level: 'shared', reads: false, writes: true },
    ],
    completes: 'at barrier',
    order: 'none',
    scope: 'none',
    ahead: 'consumer',
    summary:
      'starts an asynchronous copy from global to shared memory, which is complete when the current phase of its barrier completes',
    infer(node) {
      expectInputs(node, 3)
      expectCopy(node.inputs[0], node.inputs[1])
      const barrier = node.inputs[2].type
      if (barrier.kind !== 'barriers' || barrier.count !== 0)
        fail(`completes on one barrier, not on ${typeName(barrier)}`)
      expectMulticast(node)
      return voidType
    },
  },
  'atomic.add': atomic('adds the operand to an element atomically', atomicDtypes, {
    commutes: true,
    change: (round) => (old, value) => round(old + value),
  }),
  'atomic.sub': atomic('subtracts the operand from an element atomically', atomicDtypes, {
    commutes: true,
    change: (round) => (old, value) => round(old - value),
  }),
  'atomic.cas': atomic(
    'stores `desired` in an element atomically if the element equals `expected`',
    bitwiseDtypes,
    {
      commutes: false,
      change: () => (old, expected, desired) => (old === expected ? desired : undefined),
    },
    2,
  ),
  'atomic.xchg': atomic('stores the operand in an element atomically', atomicDtypes, {
    commutes: false,
    change: () => (_, value) => value,
  }),
  'atomic.and': atomic(
    'stores the bitwise and of an element and the operand atomically',
    bitwiseDtypes,
    bitwise((a, b) => a & b),
  ),
  'atomic.or': atomic(
    'stores the bitwise or of an element and the operand atomically',
    bitwiseDtypes,
    bitwise((a, b) => a | b),
  ),
  'atomic.xor': atomic(
    'stores the bitwise exclusive or of an element and the operand atomically',
    bitwiseDtypes,
    bitwise((a, b) => a ^ b),
  ),
  'atomic.min': atomic('stores the smaller of an element and the operand atomically', atomicDtypes, {
    commutes: true,
    change: () => minimum,
  }),
  'atomic.max': atomic('stores the larger of an element and the operand atomically', atomicDtypes, {
    commutes: true,
    change: () => maximum,
  }),
} as const satisfies Record<string, Op>

/** Checks that a copy between two memory references is possible. */
export function expectCopy(
  from: Node | undefined,
  to: Node | undefined,
): { readonly source: RefType; readonly target: RefType } {
  const source = expectRef(from, 'the source')
  const target = expectRef(to, 'the target')
  if (source.dtype !== target.dtype)
    fail(
      `the source holds ${source.dtype}, but the target holds ${target.dtype}: load, cast with .to(${target.dtype}) and store`,
    )
  if (!sameShape(source.shape, target.shape))
    fail(
      `the source has shape [${source.shape.join('x')}], but the target has shape [${target.shape.join('x')}]`,
    )
  return { source, target }
}

/** Checks that the axis along which a copy is multicast is an axis of the cluster. */
function expectMulticast({ attributes: { multicast, cluster } }: Unplaced): void {
  if (multicast === undefined) return
  const axes = (cluster as readonly number[]).length
  if (!Number.isInteger(multicast) || (multicast as number) < 0 || (multicast as number) >= axes)
    fail(`multicast along axis ${multicast} of a cluster with ${axes} ${axes === 1 ? 'axis' : 'axes'}`)
}

/** Bitwise atomics use BigInt, because JavaScript's bitwise operators work on 32 bits only and an i64 has more. */
function bitwise(f: (a: bigint, b: bigint) => bigint): Atomic {
  return {
    commutes: true,
    change: (round) => (old, value) => round(Number(BigInt.asIntN(64, f(BigInt(old), BigInt(value))))),
  }
}

/** The number of bytes of `elements` elements of a reference; by default, of all its elements. */
export const bytesOf = ({ dtype, shape }: RefType, count = elements(shape)): number =>
  count * dtypes[dtype].bytes
