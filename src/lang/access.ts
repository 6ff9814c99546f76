/** Options of memory accesses (orders, scopes, masks and operands), and the atomic operations. */
import type { AtomicDType, DType, IntegerDType } from '../ir/dtype.ts'
import type { Attributes, Node } from '../ir/node.ts'
import type { OpName, Order, Scope } from '../ir/ops/index.ts'
import { KernelError, Site } from '../ir/site.ts'
import type { Recorder } from './recorder.ts'
import type { Ref } from './tensor.ts'
import { constant, stretch, Value, type Rank } from './value.ts'

export interface Access {
  readonly order?: Order
  readonly scope?: Scope
}
export interface Masked<R extends number> {
  /** A mask: only the elements for which the mask is true are accessed. */
  readonly mask?: Value<'bool', 0 | (R & Rank)>
}
/**
 * An operand for elements of dtype D and rank R (number of axes): a number, a scalar for all elements, or one value per
 * element.
 */
export type Operand<D extends DType, R extends number> = number | Value<NoInfer<D>, 0 | (NoInfer<R> & Rank)>

export function access(options: Access, fallback?: Order): Attributes {
  const order = options.order ?? fallback
  if (order === undefined && options.scope !== undefined)
    throw new KernelError(
      'an access without an order has no scope: give an order too, or leave the scope out',
      Site.here(),
    )
  return order === undefined ? {} : { order, scope: options.scope ?? 'system' }
}

export function operand(recorder: Recorder, ref: Ref, value: number | Value): Node {
  return stretch(typeof value === 'number' ? constant(recorder, ref.dtype, value) : value, ref.shape).node
}

/**
 * The nine atomic operations of the language. Atomic operations have relaxed order at system scope by default. Each
 * atomic operation returns the previous value of the element.
 */
export class Atomics {
  readonly #recorder: Recorder
  constructor(recorder: Recorder) {
    this.#recorder = recorder
  }
  #emit<D extends DType, R extends number>(
    op: OpName,
    ref: Ref<D, R>,
    values: readonly (number | Value)[],
    options: Access & Masked<R>,
  ): Value<D, R & Rank> {
    const recorder = this.#recorder
    const inputs = [ref.node, ...values.map((value) => operand(recorder, ref, value))]
    if (options.mask) inputs.push(stretch(options.mask, ref.shape).node)
    return new Value(recorder, recorder.emit(op, inputs, access(options, 'relaxed')))
  }
  add<D extends AtomicDType, R extends number>(
    ref: Ref<D, R>,
    value: Operand<D, R>,
    options: Access & Masked<NoInfer<R>> = {},
  ) {
    return this.#emit('atomic.add', ref, [value], options)
  }
  sub<D extends AtomicDType, R extends number>(
    ref: Ref<D, R>,
    value: Operand<D, R>,
    options: Access & Masked<NoInfer<R>> = {},
  ) {
    return this.#emit('atomic.sub', ref, [value], options)
  }
  xchg<D extends AtomicDType, R extends number>(
    ref: Ref<D, R>,
    value: Operand<D, R>,
    options: Access & Masked<NoInfer<R>> = {},
  ) {
    return this.#emit('atomic.xchg', ref, [value], options)
  }
  min<D extends AtomicDType, R extends number>(
    ref: Ref<D, R>,
    value: Operand<D, R>,
    options: Access & Masked<NoInfer<R>> = {},
  ) {
    return this.#emit('atomic.min', ref, [value], options)
  }
  max<D extends AtomicDType, R extends number>(
    ref: Ref<D, R>,
    value: Operand<D, R>,
    options: Access & Masked<NoInfer<R>> = {},
  ) {
    return this.#emit('atomic.max', ref, [value], options)
  }
  and<D extends IntegerDType, R extends number>(
    ref: Ref<D, R>,
    value: Operand<D, R>,
    options: Access & Masked<NoInfer<R>> = {},
  ) {
    return this.#emit('atomic.and', ref, [value], options)
  }
  or<D extends IntegerDType, R extends number>(
    ref: Ref<D, R>,
    value: Operand<D, R>,
    options: Access & Masked<NoInfer<R>> = {},
  ) {
    return this.#emit('atomic.or', ref, [value], options)
  }
  xor<D extends IntegerDType, R extends number>(
    ref: Ref<D, R>,
    value: Operand<D, R>,
    options: Access & Masked<NoInfer<R>> = {},
  ) {
    return this.#emit('atomic.xor', ref, [value], options)
  }
  /** Stores `desired` if the element holds `expected`. */
  cas<D extends IntegerDType, R extends number>(
    ref: Ref<D, R>,
    expected: Operand<D, R>,
    desired: Operand<D, R>,
    options: Access & Masked<NoInfer<R>> = {},
  ) {
    return this.#emit('atomic.cas', ref, [expected, desired], options)
  }
}
