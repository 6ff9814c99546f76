/**
 * `kernel` defines a named kernel as a function of `t` and the kernel's arguments. A kernel is recorded on demand for a
 * world size and a set of meta-parameters.
 *
 * Recording calls the author's function once with symbolic values and verifies the resulting IR. The recorded IR is
 * cached, so a kernel is recorded once per specialisation.
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
 * A tensor parameter on the symmetric heap, which has one copy per rank.
 *
 * `carries` names the flags that signal only tiles of this tensor, whose dtype must be f32. For a tensor with
 * `carries`, a GPU may use flag-in-data words, as in NCCL's LL protocol: the low two bits of each f32 hold the epoch,
 * and a load polls the words until all have arrived. Each tile of a tensor with `carries` must be stored as a whole,
 * once per launch, into the one of two slots that the epoch selects. The same kernel must load each tile of a tensor
 * with `carries` as a whole, after a wait for the tile's flag. A tensor with `carries` must be zero initially. All
 * other code must treat the contents of a tensor with `carries` as unspecified, because a GPU may store the elements in
 * a different order.
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
    throw new KernelError(`a tensor with \`carries\` must have dtype f32, not ${dtype}`, Site.here())
  return { kind: 'tensor', dtype, rank, ...options }
}

/**
 * A parameter for a set of flags with `rank` axes, which exists on every rank. A flag is signalled for an epoch after
 * `arrivals` signals.
 */
export function flags(): FlagsParam<0>
export function flags<R extends 0 | 1 | 2 | 3>(
  rank: R,
  options?: { readonly arrivals?: number },
): FlagsParam<R>
export function flags(
  rank: 0 | 1 | 2 | 3 = 0,
  options: { readonly arrivals?: number } = {},
): FlagsParam<0 | 1 | 2 | 3> {
  if (![0, 1, 2, 3].includes(rank))
    throw new KernelError(`flags have zero to three axes, not ${String(rank)}`, Site.here())
  const arrivals = options.arrivals ?? 1
  if (!Number.isInteger(arrivals) || arrivals < 1)
    throw new KernelError(`flags need a positive integer of arrivals per epoch, not ${arrivals}`, Site.here())
  return { kind: 'flags', rank, arrivals }
}

/** A parameter for a number that is passed at launch. */
export function scalar<D extends 'i32' | 'u32' | 'i64' | 'f32'>(dtype: D): ScalarParam<D> {
  return { kind: 'scalar', dtype }
}

/**
 * The world size and meta-parameters for which a kernel is recorded. Meta-parameters that are not given keep their
 * defaults.
 */
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

  /**
   * The verified IR of the kernel for a world size and meta-parameters. Meta-parameters that are not given keep their
   * defaults.
   */
  record(specialisation: Specialisation): KernelIR {
    const { world } = specialisation
    if (!Number.isInteger(world) || world < 1)
      throw new KernelError(`a world needs a positive integer number of ranks, not ${world}`, this.site)
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
        throw new KernelError(
          `the tensor ${name} carries ${flags}, which must be a flags parameter of the kernel with one arrival`,
          this.site,
        )
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

/**
 * Widens the types `true` and `false` to boolean, so that a default of `true` does not restrict a meta-parameter to
 * `true`.
 */
type Widened<M extends Meta> = { readonly [K in keyof M]: M[K] extends boolean ? boolean : M[K] }

/** The type of the meta-parameters of a kernel that declares none. */
export type NoMetaParameters = { readonly [_ in never]: MetaValue }

/**
 * Defines a kernel from a name, its parameters and a function. The argument `meta` holds the kernel's compile-time
 * parameters with their defaults and may be omitted.
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
