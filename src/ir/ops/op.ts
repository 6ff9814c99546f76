/**
 * Defines the record that describes an op of the IR. The record of an op has a signature that infers the type or
 * reports an error, a side effect and, for pure ops, a TypeScript function that computes the result. This TypeScript
 * function is the reference: the checker evaluates it, and every target is compared with it.
 */
import { castFor, dtypes, isDType, type DType } from '../dtype.ts'
import type { Attributes, Block, Node } from '../node.ts'
import { typeName, type RefType, type Shape, type Space, type Type, type ValueType } from '../type.ts'

/**
 * The side effect of an op:
 *
 * pure     a function of its inputs; it may be folded, duplicated or removed
 * read     reads memory; an unused weak load may be removed (see `isRemovable`)
 * write    writes memory
 * sync     orders memory or blocks
 * report   tells the host something
 * control  owns blocks
 * declare  allocates program-local storage
 */
export type Effect = 'pure' | 'read' | 'write' | 'sync' | 'report' | 'control' | 'declare'

/**
 * The value of a node in the evaluator. The evaluator represents a scalar as a number. The evaluator represents a
 * fragment as an array of its elements in row-major order.
 */
export type Datum = number | Float64Array

export interface Unplaced {
  readonly inputs: readonly Node[]
  readonly attributes: Attributes
  readonly blocks: readonly Block[]
}

/**
 * How the elements of the value that an op yields depend on the elements of its inputs:
 *
 * same       elementwise: element i depends on element i of every input
 * stretched  the elements of the first input in the same order, possibly repeated along an axis
 * moved      the elements of the first input at other indices
 * reduced    each element combines the elements of the first input along an axis
 * gathered   each element depends on elements of the inputs at other indices; each is read once
 * indices    each element depends only on its index
 * other      any other dependence
 * none       the op yields no value, or no elements of its own
 */
export type Elements = 'same' | 'stretched' | 'moved' | 'reduced' | 'gathered' | 'indices' | 'other' | 'none'

/**
 * The source of the numbers in the value that an op yields:
 *
 * given   memory, or constants known when the kernel was recorded
 * [i, …]  the inputs with these indices, unchanged except for rounding to the op's dtype
 * other   arithmetic, ids, or any other source
 * none    the op yields no value
 */
export type Numbers = 'given' | readonly number[] | 'other' | 'none'

/** Describes one memory access of an op. In the fields of an access, each number is the index of an input of the op. */
export interface MemoryAccess {
  /**
   * The index of the input that refers to the accessed memory. If that input is a value instead of a memory reference,
   * the op accesses no memory.
   */
  readonly at: number
  /** The level of memory that the op accesses, or `either` if the input's type decides the level. */
  readonly level: Space | 'either'
  readonly reads: boolean
  readonly writes: boolean
  /** The index of the optional input that masks the accessed elements. */
  readonly mask?: number
  /** The indices of the inputs that the op stores, or combines with the previous contents of memory. */
  readonly values?: readonly number[]
}

/**
 * States when the accesses of an op are complete: when the op ends; when the phase of the barrier among its inputs
 * completes; at a `quiet` of the role; or at a `drain` of the role. Copies and stores that complete later than the op
 * are asynchronous: they continue while the following nodes execute. With `by unit`, the accesses of a matrix product
 * by threads are complete when the op ends, and those of a matrix product by the matrix unit (attribute `by`) at a
 * `dot.wait` of the role.
 */
export type Completion = 'at once' | 'at barrier' | 'at quiet' | 'at drain' | 'by unit'

/**
 * How an op orders memory accesses: not at all; as its attribute `order` says (not at all without that attribute); it
 * acquires; it releases; or both.
 */
export type Ordering = 'none' | 'attribute' | 'acquires' | 'releases' | 'both'

/**
 * The agents among which an op orders memory accesses: none; the threads of one role and the bulk copy engine; the
 * roles of one program; the programs of one rank; or the scope that the attribute `scope` names.
 */
export type OrderScope = 'none' | 'threads' | 'program' | 'rank' | 'attribute'

/**
 * The agents that an op may wait for: nobody; other programs of any rank; other roles of its program, or of its
 * cluster, whose programs a GPU starts together; or the threads of its own role and the copies that the bulk copy
 * engine makes for these threads.
 */
export type Blocking = 'nobody' | 'programs' | 'roles' | 'threads'

/**
 * States whether the threads of a role act together in an op, so that no thread may execute the op alone:
 *
 * never     each thread executes the op on its own, unless the layout of its operands requires an exchange
 * exchange  the threads combine elements that different threads hold
 * barrier   all threads synchronise at the end of the op
 */
export type Meeting = 'never' | 'exchange' | 'barrier'

/**
 * The kinds of control flow of an op:
 *
 * straight  execution continues with the next node
 * branches  all threads execute the same one of its blocks
 * repeats   all threads execute its blocks the same number of times
 * warps     the warps of a program execute different blocks
 * programs  the programs of a launch execute different blocks
 * chosen    one program of the launch executes its block
 */
export type Flow = 'straight' | 'branches' | 'repeats' | 'warps' | 'programs' | 'chosen'

/**
 * The values of an op that its `result` nodes read:
 *
 * none     none
 * yielded  the values that the executed block yields
 * carried  state that starts with the last inputs of the op; its block takes the state and yields the new state
 * tested   carried state; in addition, the first block takes the state and yields whether to continue
 */
export type State = 'none' | 'yielded' | 'carried' | 'tested'

/**
 * Where an op may occur: anywhere; at the top level of the kernel; not inside a role; where every program of the launch
 * or of a team passes exactly once, unless it has an index; only inside a loop; only inside the block of an `until`; at
 * the start of the kernel, where only declarations and other ops of the start precede it.
 */
export type Place =
  'anywhere' | 'top' | 'outside roles' | 'on every path' | 'inside loops' | 'inside until' | 'start'

/** The compiler stage that inserts an op. Authors can write only the ops of the stage `recorded`. */
export type Inserted = 'recorded' | 'clusters' | 'layouts' | 'words' | 'order'

/** A node that must accompany an op: without that node, the op would have no effect or would never be complete. */
export interface Companion {
  /** Where the accompanying node must be: in the same role as the op, or anywhere in the kernel. */
  readonly where: 'role' | 'kernel'
  /** Describes, for an error message, the node that must accompany an op. */
  readonly what: string
  is(node: Node, other: Node): boolean
}

/**
 * The role that executes an op if the copies of a pipeline's producer depend on it:
 *
 * producer  only the producer, on behalf of both roles
 * both      both roles, because both get the same result
 * one       only one of the roles, because a second execution may have a different result
 * consumer  only the consumer, so that the producer cannot run ahead
 *
 * The consumer executes every access with an order, and every copy that does not fill a shared tile
 * (src/ir/passes/slice.ts).
 */
export type Ahead = 'producer' | 'both' | 'one' | 'consumer'

/**
 * The facts that every op declares. Analyses of a kernel use the declared facts instead of lists of op names. A record
 * that lacks a fact does not compile, and `opOf` throws an error for an op without a record.
 */
export interface Facts {
  readonly effect: Effect
  readonly elements: Elements
  readonly numbers: Numbers
  /**
   * True if the op yields a view of the memory, flags or barriers of its first input, possibly in another order.
   */
  readonly isView: boolean
  /**
   * The index of the input of a view that names the rank whose memory the view refers to. A view without a rank input
   * refers to the rank of its first input.
   */
  readonly owner: number | 'none'
  readonly accesses: readonly MemoryAccess[]
  readonly completes: Completion
  readonly order: Ordering
  readonly scope: OrderScope
  readonly waitsFor: Blocking
  readonly meets: Meeting
  readonly flow: Flow
  readonly state: State
  readonly place: Place
  readonly inserted: Inserted
  readonly needs: 'nothing' | Companion
  readonly ahead: Ahead
  /**
   * The ids (rank or program) on which the result of the op depends, apart from the inputs. A result that varies by
   * program also varies by rank.
   */
  readonly varies: 'never' | 'by rank' | 'by program'
  /** The side (signal or wait) of the op's flag set whose epoch advances in each launch that contains the op. */
  readonly advances: 'signal' | 'wait' | 'none'
  /**
   * The side (signal or wait) of the op's flag set whose epoch the op reads without advancing it. The value `attribute`
   * means the side that the op's attribute `side` names.
   */
  readonly looks: 'signal' | 'wait' | 'attribute' | 'none'
  /**
   * The rough cost of the op per element of the result, in additions. Analyses use this cost to compare kernels and to
   * choose which nodes to recompute.
   */
  readonly operations: number | ((node: Node) => number)
}

/** The record fields that are equal for all ops that do not access memory. */
export const noMemory = { accesses: [], order: 'none', scope: 'none' } as const satisfies Partial<Facts>
/** The record fields that are equal for all ops without control flow, waiting, asynchronous accesses, or epochs. */
export const straight = {
  owner: 'none',
  completes: 'at once',
  waitsFor: 'nobody',
  meets: 'never',
  flow: 'straight',
  state: 'none',
  place: 'anywhere',
  inserted: 'recorded',
  needs: 'nothing',
  varies: 'never',
  advances: 'none',
  looks: 'none',
} as const satisfies Partial<Facts>
/** The record fields that are equal for all ops that yield no value. */
export const yieldsNothing = {
  elements: 'none',
  numbers: 'none',
  isView: false,
  operations: 0,
} as const satisfies Partial<Facts>

/** The function that an atomic op applies to one element. */
export interface Atomic {
  /** True if the final value of the element after several such atomics does not depend on their order. */
  readonly commutes: boolean
  /**
   * Returns the function that computes the new value from `old`, or undefined to keep `old`. The argument `round`
   * rounds the new value to the dtype.
   */
  change(round: (x: number) => number): (old: number, value: number, desired: number) => number | undefined
}

export type Simpler = { readonly input: number } | { readonly value: number }

export interface Op extends Facts {
  readonly summary: string
  /**
   * Returns the type of a node with this op. The function throws a SpecError if the node violates the signature of its
   * op. `inferType` also checks the memory levels of the operands.
   */
  infer(node: Unplaced): Type
  /** Computes the result of a pure op on values. */
  evaluate?(node: Node, inputs: readonly Datum[]): Datum
  /**
   * Returns the number or the input that a scalar node is equal to, if the known inputs of the node show this. An input
   * whose value is unknown is undefined.
   */
  simplify?(dtype: DType, known: readonly (number | undefined)[]): Simpler | undefined
  readonly atomic?: Atomic
  /**
   * True if the results in f32 may differ between targets. For each float function, a target states its maximum error
   * (`MaximumErrors`). The result of an op without `isApproximate` is correctly rounded and has the same bits on every
   * target.
   */
  readonly isApproximate?: true
}

/** The error for a use of an op that the op's signature does not allow. */
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

export function expectAmong(allowed: readonly DType[], dtype: DType): void {
  if (!allowed.includes(dtype))
    fail(`is defined on ${allowed.join(', ')}, not on ${dtype}: cast first, x.to(${castFor(dtype, allowed)})`)
}

export function expectDType(dtype: unknown): DType {
  if (!isDType(dtype)) fail(`${String(dtype)} is not a dtype; they are ${Object.keys(dtypes).join(', ')}`)
  return dtype
}

/** Checks a shape that is known when the kernel is recorded: it must have one to `atMost` extents of at least 1. */
export function expectShape(shape: Shape, what: string, atMost = 2): Shape {
  const isExtent = (extent: number): boolean => Number.isInteger(extent) && extent >= 1
  if (shape.length < 1 || shape.length > atMost || !shape.every(isExtent))
    fail(`${what} of [${shape.join('x')}]: one to ${atMost} extents of at least 1`)
  return shape
}

/** Checks that an axis exists in a type with `axes` axes. */
export function expectAxis(axis: unknown, axes: number, type: Type): void {
  if (!Number.isInteger(axis) || (axis as number) < 0 || (axis as number) >= axes)
    fail(`axis ${String(axis)} is outside ${typeName(type)}`)
}

export function expectInputs(node: Unplaced, atLeast: number, atMost = atLeast): void {
  const count = node.inputs.length
  if (count < atLeast || count > atMost)
    fail(`takes ${atLeast === atMost ? atLeast : `${atLeast} to ${atMost}`} inputs, has ${count}`)
}
