/**
 * Values: scalars (rank 0) and fragments (rank 1 and 2), whose elements are stored in registers.
 *
 * Arithmetic is written with methods. Scalars and axes of extent 1 are broadcast as in NumPy; `expand` makes a vector
 * compatible with a matrix. Arithmetic is defined for f32, i32, u32 and i64. Values of the other dtypes must be cast
 * first, because those dtypes are for storage only.
 */
import type { ArithmeticDType, DType, IntegerDType } from '../ir/dtype.ts'
import { dtypes, isDType, round } from '../ir/dtype.ts'
import type { Node } from '../ir/node.ts'
import type { OpName } from '../ir/ops/index.ts'
import { KernelError, Site } from '../ir/site.ts'
import { broadcastShapes, sameShape, type Shape, type ValueType } from '../ir/type.ts'
import type { Recorder } from './recorder.ts'

export type Rank = 0 | 1 | 2

/**
 * The base class of everything that is recorded. JavaScript operators cannot be overloaded, so coercing a symbolic
 * value throws an error.
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
 * The ranks allowed for the right operand of an operation on rank R. A scalar combines with any rank, and a fragment
 * with its own rank or a scalar.
 */
type Fits<R extends Rank> = R extends 0 ? Rank : 0 | R
type Right<D extends DType, R extends Rank> = number | Value<D, Fits<R>>
/** The rank of the result of an operation on rank R and operand `O`. */
type Joined<R extends Rank, O> = R extends 0 ? (O extends { readonly rank: infer S extends Rank } ? S : 0) : R
type If<D, Allowed, T> = [D] extends [Allowed] ? T : never

type FloatDType = 'f32'
type BitsDType = IntegerDType | 'bool'
type Smaller<R extends Rank> = R extends 2 ? 1 : 0

export class Value<D extends DType = DType, R extends Rank = Rank> extends Symbolic {
  get dtype(): D {
    return (this.node.type as ValueType).dtype as D
  }

  get shape(): Shape {
    return (this.node.type as ValueType).shape
  }

  /** Never read at run time. It lets the type checker distinguish ranks. */
  declare readonly rank: R

  #make<E extends DType, S extends Rank>(op: OpName, inputs: readonly Node[], attributes = {}): Value<E, S> {
    return new Value<E, S>(this.recorder, this.recorder.emit(op, inputs, attributes))
  }

  #unary(op: OpName): Value<D, R> {
    return this.#make(op, [this.node])
  }

  #binary<E extends DType, S extends Rank>(op: OpName, other: number | Value): Value<E, S> {
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

  add<O extends Right<D, R>>(this: If<D, ArithmeticDType, Value<D, R>>, other: O): Value<D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('add', other)
  }
  sub<O extends Right<D, R>>(this: If<D, ArithmeticDType, Value<D, R>>, other: O): Value<D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('sub', other)
  }
  mul<O extends Right<D, R>>(this: If<D, ArithmeticDType, Value<D, R>>, other: O): Value<D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('mul', other)
  }
  /** Division; integer division rounds towards zero. */
  div<O extends Right<D, R>>(this: If<D, ArithmeticDType, Value<D, R>>, other: O): Value<D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('div', other)
  }
  /** The remainder of `div`, which has the sign of the dividend, like JavaScript's %. */
  mod<O extends Right<D, R>>(this: If<D, IntegerDType, Value<D, R>>, other: O): Value<D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('mod', other)
  }
  min<O extends Right<D, R>>(this: If<D, ArithmeticDType, Value<D, R>>, other: O): Value<D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('min', other)
  }
  max<O extends Right<D, R>>(this: If<D, ArithmeticDType, Value<D, R>>, other: O): Value<D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('max', other)
  }
  and<O extends Right<D, R>>(this: If<D, BitsDType, Value<D, R>>, other: O): Value<D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('and', other)
  }
  or<O extends Right<D, R>>(this: If<D, BitsDType, Value<D, R>>, other: O): Value<D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('or', other)
  }
  xor<O extends Right<D, R>>(this: If<D, BitsDType, Value<D, R>>, other: O): Value<D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('xor', other)
  }
  shl<O extends Right<D, R>>(this: If<D, IntegerDType, Value<D, R>>, other: O): Value<D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('shl', other)
  }
  shr<O extends Right<D, R>>(this: If<D, IntegerDType, Value<D, R>>, other: O): Value<D, Joined<R, O>> {
    return (this as Value<D, R>).#binary('shr', other)
  }

  eq<O extends Right<D, R>>(
    this: If<D, ArithmeticDType | 'bool', Value<D, R>>,
    other: O,
  ): Value<'bool', Joined<R, O>> {
    return (this as Value<D, R>).#binary('eq', other)
  }
  ne<O extends Right<D, R>>(
    this: If<D, ArithmeticDType | 'bool', Value<D, R>>,
    other: O,
  ): Value<'bool', Joined<R, O>> {
    return (this as Value<D, R>).#binary('ne', other)
  }
  lt<O extends Right<D, R>>(
    this: If<D, ArithmeticDType, Value<D, R>>,
    other: O,
  ): Value<'bool', Joined<R, O>> {
    return (this as Value<D, R>).#binary('lt', other)
  }
  le<O extends Right<D, R>>(
    this: If<D, ArithmeticDType, Value<D, R>>,
    other: O,
  ): Value<'bool', Joined<R, O>> {
    return (this as Value<D, R>).#binary('le', other)
  }
  gt<O extends Right<D, R>>(
    this: If<D, ArithmeticDType, Value<D, R>>,
    other: O,
  ): Value<'bool', Joined<R, O>> {
    return (this as Value<D, R>).#binary('gt', other)
  }
  ge<O extends Right<D, R>>(
    this: If<D, ArithmeticDType, Value<D, R>>,
    other: O,
  ): Value<'bool', Joined<R, O>> {
    return (this as Value<D, R>).#binary('ge', other)
  }

  neg(this: If<D, ArithmeticDType, Value<D, R>>): Value<D, R> {
    return (this as Value<D, R>).#unary('neg')
  }
  abs(this: If<D, 'f32' | 'i32' | 'i64', Value<D, R>>): Value<D, R> {
    return (this as Value<D, R>).#unary('abs')
  }
  not(this: If<D, BitsDType, Value<D, R>>): Value<D, R> {
    return (this as Value<D, R>).#unary('not')
  }
  exp2(this: If<D, FloatDType, Value<D, R>>): Value<D, R> {
    return (this as Value<D, R>).#unary('exp2')
  }
  log2(this: If<D, FloatDType, Value<D, R>>): Value<D, R> {
    return (this as Value<D, R>).#unary('log2')
  }
  sqrt(this: If<D, FloatDType, Value<D, R>>): Value<D, R> {
    return (this as Value<D, R>).#unary('sqrt')
  }
  rsqrt(this: If<D, FloatDType, Value<D, R>>): Value<D, R> {
    return (this as Value<D, R>).#unary('rsqrt')
  }
  tanh(this: If<D, FloatDType, Value<D, R>>): Value<D, R> {
    return (this as Value<D, R>).#unary('tanh')
  }
  sigmoid(this: If<D, FloatDType, Value<D, R>>): Value<D, R> {
    return (this as Value<D, R>).#unary('sigmoid')
  }

  /** For each element of this mask: `yes` if the mask is true, otherwise `no`. */
  select<E extends DType, A extends Fits<R>, O extends Right<NoInfer<E>, R>>(
    this: If<D, 'bool', Value<D, R>>,
    yes: Value<E, A>,
    no: O,
  ): Value<E, Joined<Joined<R, { rank: A }>, O>> {
    const mask = this as Value<D, R>
    const other: Value = typeof no === 'number' ? constant(this.recorder, yes.dtype, no) : no
    const common = broadcastShapes(mask.shape, yes.shape)
    const shape = common && broadcastShapes(common, other.shape)
    if (!shape)
      throw new KernelError(
        'select: the shapes of the mask and the choices cannot be broadcast together',
        Site.here(),
      )
    return mask.#make('select', [
      stretch(mask, shape).node,
      stretch(yes, shape).node,
      stretch(other, shape).node,
    ])
  }

  to<E extends DType>(dtype: E): Value<E, R> {
    if ((this.dtype as DType) === dtype) return this as unknown as Value<E, R>
    return this.#make('cast', [this.node], { dtype })
  }

  /** The sum along an axis. For a matrix, axis 1 yields one number per row. */
  sum(this: If<D, ArithmeticDType, Value<D, R>>, axis?: number): Value<D, Smaller<R>> {
    return (this as Value<D, R>).#reduce('reduce.sum', axis)
  }
  maximum(this: If<D, ArithmeticDType, Value<D, R>>, axis?: number): Value<D, Smaller<R>> {
    return (this as Value<D, R>).#reduce('reduce.max', axis)
  }
  minimum(this: If<D, ArithmeticDType, Value<D, R>>, axis?: number): Value<D, Smaller<R>> {
    return (this as Value<D, R>).#reduce('reduce.min', axis)
  }
  #reduce(op: OpName, axis: number | undefined): Value<D, Smaller<R>> {
    if (axis === undefined && this.shape.length === 2)
      throw new KernelError(
        `${op}: give the axis: 0 yields one number per column, 1 one number per row`,
        Site.here(),
      )
    return this.#make(op, [this.node], { axis: axis ?? 0 })
  }

  /** Adds an axis of extent 1. For a vector, `expand(1)` makes a column and `expand(0)` makes a row. */
  expand(this: If<R, 1, Value<D, R>>, axis: 0 | 1): Value<D, 2> {
    return (this as Value<D, R>).#make('expand', [this.node], { axis })
  }
  /** Broadcasts scalars and axes of extent 1 to a shape. */
  broadcast<const S extends Shape>(shape: S): Value<D, S['length'] & Rank> {
    return stretch(this, shape) as Value<D, S['length'] & Rank>
  }
  transpose(this: If<R, 2, Value<D, R>>): Value<D, 2> {
    return (this as Value<D, R>).#make('transpose', [this.node])
  }
}

export type Scalar<D extends DType = 'i32'> = Value<D, 0>
export type Fragment<D extends DType = DType, R extends 1 | 2 = 1 | 2> = Value<D, R>
/** An index: a number that is known when recording, or a symbolic scalar. */
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

export function stretch(operand: Value, shape: Shape): Value {
  const value = expectValue(operand, 'an operand')
  if (sameShape(value.shape, shape)) return value
  return new Value(value.recorder, value.recorder.emit('broadcast', [value.node], { shape }))
}

export function index(recorder: Recorder, at: Index): Node {
  return typeof at === 'number' ? constant(recorder, 'i32', at).node : expectValue(at, 'an index').node
}
