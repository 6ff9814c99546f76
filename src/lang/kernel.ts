/**
 * `kernel`: a named function of `t` and its arguments, recorded on demand for a world size and meta-parameters.
 *
 * Recording calls the function once with symbols. The result is verified IR; it is kept, so that a kernel is recorded once
 * for each specialisation.
 */
import type { DType, StorageDType } from '../ir/dtype.ts'
import { isDType } from '../ir/dtype.ts'
import type { KernelIR } from '../ir/node.ts'
import { KernelError, Site } from '../ir/site.ts'
import { flagsType, tensorType, valueType, type Type } from '../ir/type.ts'
import { verify } from '../ir/verify.ts'
import { Program } from './program.ts'
import { expectSynchronous, Recorder } from './recorder.ts'
import { Flags, Tensor, type TensorRank } from './tensor.ts'
import { Value, type Refused, type Scalar } from './value.ts'

export interface TensorParam<D extends StorageDType, R extends TensorRank> {
  readonly kind: 'tensor'
  readonly dtype: D
  readonly rank: R
  readonly carries?: string
}
export interface FlagsParam<R extends 0 | 1 | 2 | 3> {
  readonly kind: 'flags'
  readonly rank: R
  readonly arrivals: number
}
export interface ScalarParam<D extends DType> {
  readonly kind: 'scalar'
  readonly dtype: D
}
export type Param = TensorParam<StorageDType, TensorRank> | FlagsParam<0 | 1 | 2 | 3> | ScalarParam<DType>
export type Params = Readonly<Record<string, Param>>

export type Arguments<P extends Params> = {
  readonly [K in keyof P]: P[K] extends TensorParam<infer D, infer R>
    ? Tensor<D, R>
    : P[K] extends FlagsParam<infer R>
      ? Flags<R>
      : P[K] extends ScalarParam<infer D>
        ? Scalar<D>
        : Refused
}

export type MetaValue = number | string | boolean
export type Meta = Readonly<Record<string, MetaValue>>

/**
 * A tensor on the symmetric heap: one copy a rank.
 *
 * `carries` names flags that tell of nothing but this tensor's tiles, of f32: each is stored whole, once in every launch and in two slots
 * by epoch, and loaded whole behind a wait for its flag, by the same kernel. A GPU may then do without these flags: each word has two bits
 * by epoch in the place of its lowest ones, and a load looks at them until all are there. The tensor must be zero at first, and what it holds
 * is nobody else's business: elements may lie in another order.
 */
export function tensor<D extends StorageDType, R extends TensorRank>(
  dtype: D,
  rank: R,
  options: { readonly carries?: string } = {},
): TensorParam<D, R> {
  if (!isDType(dtype) || (dtype as DType) === 'bool')
    throw new KernelError(`a tensor cannot hold ${String(dtype)}`, Site.here())
  if (![1, 2, 3, 4].includes(rank))
    throw new KernelError(`a tensor has one to four axes, not ${String(rank)}`, Site.here())
  if (options.carries !== undefined && (dtype as DType) !== 'f32')
    throw new KernelError(`words of ${dtype} cannot carry epochs`, Site.here())
  return { kind: 'tensor', dtype, rank, ...options }
}

/** A set of flags with `rank` axes, on every rank. A flag counts as signalled after `arrivals` signals an epoch. */
export function flags(): FlagsParam<0>
export function flags<R extends 0 | 1 | 2 | 3>(
  rank: R,
  options?: { readonly arrivals?: number },
): FlagsParam<R>
export function flags(
  rank: 0 | 1 | 2 | 3 = 0,
  options: { readonly arrivals?: number } = {},
): FlagsParam<0 | 1 | 2 | 3> {
  const arrivals = options.arrivals ?? 1
  if (!Number.isInteger(arrivals) || arrivals < 1)
    throw new KernelError(`flags of ${arrivals} arrivals an epoch`, Site.here())
  return { kind: 'flags', rank, arrivals }
}

/** A number given at launch. */
export function scalar<D extends 'i32' | 'u32' | 'i64' | 'f32'>(dtype: D): ScalarParam<D> {
  return { kind: 'scalar', dtype }
}

/** What a kernel is recorded for; meta-parameters not given keep their defaults. */
export interface Specialisation {
  readonly world: number
  readonly meta?: Meta
}
export class Kernel<P extends Params = Params, M extends Meta = Meta> {
  readonly name: string
  readonly params: P
  readonly meta: M
  readonly site: Site
  readonly #body: (t: Program, args: never, meta: never) => void
  readonly #recordings = new Map<string, KernelIR>()

  constructor(name: string, params: P, meta: M, body: (t: Program, args: Arguments<P>, meta: M) => void) {
    this.name = name
    this.params = params
    this.meta = meta
    this.site = Site.here()
    this.#body = body
  }

  /** The verified IR for a world size and meta-parameters; those not given keep their defaults. */
  record(specialisation: Specialisation): KernelIR {
    const { world } = specialisation
    if (!Number.isInteger(world) || world < 1) throw new KernelError(`a world of ${world} ranks`, this.site)
    for (const name of Object.keys(specialisation.meta ?? {}))
      if (!Object.hasOwn(this.meta, name))
        throw new KernelError(
          `${this.name} has no meta-parameter ${name}; it has ${Object.keys(this.meta).join(', ') || 'none'}`,
          this.site,
        )
    const meta = { ...this.meta, ...specialisation.meta } as M
    const key = JSON.stringify([world, meta])
    const known = this.#recordings.get(key)
    if (known) return known
    const recorded = this.#record(world, meta)
    this.#recordings.set(key, recorded)
    return recorded
  }

  #carried(): KernelIR['carried'] {
    const tensors = Object.entries(this.params).flatMap(([name, param]) =>
      param.kind === 'tensor' && param.carries !== undefined ? [[name, param.carries] as const] : [],
    )
    for (const [name, flags] of tensors) {
      const param = this.params[flags] as Param | undefined
      if (param?.kind !== 'flags' || param.arrivals !== 1)
        throw new KernelError(`${name} carries ${flags}, which are no flags of one arrival`, this.site)
    }
    return tensors.length > 0 ? Object.fromEntries(tensors) : undefined
  }

  #record(world: number, meta: M): KernelIR {
    const recorder = new Recorder(world)
    const args: Record<string, unknown> = {}
    for (const [name, param] of Object.entries(this.params)) {
      const node = recorder.param(recorder.root, paramType(param), name)
      args[name] =
        param.kind === 'tensor'
          ? new Tensor(recorder, node)
          : param.kind === 'flags'
            ? new Flags(recorder, node)
            : new Value(recorder, node)
    }
    const returned: unknown = this.#body(new Program(recorder), args as never, meta as never)
    recorder.close()
    expectSynchronous(returned, this.name, this.site)
    const carried = this.#carried()
    const ir: KernelIR = {
      ...{ name: this.name, body: recorder.root, world, meta, stage: 'recorded' },
      ...(carried && { carried }),
    }
    verify(ir)
    return ir
  }
}

function paramType(param: Param): Type {
  switch (param.kind) {
    case 'tensor':
      return tensorType(param.dtype, param.rank)
    case 'flags':
      return flagsType(param.rank, param.arrivals)
    case 'scalar':
      return valueType(param.dtype)
    default:
      return param satisfies never
  }
}

/** A default of `true` does not mean that it is always true. */
type Widened<M extends Meta> = { readonly [K in keyof M]: M[K] extends boolean ? boolean : M[K] }

/** The meta-parameters of a kernel that declares none. */
export type NoMetaParameters = { readonly [_ in never]: MetaValue }

/**
 * Define a kernel. `meta` are its compile-time parameters with their defaults; leave it out if there are none.
 */
export function kernel<P extends Params>(
  name: string,
  params: P,
  body: (t: Program, args: Arguments<P>, meta: NoMetaParameters) => void,
): Kernel<P, Meta>
export function kernel<P extends Params, M extends Meta>(
  name: string,
  params: P,
  meta: M,
  body: (t: Program, args: Arguments<P>, meta: Widened<M>) => void,
): Kernel<P, Widened<M>>
export function kernel<P extends Params, M extends Meta>(
  name: string,
  params: P,
  ...rest:
    | [(t: Program, args: Arguments<P>, meta: NoMetaParameters) => void]
    | [M, (t: Program, args: Arguments<P>, meta: Widened<M>) => void]
): Kernel<P, Meta> | Kernel<P, Widened<M>> {
  if (!/^[A-Za-z_]\w*$/.test(name))
    throw new KernelError(`a kernel's name is an identifier, not ${JSON.stringify(name)}`, Site.here())
  return rest.length === 1
    ? new Kernel<P, Meta>(name, params, {}, rest[0])
    : new Kernel<P, Widened<M>>(name, params, rest[0] as Widened<M>, rest[1])
}
