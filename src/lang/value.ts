/**
 * Defines values: scalars (rank 0) and fragments (rank 1 and 2), whose elements are stored in registers.
 *
 * Arithmetic on values is written with methods. Scalars and axes of extent 1 are broadcast as in NumPy; `expand` makes
 * a vector compatible with a matrix. Arithmetic is defined for f32, i32, u32 and i64. Values of the other dtypes must
 * be cast first, because those dtypes are for storage only.
 */
import type { ArithmeticDType, DType, FloatDType, IntegerDType } from '../ir/dtype.ts'
import { dtypes, isDType, round } from '../ir/dtype.ts'
import type { Node } from '../ir/node.ts'
import type { OpName } from '../ir/ops/index.ts'
import { KernelError, Site } from '../ir/site.ts'
import { broadcastShapes, sameShape, type Shape, type ValueType } from '../ir/type.ts'
import type { Recorder } from './recorder.ts'

export type Rank = 0 | 1 | 2

/**
 * The base class of all values and views that a kernel records. JavaScript operators cannot be overloaded, so coercing
 * a symbolic value throws an error.
 */
export abstract class Symbolic {
  readonly node: Node
  readonly recorder: Recorder

  constructor(recorder: Recorder, node: Node) {
    this.recorder = recorder
    this.node = node
  }

  [Symbol.toPrimitive](): never {
    throw new KernelError(
      'a symbolic value has no number while the kernel is recorded: write x.add(1) instead of x + 1, x.lt(n) instead of ' +
        'x < n, and t.if(…) or x.select(…) instead of if (x)',
      Site.here(),
    )
  }
}

/**
 * The allowed ranks (numbers of axes) of the right operand of an operation on a value of rank R. A scalar can be
 * combined with a value of any rank, and a fragment with a fragment of equal rank or with a scalar.
 */
type Fits<R extends Rank> = R extends 0 ? Rank : 0 | R
/** The rank of the result of an operation on rank R and operand `O`. */
type Joined<R extends Rank, O> = R extends 0 ? (O extends { readonly rank: infer S extends Rank } ? S : 0) : R
type Smaller<R extends Rank> = R extends 2 ? 1 : 0

/**
 * The type `Yes` if T is one of `Allowed`, and the type `No` if it is not. A method that only some dtypes or ranks have
 * uses the type `Only` twice. In the type of the parameter `this`, `No` is an error message: no object has a message as
 * its type, so TypeScript rejects the call and prints the message. In the type of the method's result, `No` is
 * `Refused`.
 */
export type Only<T, Allowed, Yes, No> = [T] extends [Allowed] ? Yes : No
/** The result of a call that TypeScript has refused: the calls on this result raise no error, so one mistake gives one error. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Refused = any

/**
 * The groups of operations, each with the dtypes on which its operations are defined. The names of these groups of
 * operations are part of TypeScript error messages.
 */
type Operations = {
  readonly arithmetic: ArithmeticDType
  readonly 'signed arithmetic': 'f32' | 'i32' | 'i64'
  readonly 'integer arithmetic': IntegerDType
  readonly 'float arithmetic': 'f32'
  readonly 'bitwise operations': IntegerDType | 'bool'
  readonly comparison: ArithmeticDType | 'bool'
}
type Operation = keyof Operations
/**
 * The dtype to which D must be cast for an operation on the dtypes `Allowed`. When a kernel is recorded, the function
 * `castFor` in src/ir/dtype.ts computes the dtype to cast to in the same way.
 */
type CastFor<D, Allowed> = 'f32' extends Allowed
  ? D extends FloatDType
    ? 'f32'
    : 'i32' extends Allowed
      ? 'i32'
      : 'f32'
  : 'i32'
/** The error text that explains why dtype D does not have the operations of group K. */
type Lacking<D, K extends Operation> = D extends Operations[K]
  ? never
  : `${D & string} has no ${D extends ArithmeticDType ? K : 'arithmetic'}: cast first, x.to(${CastFor<D, Operations[K]>})`
/** The error text that explains why an operand of dtype E does not match D. */
type Unlike<E, D extends DType> = E extends D
  ? never
  : `${E & string} does not match ${D}: cast first, y.to(${D})`
/** The type of `this` in a method of group K. */
type Having<K extends Operation, D extends DType, R extends Rank> = Only<
  D,
  Operations[K],
  Value<D, R>,
  Lacking<D, K>
>
/** The type of the result of a method of group K. */
type Result<K extends Operation, D extends DType, S extends Rank, E extends DType = D> = Only<
  D,
  Operations[K],
  Value<E, S>,
  Refused
>
/**
 * The type `O` if it is a number, or has dtype D and one of `Ranks`; in all other cases, a sentence that says why `O`
 * does not match D and R.
 */
export type Matching<D extends DType, R extends number, Ranks, O> = O extends number
  ? O
  : O extends Value<infer E, infer S>
    ? Only<E, D, Only<S, Ranks, O, RankUnlike<S, R>>, Unlike<E, D>>
    : number | Value<D, Ranks & Rank>
type RankUnlike<
  S extends Rank,
  R extends number,
> = `rank ${S} does not match rank ${R}: y.expand(0) makes a row of a vector, y.expand(1) a column`
/** The type of the right operand of an operation on dtype D and rank R. */
type Right<D extends DType, R extends Rank, O> = Matching<D, R, Fits<R>, O>
/** The dtype of an operand, or `Otherwise` for a number. */
type DTypeOf<O, Otherwise extends DType> = O extends Value<infer E, Rank> ? E : Otherwise

export class Value<D extends DType = DType, R extends Rank = Rank> extends Symbolic {
  get dtype(): D {
    return (this.node.type as ValueType).dtype as D
  }

  get shape(): Shape {
    return (this.node.type as ValueType).shape
  }

  /**
   * The field that marks the rank of a value is never read at run time. The rank marker lets the type checker
   * distinguish values of different rank.
   */
  declare readonly rank: R

  #make<E extends DType, S extends Rank>(op: OpName, inputs: readonly Node[], attributes = {}): Value<E, S> {
    return new Value<E, S>(this.recorder, this.recorder.emit(op, inputs, attributes))
  }

  #unary(op: OpName): Value<D, R> {
    return this.#make(op, [this.node])
  }

  #binary<E extends DType, S extends Rank>(op: OpName, other: unknown): Value<E, S> {
    const right =
      typeof other === 'number' ? constant(this.recorder, this.dtype, other) : expectValue(other, op)
    const shape = broadcastShapes(this.shape, right.shape)
    if (!shape)
      throw new KernelError(
        `${op}: shapes [${this.shape.join('x')}] and [${right.shape.join('x')}] cannot be broadcast together; expand() adds an axis of extent 1`,
        Site.here(),
      )
    return this.#make(op, [stretch(this, shape).node, stretch(right, shape).node])
  }

  add<O>(this: Having<'arithmetic', D, R>, other: Right<D, R, O>): Result<'arithmetic', D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('add', other)
  }
  sub<O>(this: Having<'arithmetic', D, R>, other: Right<D, R, O>): Result<'arithmetic', D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('sub', other)
  }
  mul<O>(this: Having<'arithmetic', D, R>, other: Right<D, R, O>): Result<'arithmetic', D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('mul', other)
  }
  /** Division of this value by `other`; integer division rounds towards zero. */
  div<O>(this: Having<'arithmetic', D, R>, other: Right<D, R, O>): Result<'arithmetic', D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('div', other)
  }
  /** The remainder of `div`, which has the sign of the dividend, like JavaScript's %. */
  mod<O>(
    this: Having<'integer arithmetic', D, R>,
    other: Right<D, R, O>,
  ): Result<'integer arithmetic', D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('mod', other)
  }
  min<O>(this: Having<'arithmetic', D, R>, other: Right<D, R, O>): Result<'arithmetic', D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('min', other)
  }
  max<O>(this: Having<'arithmetic', D, R>, other: Right<D, R, O>): Result<'arithmetic', D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('max', other)
  }
  and<O>(
    this: Having<'bitwise operations', D, R>,
    other: Right<D, R, O>,
  ): Result<'bitwise operations', D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('and', other)
  }
  or<O>(
    this: Having<'bitwise operations', D, R>,
    other: Right<D, R, O>,
  ): Result<'bitwise operations', D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('or', other)
  }
  xor<O>(
    this: Having<'bitwise operations', D, R>,
    other: Right<D, R, O>,
  ): Result<'bitwise operations', D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('xor', other)
  }
  shl<O>(
    this: Having<'integer arithmetic', D, R>,
    other: Right<D, R, O>,
  ): Result<'integer arithmetic', D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('shl', other)
  }
  shr<O>(
    this: Having<'integer arithmetic', D, R>,
    other: Right<D, R, O>,
  ): Result<'integer arithmetic', D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('shr', other)
  }

  eq<O>(
    this: Having<'comparison', D, R>,
    other: Right<D, R, O>,
  ): Result<'comparison', D, Joined<R, O>, 'bool'> {
    return (this as Value<D, R>).#binary('eq', other)
  }
  ne<O>(
    this: Having<'comparison', D, R>,
    other: Right<D, R, O>,
  ): Result<'comparison', D, Joined<R, O>, 'bool'> {
    return (this as Value<D, R>).#binary('ne', other)
  }
  lt<O>(
    this: Having<'arithmetic', D, R>,
    other: Right<D, R, O>,
  ): Result<'arithmetic', D, Joined<R, O>, 'bool'> {
    return (this as Value<D, R>).#binary('lt', other)
  }
  le<O>(
    this: Having<'arithmetic', D, R>,
    other: Right<D, R, O>,
  ): Result<'arithmetic', D, Joined<R, O>, 'bool'> {
    return (this as Value<D, R>).#binary('le', other)
  }
  gt<O>(
    this: Having<'arithmetic', D, R>,
    other: Right<D, R, O>,
  ): Result<'arithmetic', D, Joined<R, O>, 'bool'> {
    return (this as Value<D, R>).#binary('gt', other)
  }
  ge<O>(
    this: Having<'arithmetic', D, R>,
    other: Right<D, R, O>,
  ): Result<'arithmetic', D, Joined<R, O>, 'bool'> {
    return (this as Value<D, R>).#binary('ge', other)
  }

  neg(this: Having<'arithmetic', D, R>): Result<'arithmetic', D, R> {
    return (this as Value<D, R>).#unary('neg')
  }
  abs(this: Having<'signed arithmetic', D, R>): Result<'signed arithmetic', D, R> {
    return (this as Value<D, R>).#unary('abs')
  }
  not(this: Having<'bitwise operations', D, R>): Result<'bitwise operations', D, R> {
    return (this as Value<D, R>).#unary('not')
  }
  exp2(this: Having<'float arithmetic', D, R>): Result<'float arithmetic', D, R> {
    return (this as Value<D, R>).#unary('exp2')
  }
  log2(this: Having<'float arithmetic', D, R>): Result<'float arithmetic', D, R> {
    return (this as Value<D, R>).#unary('log2')
  }
  exp(this: Having<'float arithmetic', D, R>): Result<'float arithmetic', D, R> {
    return (this as Value<D, R>).#unary('exp')
  }
  /** The natural logarithm of this value. */
  log(this: Having<'float arithmetic', D, R>): Result<'float arithmetic', D, R> {
    return (this as Value<D, R>).#unary('log')
  }
  /** The sine of this value, an angle in radians. */
  sin(this: Having<'float arithmetic', D, R>): Result<'float arithmetic', D, R> {
    return (this as Value<D, R>).#unary('sin')
  }
  /** The cosine of this value, an angle in radians. */
  cos(this: Having<'float arithmetic', D, R>): Result<'float arithmetic', D, R> {
    return (this as Value<D, R>).#unary('cos')
  }
  /** The error function (erf) of this value. */
  erf(this: Having<'float arithmetic', D, R>): Result<'float arithmetic', D, R> {
    return (this as Value<D, R>).#unary('erf')
  }
  floor(this: Having<'float arithmetic', D, R>): Result<'float arithmetic', D, R> {
    return (this as Value<D, R>).#unary('floor')
  }
  ceil(this: Having<'float arithmetic', D, R>): Result<'float arithmetic', D, R> {
    return (this as Value<D, R>).#unary('ceil')
  }
  /** The integer nearest to this value; ties go to the even integer. */
  round(this: Having<'float arithmetic', D, R>): Result<'float arithmetic', D, R> {
    return (this as Value<D, R>).#unary('round')
  }
  /** This value to the power of `other`, like C's `pow`: x to the power of 0 is 1, also for NaN. */
  pow<O>(
    this: Having<'float arithmetic', D, R>,
    other: Right<D, R, O>,
  ): Result<'float arithmetic', D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('pow', other)
  }
  sqrt(this: Having<'float arithmetic', D, R>): Result<'float arithmetic', D, R> {
    return (this as Value<D, R>).#unary('sqrt')
  }
  rsqrt(this: Having<'float arithmetic', D, R>): Result<'float arithmetic', D, R> {
    return (this as Value<D, R>).#unary('rsqrt')
  }
  tanh(this: Having<'float arithmetic', D, R>): Result<'float arithmetic', D, R> {
    return (this as Value<D, R>).#unary('tanh')
  }
  sigmoid(this: Having<'float arithmetic', D, R>): Result<'float arithmetic', D, R> {
    return (this as Value<D, R>).#unary('sigmoid')
  }

  /**
   * Selects, for each element of this mask, the element of `yes` where the mask is true and the element of `no` where
   * it is false. If only one of the two choices is a number, the number takes the dtype of the other choice; if both
   * are numbers, the result is f32.
   */
  select<Y, N>(
    this: Only<D, 'bool', Value<D, R>, 'select needs a mask: compare first, x.gt(0).select(yes, no)'>,
    yes: Right<DType, R, Y>,
    no: Right<DTypeOf<Y, DType>, R, N>,
  ): Only<D, 'bool', Value<DTypeOf<Y, DTypeOf<N, 'f32'>>, Joined<Joined<R, Y>, N>>, Refused> {
    const mask = this as Value<D, R>
    const choices: readonly unknown[] = [yes, no]
    const dtype = choices.find((choice) => choice instanceof Value)?.dtype ?? 'f32'
    const [a, b] = choices.map((choice) =>
      typeof choice === 'number' ? constant(mask.recorder, dtype, choice) : expectValue(choice, 'select'),
    )
    const common = broadcastShapes(mask.shape, a.shape)
    const shape = common && broadcastShapes(common, b.shape)
    if (!shape)
      throw new KernelError(
        'select: the shapes of the mask and the choices cannot be broadcast together',
        Site.here(),
      )
    return mask.#make(
      'select',
      [mask, a, b].map((value) => stretch(value, shape).node),
    )
  }

  to<E extends DType>(dtype: E): Value<E, R> {
    if ((this.dtype as DType) === dtype) return this as unknown as Value<E, R>
    return this.#make('cast', [this.node], { dtype })
  }

  /** The sum of the elements along an axis. For a matrix, axis 1 yields one number per row. */
  sum(this: Having<'arithmetic', D, R>, axis?: number): Result<'arithmetic', D, Smaller<R>> {
    return (this as Value<D, R>).#reduce('reduce.sum', axis)
  }
  maximum(this: Having<'arithmetic', D, R>, axis?: number): Result<'arithmetic', D, Smaller<R>> {
    return (this as Value<D, R>).#reduce('reduce.max', axis)
  }
  minimum(this: Having<'arithmetic', D, R>, axis?: number): Result<'arithmetic', D, Smaller<R>> {
    return (this as Value<D, R>).#reduce('reduce.min', axis)
  }
  /**
   * The i32 index of the largest element along an axis. A NaN counts as the largest; of equal elements, the first wins.
   */
  argmax(this: Having<'arithmetic', D, R>, axis?: number): Result<'arithmetic', D, Smaller<R>, 'i32'> {
    return (this as Value<D, R>).#reduce<'i32'>('argmax', axis)
  }
  /**
   * The i32 index of the smallest element along an axis. A NaN counts as the smallest; of equal elements, the first
   * wins.
   */
  argmin(this: Having<'arithmetic', D, R>, axis?: number): Result<'arithmetic', D, Smaller<R>, 'i32'> {
    return (this as Value<D, R>).#reduce<'i32'>('argmin', axis)
  }
  #reduce<E extends DType = D>(op: OpName, axis: number | undefined): Value<E, Smaller<R>> {
    if (axis === undefined && this.shape.length === 2)
      throw new KernelError(
        `${op}: give the axis: axis 0 yields one number per column, axis 1 yields one number per row`,
        Site.here(),
      )
    return this.#make(op, [this.node], { axis: axis ?? 0 })
  }
  /**
   * Running sums along an axis: each element becomes the sum of all elements up to and including itself, added in
   * order.
   */
  cumsum(this: Having<'arithmetic', D, R>, axis?: number): Result<'arithmetic', D, R> {
    const value = this as Value<D, R>
    if (axis === undefined && value.shape.length === 2)
      throw new KernelError(
        'cumsum: give the axis: axis 0 adds down the columns, axis 1 adds along the rows',
        Site.here(),
      )
    return value.#make('cumsum', [value.node], { axis: axis ?? 0 })
  }

  /** The same elements in row-major order, as a fragment of another shape. */
  reshape<const S extends Shape>(
    this: Only<R, 1 | 2, Value<D, R>, 'only a fragment can be reshaped; use broadcast() for a scalar'>,
    shape: S,
  ): Only<R, 1 | 2, Value<D, S['length'] & Rank>, Refused> {
    const value = this as Value<D, R>
    return value.#make('reshape', [value.node], { shape })
  }
  /** Interleaves the elements of this fragment and of `other` along the last axis. */
  interleave(
    this: Only<
      R,
      1 | 2,
      Value<D, R>,
      'only fragments can be interleaved; use broadcast() for a scalar first'
    >,
    other: Value<D, R>,
  ): Only<R, 1 | 2, Value<D, R>, Refused> {
    const value = this as Value<D, R>
    return value.#make('interleave', [value.node, expectValue(other, 'interleave').node])
  }

  /** Adds an axis of extent 1. For a vector, `expand(1)` makes a column matrix and `expand(0)` makes a row matrix. */
  expand(
    this: Only<R, 1, Value<D, R>, 'only a vector can be expanded; a scalar is broadcast without expand()'>,
    axis: 0 | 1,
  ): Only<R, 1, Value<D, 2>, Refused> {
    const vector = this as Value<D, R>
    return vector.#make('expand', [vector.node], { axis })
  }
  /** Broadcasts scalars and axes of extent 1 to a shape. */
  broadcast<const S extends Shape>(shape: S): Value<D, S['length'] & Rank> {
    return stretch(this, shape) as Value<D, S['length'] & Rank>
  }
  transpose(
    this: Only<R, 2, Value<D, R>, 'only a matrix can be transposed; x.expand(1) makes a column of a vector'>,
  ): Only<R, 2, Value<D, 2>, Refused> {
    const matrix = this as Value<D, R>
    return matrix.#make('transpose', [matrix.node])
  }
}

export type Scalar<D extends DType = 'i32'> = Value<D, 0>
export type Fragment<D extends DType = DType, R extends 1 | 2 = 1 | 2> = Value<D, R>
/** An index: a number that is known when the kernel is recorded, or a symbolic scalar. */
export type Index = number | Scalar<'i32'> | Scalar<'i64'>

export function constant<D extends DType>(recorder: Recorder, dtype: D, value: number): Value<D, 0> {
  if (!isDType(dtype))
    throw new KernelError(
      `${String(dtype)} is not a dtype; they are ${Object.keys(dtypes).join(', ')}`,
      Site.here(),
    )
  const info = dtypes[dtype]
  if (typeof value !== 'number' || (info.kind !== 'float' && !Number.isInteger(value)))
    throw new KernelError(`${String(value)} is not a number of dtype ${dtype}`, Site.here())
  if (info.kind !== 'float' && (value < info.min || value > info.max))
    throw new KernelError(
      `${value} does not fit ${dtype}, which holds ${info.min} to ${info.max}`,
      Site.here(),
    )
  return new Value<D, 0>(recorder, recorder.emit('const', [], { dtype, value: round(dtype, value) }))
}

function expectValue(value: unknown, what: string): Value {
  if (value instanceof Value) return value
  const given = value instanceof Symbolic ? value.constructor.name : typeof value
  throw new KernelError(
    `${what}: expected a number or a value, not ${given}; load memory to get its values`,
    Site.here(),
  )
}

/** True if the condition holds in all elements. */
export function all(condition: Value<'bool'>): Value<'bool', 0> {
  const value = expectValue(condition, 'a condition') as Value<'bool'>
  if (value.dtype !== 'bool' || value.shape.length === 0) return value as Value<'bool', 0>
  const numbers = value.to('i32')
  const rows =
    numbers.shape.length === 2 ? (numbers as Value<'i32', 2>).minimum(1) : (numbers as Value<'i32', 1>)
  return rows.minimum().ne(0)
}

export function stretch(operand: Value, shape: Shape): Value {
  const value = expectValue(operand, 'an operand')
  if (sameShape(value.shape, shape)) return value
  return new Value(value.recorder, value.recorder.emit('broadcast', [value.node], { shape }))
}

export function index(recorder: Recorder, at: Index): Node {
  return typeof at === 'number' ? constant(recorder, 'i32', at).node : expectValue(at, 'an index').node
}
