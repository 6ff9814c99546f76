/**
 * What an op is: a signature that infers its type or says what is wrong, its side effect, and, for pure ops, its meaning
 * in plain TypeScript. The meaning is the oracle: the checker evaluates it and every target is compared with it.
 */
import { castFor, dtypes, isDType, type DType } from '../dtype.ts'
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

/**
 * How the elements of the value that an op yields follow from those of its inputs:
 *
 * same       elementwise: element i from element i of every input
 * stretched  the elements of its first input in their order, perhaps repeated along an axis
 * moved      the elements of its first input, in other places
 * reduced    each from the elements of its first input along an axis
 * indices    from their places alone
 * other      in another way
 * none       it yields no value with elements of its own making
 */
export type Elements = 'same' | 'stretched' | 'moved' | 'reduced' | 'indices' | 'other' | 'none'

/**
 * Where the numbers of the value that an op yields come from:
 *
 * given   from memory, or known when the kernel was recorded
 * [i, …]  from these inputs, unchanged except for rounding to its dtype
 * other   from arithmetic, from ids, from elsewhere
 * none    it yields no value
 */
export type Numbers = 'given' | readonly number[] | 'other' | 'none'

/** One access of memory. Numbers are those of inputs. */
export interface MemoryAccess {
  /** The places; an input that is a value is no access. */
  readonly at: number
  readonly reads: boolean
  readonly writes: boolean
  /** Which of the places take part, where that input is there. */
  readonly mask?: number
  /** What it stores, or combines with what is there. */
  readonly values?: readonly number[]
  /** It goes on after the op; a barrier tells when it is complete. */
  readonly isAsync?: true
}

/** What it orders: nothing; what its attribute `order` says (without one, nothing); it acquires, it releases, or both. */
export type Ordering = 'none' | 'attribute' | 'acquires' | 'releases' | 'both'

/**
 * The agents among which an op orders memory: none; the threads of one role and the engines that work for them; the roles of one
 * program; the programs of one rank; or the scope that the attribute `scope` names.
 */
export type OrderScope = 'none' | 'threads' | 'program' | 'rank' | 'attribute'

/**
 * Whom it may wait for: nobody, other programs (of any rank), other roles of its program, or the threads of its own role and what
 * engines do for them.
 */
export type Blocking = 'nobody' | 'programs' | 'roles' | 'threads'

/**
 * Where it leads: on; to one of its blocks, or through them again, all threads alike; or threads part: the warps of a program,
 * or the programs of a launch.
 */
export type Flow = 'straight' | 'branches' | 'repeats' | 'warps' | 'programs'

/**
 * The values that it leaves for `result` nodes:
 *
 * none     none
 * yielded  those that the block taken yields
 * carried  its last inputs at first; each block takes them and yields them
 * tested   carried, and its first block takes them and yields whether to go on
 */
export type State = 'none' | 'yielded' | 'carried' | 'tested'

/** Where it may stand: anywhere; at the top of the kernel; not inside a role; not inside a loop. */
export type Place = 'anywhere' | 'top' | 'outside roles' | 'outside loops'

/**
 * Who executes it where what the producer of a pipeline copies depends on it:
 *
 * producer  the producer alone, for both
 * both      each of them: they find the same
 * one       one of them: a second time may find something else
 * consumer  the consumer alone, so that the producer cannot run ahead
 *
 * An access with an order is the consumer's, and so is a copy that does not fill a shared tile (src/ir/passes/slice.ts).
 */
export type Ahead = 'producer' | 'both' | 'one' | 'consumer'

/**
 * What every op says of itself. Analyses ask these questions instead of comparing names, so that no list has to be kept
 * up: a record without an answer does not compile, and `opOf` refuses a node whose op has no record.
 */
export interface Facts {
  readonly effect: Effect
  readonly elements: Elements
  readonly numbers: Numbers
  /** What it yields is a part of the memory, flags or barriers of its first input, or the same in another order. */
  readonly isView: boolean
  readonly accesses: readonly MemoryAccess[]
  readonly order: Ordering
  readonly scope: OrderScope
  readonly waitsFor: Blocking
  readonly flow: Flow
  readonly state: State
  readonly place: Place
  readonly ahead: Ahead
  /** The ids with which it varies, besides with its inputs. A program has a rank, too. */
  readonly varies: 'never' | 'by rank' | 'by program'
  /** The side of its flag set whose epoch a launch with this op advances. */
  readonly advances: 'signal' | 'wait' | 'none'
  /** The side whose epoch it reads without advancing it; `attribute`: the one that its attribute `side` names. */
  readonly looks: 'signal' | 'wait' | 'attribute' | 'none'
  /** Arithmetic for each element that it yields, in additions: a rough weight, to compare kernels and to choose what to repeat. */
  readonly operations: number | ((node: Node) => number)
}

/** Of ops that leave memory alone. */
export const noMemory = { accesses: [], order: 'none', scope: 'none' } as const satisfies Partial<Facts>
/** Of ops after which all go on together. */
export const straight = {
  waitsFor: 'nobody',
  flow: 'straight',
  state: 'none',
  place: 'anywhere',
  varies: 'never',
  advances: 'none',
  looks: 'none',
} as const satisfies Partial<Facts>
/** Of ops that yield no value. */
export const yieldsNothing = {
  elements: 'none',
  numbers: 'none',
  isView: false,
  operations: 0,
} as const satisfies Partial<Facts>

/** What an atomic does to a place. */
export interface Atomic {
  /** What several leave in a place does not depend on their order. */
  readonly commutes: boolean
  /** What it leaves where `old` was; undefined: that. `round` is the dtype's. */
  change(round: (x: number) => number): (old: number, value: number, desired: number) => number | undefined
}

export type Simpler = { readonly input: number } | { readonly value: number }

export interface Op extends Facts {
  readonly summary: string
  /** The type of the node, or a thrown SpecError. */
  infer(node: Unplaced): Type
  /** For pure ops on values. */
  evaluate?(node: Node, inputs: readonly Datum[]): Datum
  /** An input, or a number, that equals a scalar node of which these inputs are known. For `evaluate` with some unknown. */
  simplify?(dtype: DType, known: readonly (number | undefined)[]): Simpler | undefined
  readonly atomic?: Atomic
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

export function expectAmong(allowed: readonly DType[], dtype: DType): void {
  if (!allowed.includes(dtype))
    fail(`is defined on ${allowed.join(', ')}, not on ${dtype}: cast first, x.to(${castFor(dtype, allowed)})`)
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
