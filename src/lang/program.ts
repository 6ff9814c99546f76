/**
 * `t` is the object through which a kernel's body records operations. Every method appends IR, and none computes a
 * result. The kernel describes one *program* of a launch, which runs `t.programs` times on each of `t.world` ranks.
 */
import type { DotDType, DType, StorageDType } from '../ir/dtype.ts'
import { Block, type Attributes, type Node } from '../ir/node.ts'
import type { OpName, Order, Scope } from '../ir/ops/index.ts'
import { KernelError, Site } from '../ir/site.ts'
import { valueType } from '../ir/type.ts'
import { access, Atomics, operand, type Access, type Masked, type Operand } from './access.ts'
import { MOST_IN_CLUSTER } from '../ir/clusters.ts'
import { flatten, namesOf, unflatten, type Carried } from './carried.ts'
import { firstElements } from './printed.ts'
import { randomInputs, type Counter, type Seed } from './random.ts'
import { expectSynchronous, type Recorder } from './recorder.ts'
import {
  Barrier,
  Barriers,
  Flags,
  Ref,
  Shared,
  TileSpace,
  ceilDiv,
  type Flag,
  type Tensor,
  type TensorRank,
  type Tuple,
} from './tensor.ts'
import {
  all,
  constant,
  index,
  stretch,
  Value,
  type Fragment,
  type Index,
  type Matching,
  type Only,
  type Rank,
  type Refused,
  type Scalar,
} from './value.ts'

export interface LoopRange {
  readonly from?: Index
  readonly to: Index
  readonly step?: Index
}
export interface LastOptions {
  /** The index whose arrivals are counted: less than `of`, 0 by default. */
  readonly at?: Index
  /** The number of indices, 1 by default. */
  readonly of?: number
  /** The arrivals that complete a count. By default the number of programs of the launch, or of the team. */
  readonly arrivals?: Index
}

export interface PipelineOptions {
  /** The number of tiles in flight. The default is 2; with 1, copies and computation do not overlap. */
  readonly stages?: number
}
export interface PersistentOptions {
  /**
   * The extents of a cluster, one for each axis of the space. The programs of a cluster process neighbouring items at
   * the same time, so that a copy with `multicast` can fetch a tile once for several of them.
   */
  readonly cluster?: readonly number[]
}
export interface CopyOptions<R extends number> extends Masked<R> {
  /**
   * An axis of the cluster: the programs that differ only along this axis copy the same elements into the same shared
   * tile. A target may then fetch the elements once and write them to the tiles of all these programs.
   */
  readonly multicast?: number
}
export interface WaitOptions extends Access {
  /**
   * The number of launches by which the awaited signal may be older: with `lag` 1, the wait requires the signal of
   * the previous launch.
   */
  readonly lag?: number
  /**
   * The number of signals of the epoch that suffice. Without it, the wait requires all `arrivals` signals of the
   * epoch.
   */
  readonly atLeast?: Index
}
const awaited = ({ lag = 0, order, scope }: WaitOptions): Attributes => ({
  ...access({ order, scope }, 'acquire'),
  lag,
})
type FragmentShape = readonly [number] | readonly [number, number]
type Indices<E extends readonly Index[]> = { readonly [K in keyof E]: Scalar<'i32'> }
type Body = () => void
type RoleBody = Body | { readonly warps: number; readonly body: Body }
type Yielded = Carried | void
/** The state that a loop starts with, and the state that its body takes and returns. */
type Initial<C> = Only<
  C,
  Carried,
  C,
  'only values can be carried; t.constant(dtype, x) converts a number to a value'
>
type State<C> = Only<C, Carried, C, Refused>
const nothing = (): void => undefined

/** Checks the cluster of a `persistent` loop over a space with this number of axes. */
function expectCluster(cluster: readonly number[], axes: number, inTeam: boolean): void {
  const size = cluster.reduce((product, extent) => product * extent, 1)
  if (cluster.length !== axes)
    throw new KernelError(
      `persistent: a cluster of ${cluster.length} extents for a space of ${axes}: give one for each axis`,
      Site.here(),
    )
  if (!cluster.every((extent) => Number.isInteger(extent) && extent >= 1) || size > MOST_IN_CLUSTER)
    throw new KernelError(
      `persistent: a cluster of ${cluster.join(' x ')} programs: extents are whole numbers, with 1 to ${MOST_IN_CLUSTER} programs in all`,
      Site.here(),
    )
  if (inTeam && size > 1)
    throw new KernelError(
      'persistent: a cluster consists of consecutive programs of the launch: put the loop outside teams',
      Site.here(),
    )
}

export class Program {
  /** The number of ranks, which is known when the kernel is recorded. */
  readonly world: number
  readonly atomic: Atomics
  readonly #recorder: Recorder
  /** The program id and count of the enclosing teams, innermost last. Inside a team, programs are numbered from 0. */
  readonly #numbering: { program: Node; programs: Node }[] = []
  /** The cluster of the enclosing `persistent` loop, if it has one. */
  #cluster: readonly number[] | undefined

  constructor(recorder: Recorder) {
    this.#recorder = recorder
    this.world = recorder.world
    this.atomic = new Atomics(recorder)
  }

  #emit(
    op: OpName,
    inputs: readonly Node[] = [],
    attributes: Attributes = {},
    blocks: readonly Block[] = [],
  ): Node {
    return this.#recorder.emit(op, inputs, attributes, blocks)
  }
  #value<D extends DType, R extends Rank>(node: Node): Value<D, R> {
    return new Value<D, R>(this.#recorder, node)
  }
  #index(at: Index): Node {
    return index(this.#recorder, at)
  }

  // Who am I

  get rank(): Scalar<'i32'> {
    return this.#value(this.#emit('rank'))
  }
  /** The id of this program among the programs of its rank, or of its team. */
  get program(): Scalar<'i32'> {
    return this.#value(this.#numbering.at(-1)?.program ?? this.#emit('program'))
  }
  get programs(): Scalar<'i32'> {
    return this.#value(this.#numbering.at(-1)?.programs ?? this.#emit('programs'))
  }

  // Values

  constant<D extends DType>(dtype: D, value: number): Value<D, 0> {
    return constant(this.#recorder, dtype, value)
  }
  full<D extends DType, const S extends FragmentShape>(
    dtype: D,
    shape: S,
    value: number,
  ): Value<D, S['length']> {
    return stretch(this.constant(dtype, value), shape) as Value<D, S['length']>
  }
  zeros<D extends DType, const S extends FragmentShape>(dtype: D, shape: S): Value<D, S['length']> {
    return this.full(dtype, shape, 0)
  }
  /** The vector 0, 1, …, extent - 1. */
  arange(extent: number): Fragment<'i32', 1> {
    return this.#value(this.#emit('iota', [], { extent }))
  }
  /**
   * Random numbers of Philox4x32-10: a function of a seed and a counter, the same on every target. In u32, word 0 of each
   * counter's block of random bits. In f32, numbers from 0 to 1 (exclusive), of 24 random bits each.
   */
  random<D extends 'u32' | 'f32', R extends Rank>(dtype: D, seed: Seed, counter: Counter<R>): Value<D, R> {
    return this.#random(dtype, randomInputs(this.#recorder, seed, counter), 0)
  }
  /** All four words of each counter's block, which cost little more than one. */
  random4<D extends 'u32' | 'f32', R extends Rank>(
    dtype: D,
    seed: Seed,
    counter: Counter<R>,
  ): [Value<D, R>, Value<D, R>, Value<D, R>, Value<D, R>] {
    const inputs = randomInputs(this.#recorder, seed, counter)
    const [a, b, c, d] = [0, 1, 2, 3].map((word) => this.#random<D, R>(dtype, inputs, word))
    return [a, b, c, d]
  }
  #random<D extends 'u32' | 'f32', R extends Rank>(
    dtype: D,
    inputs: readonly Node[],
    word: number,
  ): Value<D, R> {
    const bits = this.#value<'u32', R>(this.#emit('random', inputs, { word }))
    if (dtype === 'u32') return bits as Value<DType, R> as Value<D, R>
    if (dtype === 'f32')
      return bits
        .shr(8)
        .to('f32')
        .mul(2 ** -24) as Value<DType, R> as Value<D, R>
    throw new KernelError(`random: makes u32 or f32, not ${String(dtype)}`, Site.here())
  }
  /**
   * Returns accumulator + a x b. Both `a` and `b` may be shared tiles or fragments, although a GPU's matrix unit
   * requires `b` in shared memory.
   */
  dot<D extends DotDType>(
    a: Shared<D, 2> | Fragment<D, 2>,
    b: Shared<NoInfer<D>, 2> | Fragment<NoInfer<D>, 2>,
    accumulator: Fragment<D extends 'i8' ? 'i32' : 'f32', 2>,
  ): Fragment<D extends 'i8' ? 'i32' : 'f32', 2> {
    return this.#value(this.#emit('dot', [a.node, b.node, accumulator.node]))
  }

  // Memory

  /** A tile in shared memory. With three extents, the first is the number of stages of the tile. */
  shared<
    D extends StorageDType,
    const S extends readonly [number] | readonly [number, number] | readonly [number, number, number],
  >(dtype: D, shape: S): Shared<D, S['length']> {
    return new Shared(this.#recorder, this.#emit('shared', [], { dtype, shape }))
  }
  load<D extends DType, R extends number>(
    from: Ref<D, R>,
    options: Access & Masked<NoInfer<R>> & { readonly other?: Operand<D, R> } = {},
  ): Value<D, R & Rank> {
    const inputs = [from.node]
    if (options.mask) inputs.push(stretch(options.mask, from.shape).node)
    if (options.other !== undefined) {
      if (!options.mask)
        throw new KernelError(
          'load: `other` is the result where the mask is false; pass a mask as well',
          Site.here(),
        )
      inputs.push(operand(this.#recorder, from, options.other))
    }
    return this.#value(this.#emit('load', inputs, access(options)))
  }
  store<D extends DType, R extends number, O>(
    to: Ref<D, R>,
    value: Matching<NoInfer<D>, NoInfer<R>, 0 | NoInfer<R>, O>,
    options: Access & Masked<NoInfer<R>> = {},
  ): void {
    const inputs = [to.node, operand(this.#recorder, to, value as number | Value)]
    if (options.mask) inputs.push(stretch(options.mask, to.shape).node)
    this.#emit('store', inputs, access(options))
  }
  /** Copies between memories, or from a fragment to memory. Only elements inside both tensors are copied. */
  copy<D extends DType, R extends number>(
    from: Ref<NoInfer<D>, NoInfer<R>> | Value<NoInfer<D>, NoInfer<R> & Rank>,
    to: Ref<D, R>,
    options: CopyOptions<NoInfer<R>> = {},
  ): void {
    const { multicast } = options
    if (from instanceof Value) {
      if (multicast !== undefined)
        throw new KernelError('copy: a fragment cannot be multicast: copy from global memory', Site.here())
      return this.store(to, from as never, options)
    }
    const attributes = multicast === undefined ? {} : this.#multicast(multicast)
    this.#copy('copy', [from.node, to.node], to, options, attributes)
  }
  /** The attributes of a copy that the programs of a cluster make together. A cluster of one program has none. */
  #multicast(axis: number): Attributes {
    const cluster = this.#cluster
    if (!cluster)
      throw new KernelError(
        'copy: `multicast` is for copies inside t.persistent(…, { cluster })',
        Site.here(),
      )
    return cluster.every((extent) => extent === 1) ? {} : { multicast: axis, cluster }
  }
  /** Emits a copy whose optional mask follows the other inputs. */
  #copy<R extends number>(
    op: 'copy' | 'copy.nbi' | 'put.signal',
    inputs: readonly Node[],
    { shape }: Ref<DType, R>,
    { mask }: Masked<R>,
    attributes: Attributes = {},
  ): void {
    this.#emit(op, mask ? [...inputs, stretch(mask, shape).node] : inputs, attributes)
  }
  /** Copies from another rank's memory into this rank's memory. */
  get<D extends DType, R extends number>(
    from: Ref<NoInfer<D>, NoInfer<R>, 'global'>,
    to: Ref<D, R>,
    options: Masked<NoInfer<R>> = {},
  ): void {
    this.copy(from, to, options)
  }
  /** Copies from this rank's memory into another rank's memory. */
  put<D extends DType, R extends number>(
    from: Ref<NoInfer<D>, NoInfer<R>>,
    to: Ref<D, R, 'global'>,
    options: Masked<NoInfer<R>> = {},
  ): void {
    this.copy(from, to, options)
  }
  /** A `get` that does not wait (`get_nbi`): it is in flight until this role calls `quiet`. */
  getNbi<D extends DType, R extends number>(
    from: Ref<NoInfer<D>, NoInfer<R>, 'global'>,
    to: Ref<D, R>,
    options: Masked<NoInfer<R>> = {},
  ): void {
    this.#copy('copy.nbi', [from.node, to.node], to, options)
  }
  /** A `put` that does not wait (`put_nbi`): it is in flight until this role calls `quiet`. */
  putNbi<D extends DType, R extends number>(
    from: Ref<NoInfer<D>, NoInfer<R>>,
    to: Ref<D, R, 'global'>,
    options: Masked<NoInfer<R>> = {},
  ): void {
    this.#copy('copy.nbi', [from.node, to.node], to, options)
  }
  /**
   * Copies into another rank's memory, then signals `flag`: one operation with the effect of `put` and `signal`. An
   * agent that waits for the flag observes the copied data and everything that this role did before. Copies in flight
   * are not included.
   */
  putSignal<D extends DType, R extends number>(
    from: Ref<NoInfer<D>, NoInfer<R>>,
    to: Ref<D, R, 'global'>,
    flag: Flag,
    { scope, ...options }: Masked<NoInfer<R>> & Pick<Access, 'scope'> = {},
  ): void {
    const attributes = access({ order: 'release', scope })
    this.#copy('put.signal', [flag.node, from.node, to.node], to, options, attributes)
  }
  /**
   * Copies asynchronously. With a barrier, from global to shared memory: the copy is complete when the current phase of
   * `barrier` completes, and the issuing role must also arrive at the barrier. Without a barrier, from shared to global
   * memory: the copy is in flight until this role calls `quiet`.
   */
  copyAsync<D extends DType, R extends 1 | 2>(
    from: Ref<NoInfer<D>, NoInfer<R>, 'global'>,
    to: Shared<D, R>,
    barrier: Barrier,
  ): void
  copyAsync<D extends DType, R extends 1 | 2>(
    from: Shared<D, R>,
    to: Ref<NoInfer<D>, NoInfer<R>, 'global'>,
  ): void
  copyAsync(from: Ref, to: Ref, barrier?: Barrier): void {
    if (barrier) this.#emit('copy.async', [from.node, to.node, barrier.node])
    else this.#emit('copy.nbi', [from.node, to.node])
  }
  /**
   * Waits until the copies that this role has in flight (`putNbi`, `getNbi`, `copyAsync` without a barrier) are complete.
   * With `reads`, waits only until they have read their sources, which may then be written again.
   */
  quiet({ reads = false }: { readonly reads?: boolean } = {}): void {
    this.#emit('quiet', [], { of: reads ? 'reads' : 'all' })
  }

  // Synchronisation

  /** Signals a flag. An agent that waits for the flag observes everything that this role did before. */
  signal(flag: Flag, options: Access = {}): void {
    this.#emit('signal', [flag.node], access(options, 'release'))
  }
  /** Signals the same flag on every rank, starting with this rank. */
  signalAll(flag: Flag, options: Access = {}): void {
    this.for(this.world, (step) =>
      this.signal(new Flags<0>(this.#recorder, flag.node).on(this.rank.add(step).mod(this.world)), options),
    )
  }
  /**
   * For a flag: waits until the flag is signalled in this epoch. With `lag` L, waits for the L-th epoch before this one.
   * With `atLeast` n, waits for the first n signals of the epoch, whoever sends them.
   *
   * For a barrier: waits until phase `phase` of the barrier is complete. A barrier keeps only the parity of its phase, so a wait may
   * name only the current phase or the previous one. For a new barrier, the previous phase is -1.
   */
  wait<W extends Flag | Barrier>(
    on: W,
    ...how: W extends Barrier ? [phase: Index] : [options?: WaitOptions]
  ): void {
    if (on instanceof Barrier) this.#emit('barrier.wait', [on.node, this.#index(how[0] as Index)])
    else this.#await('wait', on, (how[0] ?? {}) as WaitOptions)
  }
  /**
   * True if `wait` would return at once. The memory written by the signaller may then be read, as after a `wait`. If
   * the result is false, no order is established. A launch that only polls a flag set has not waited for it, so its
   * wait epoch does not advance.
   */
  reached(flag: Flag, options: WaitOptions = {}): Scalar<'bool'> {
    return this.#value(this.#await('reached', flag, options))
  }
  #await(op: 'wait' | 'reached', flag: Flag, options: WaitOptions): Node {
    const { atLeast } = options
    const inputs = atLeast === undefined ? [flag.node] : [flag.node, this.#index(atLeast)]
    return this.#emit(op, inputs, awaited(options))
  }
  /**
   * This launch's epoch of a flag set: 1 in the first launch that signals it (or waits for it), then 2, and so on.
   */
  epoch(flags: Flags, side: 'signal' | 'wait' = 'signal'): Scalar<'u32'> {
    return this.#value(this.#emit('epoch', [flags.node], { side }))
  }
  fence(order: Exclude<Order, 'relaxed'>, scope: Scope = 'system'): void {
    this.#emit('fence', [], { order, scope })
  }
  /** Synchronises all roles of this program. */
  barrier(): void {
    this.#emit('barrier')
  }
  /** Creates `count` arrival barriers. Each phase of a barrier completes after `arrivals` arrivals. */
  barriers(count: number, arrivals = 1): Barriers {
    return new Barriers(this.#recorder, this.#emit('barriers', [], { count, arrivals }))
  }
  arrive(barrier: Barrier): void {
    this.#emit('barrier.arrive', [barrier.node])
  }

  // Diagnostics

  /**
   * Stops the world unless the condition holds. The error names the rank, the program, this line and the message. A
   * fragment must hold in all elements.
   */
  assert(condition: Value<'bool'>, message: string): void {
    if (!(condition instanceof Value))
      throw new KernelError(
        `assert: ${String(condition)} is no condition on values: pass a comparison, such as x.gt(0), and check what is known while recording in TypeScript`,
        Site.here(),
      )
    this.#emit('assert', [all(condition).node], { message })
  }

  /**
   * Prints values with the rank, the program and this line, when the host synchronises. Of a fragment, the first eight
   * elements are printed.
   */
  print(label: string, ...values: readonly Value[]): void {
    const shown = values.map(firstElements)
    this.#emit(
      'print',
      shown.flatMap((elements) => elements.map(({ node }) => node)),
      {
        label,
        dtypes: values.map(({ dtype }) => dtype),
        shapes: values.map(({ shape }) => shape.join('x')),
        counts: shown.map((elements) => elements.length),
      },
    )
  }

  // Control flow

  for(range: Index | LoopRange, body: (i: Scalar<'i32'>) => void): void
  for<const C>(
    range: Index | LoopRange,
    init: Initial<C>,
    body: (i: Scalar<'i32'>, state: State<C>) => NoInfer<State<C>>,
  ): State<C>
  for<C extends Carried>(
    range: Index | LoopRange,
    ...rest: [(i: Scalar<'i32'>) => void] | [C, (i: Scalar<'i32'>, state: C) => NoInfer<C>]
  ) {
    const {
      from = 0,
      to,
      step = 1,
    } = typeof range === 'number' || range instanceof Value ? { to: range } : range
    const [init, body] = rest.length === 1 ? [undefined, rest[0]] : rest
    const bounds = [from, to, step].map((bound) => this.#index(bound))
    return this.#loop('for', bounds, 1, init, body as (...args: unknown[]) => unknown)
  }
  /** Loops as long as `condition` holds. The state holds the values that change between iterations. */
  while<const C>(
    init: Initial<C>,
    condition: (state: State<C>) => Scalar<'bool'>,
    body: (state: State<C>) => NoInfer<State<C>>,
  ): State<C> {
    const recorder = this.#recorder
    const start = flatten(init, 'while')
    const names = namesOf(init)
    const block = (record: (state: State<C>) => unknown) => {
      const inner = new Block()
      const params = start.map((node, i) => recorder.param(inner, node.type, names[i]))
      return recorder.within(inner, () => flatten(record(unflatten(recorder, init, params)), 'while'))
    }
    return this.#results(this.#emit('while', start, {}, [block(condition), block(body)]), init)
  }
  if(condition: Scalar<'bool'>, then: () => void): void
  if<const C extends Yielded>(condition: Scalar<'bool'>, then: () => C, otherwise: () => NoInfer<C>): C
  if<C extends Carried>(condition: Scalar<'bool'>, then: () => Yielded, otherwise: () => Yielded = nothing) {
    let form: C | undefined
    const block = (record: () => unknown) =>
      this.#recorder.within(new Block(), () => {
        const result = record() as C | undefined
        expectSynchronous(result, 'if')
        if (otherwise === nothing || result === undefined) return []
        form ??= result
        return flatten(result, 'if')
      })
    const node = this.#emit('if', [condition.node], {}, [block(then), block(otherwise)])
    return form === undefined ? undefined : this.#results(node, form)
  }
  /** Loops over the tiles of a space, assigned round-robin to the programs of the launch (or of the team). */
  persistent<D extends StorageDType, R extends TensorRank>(
    space: TileSpace<D, R>,
    body: (tile: Ref<D, R, 'global'>, at: Tuple<Scalar<'i32'>, R>) => void,
    options?: PersistentOptions,
  ): void
  persistent<const E extends readonly Index[]>(
    space: E,
    body: (at: Indices<E>) => void,
    options?: PersistentOptions,
  ): void
  persistent<const E extends readonly Index[], const C>(
    space: E,
    init: Initial<C>,
    body: (at: Indices<E>, state: State<C>) => NoInfer<State<C>>,
    options?: PersistentOptions,
  ): State<C>
  persistent(space: TileSpace<StorageDType, TensorRank> | readonly Index[], ...rest: unknown[]): unknown {
    const [init, body, options] = (typeof rest[0] === 'function' ? [undefined, ...rest] : rest) as [
      Carried | undefined,
      (...args: unknown[]) => unknown,
      PersistentOptions?,
    ]
    const extents = (space instanceof TileSpace ? space.extents() : space).map((extent) =>
      this.#value<'i32', 0>(this.#index(extent)),
    )
    const record = (at: readonly Scalar<'i32'>[], ...state: unknown[]): unknown => {
      if (!(space instanceof TileSpace)) return body(at, ...state)
      const tensor = space.tensor as Tensor<StorageDType, 2>
      return body(tensor.tile(at as never, space.shape as never), at)
    }
    const count = extents.length
    const { cluster } = options ?? {}
    if (cluster) {
      expectCluster(cluster, count, this.#numbering.length > 0)
      if (cluster.some((extent) => extent > 1)) return this.#inClusters(extents, cluster, init, record)
    }
    const outer = this.#cluster
    this.#cluster = cluster
    try {
      const bounds = [this.program, this.programs, ...extents].map(({ node }) => node)
      const flat = (...args: unknown[]): unknown =>
        record(args.slice(0, count) as Scalar<'i32'>[], ...args.slice(count))
      return this.#loop('persistent', bounds, count, init, flat, { axes: count })
    } finally {
      this.#cluster = outer
    }
  }
  /**
   * A loop over blocks of items, one item of a block for each program of a cluster. The last axes of the loop are the
   * places in the cluster. Places outside the space are left out.
   */
  #inClusters(
    extents: readonly Scalar<'i32'>[],
    cluster: readonly number[],
    init: Carried | undefined,
    body: (at: readonly Scalar<'i32'>[], ...state: unknown[]) => unknown,
  ): unknown {
    const count = extents.length
    const blocks = extents.map((extent, axis) => ceilDiv(extent, cluster[axis]))
    const record = (...args: unknown[]): unknown => {
      const [block, place] = [args.slice(0, count), args.slice(count, 2 * count)] as Scalar<'i32'>[][]
      const at = block.map((one, axis) => one.mul(cluster[axis]).add(place[axis]))
      const isInside = at
        .map((one, axis) => one.lt(extents[axis]))
        .filter((_, axis) => cluster[axis] > 1)
        .reduce((all, one) => all.and(one))
      if (init === undefined) return this.if(isInside, () => void body(at))
      const state = args[2 * count] as Carried
      return this.if(
        isInside,
        () => body(at, state) as Carried,
        () => state,
      )
    }
    const outer = this.#cluster
    this.#cluster = cluster
    try {
      const bounds = [
        ...[this.program, this.programs, ...blocks].map(({ node }) => node),
        ...cluster.map((extent) => this.#index(extent)),
      ]
      return this.#loop('persistent', bounds, 2 * count, init, record, { axes: 2 * count, cluster })
    } finally {
      this.#cluster = outer
    }
  }
  /**
   * A loop over a space whose waits and global-to-shared copies run up to `stages` - 1 iterations before the rest of
   * its body. The copies fill shared tiles declared before the loop. The target allocates one buffer per stage for
   * each such tile.
   */
  pipeline<const E extends readonly Index[]>(
    extents: E,
    body: (at: Indices<E>) => void,
    options?: PipelineOptions,
  ): void
  pipeline<const E extends readonly Index[], const C>(
    extents: E,
    init: Initial<C>,
    body: (at: Indices<E>, state: State<C>) => NoInfer<State<C>>,
    options?: PipelineOptions,
  ): State<C>
  pipeline(extents: readonly Index[], ...rest: unknown[]): unknown {
    const stateless = typeof rest[0] === 'function'
    const [init, body, options] = (stateless ? [undefined, ...rest] : rest) as [
      Carried | undefined,
      (...args: unknown[]) => unknown,
      PipelineOptions?,
    ]
    const bounds = extents.map((extent) => this.#index(extent))
    const record = (...args: unknown[]): unknown =>
      body(args.slice(0, bounds.length), ...(init === undefined ? [] : [args[bounds.length]]))
    return this.#loop('pipeline', bounds, bounds.length, init, record, {
      axes: bounds.length,
      stages: options?.stages ?? 2,
    })
  }
  /**
   * Groups of warps of this program that do different work. They communicate through shared memory and barriers. A
   * role has four warps unless it states another number.
   */
  roles(bodies: Readonly<Record<string, RoleBody>>): void {
    const names = Object.keys(bodies)
    const blocks = names.map((name) => {
      const role = bodies[name]
      return this.#recorder.within(new Block(), () => {
        expectSynchronous(typeof role === 'function' ? role() : role.body(), `the role ${name}`)
        return []
      })
    })
    const warps = names.map((name) => (typeof bodies[name] === 'function' ? 4 : bodies[name].warps))
    this.#emit('roles', [], { names, warps }, blocks)
  }
  /**
   * Divides the programs of the launch into teams that do different work. Each team has a number of programs, and the
   * last team may take the remaining ones with 'rest'. Inside a team, `t.program`, `t.programs` and `t.persistent`
   * count the programs of the team.
   */
  teams(teams: Readonly<Record<string, { readonly programs: Index | 'rest'; readonly body: Body }>>): void {
    const names = Object.keys(teams)
    let taken: Scalar<'i32'> = this.constant('i32', 0)
    const sizes = names.map((name, i) => {
      const size = teams[name].programs
      if (size === 'rest' && i !== names.length - 1)
        throw new KernelError("teams: only the last team takes 'rest'", Site.here())
      const count = size === 'rest' ? this.programs.sub(taken) : this.#value<'i32', 0>(this.#index(size))
      taken = taken.add(count)
      return count.node
    })
    const program = this.program.node
    const blocks = names.map((name) => {
      const inner = new Block()
      const numbering = {
        program: this.#recorder.param(inner, valueType('i32'), 'program'),
        programs: this.#recorder.param(inner, valueType('i32'), 'programs'),
      }
      this.#numbering.push(numbering)
      try {
        return this.#recorder.within(inner, () => {
          expectSynchronous(teams[name].body(), `the team ${name}`)
          return []
        })
      } finally {
        this.#numbering.pop()
      }
    })
    this.#emit('teams', [program, ...sizes], { names }, blocks)
  }
  /**
   * Executes `body` once per rank (or team), in the last program that arrives here. The body is ordered after
   * everything that the other programs did before they arrived. `last` counts arrivals, so it must be outside loops and
   * branches, where every program passes it exactly once.
   *
   * With options, there is one count per index, and `last` may be anywhere: every `arrivals` arrivals at an index
   * execute the body once, and the count starts again.
   */
  last(body: Body, options?: LastOptions): void {
    const { at = 0, of = 1, arrivals = this.programs } = options ?? {}
    const inputs = [this.#index(arrivals), ...(options ? [this.#index(at)] : [])]
    const block = this.#recorder.within(new Block(), () => {
      expectSynchronous(body(), 'last')
      return []
    })
    this.#emit('last', inputs, options ? { of } : {}, [block])
  }

  #loop(
    op: 'for' | 'persistent' | 'pipeline',
    bounds: readonly Node[],
    indices: number,
    init: Carried | undefined,
    body: (...args: unknown[]) => unknown,
    attributes: Attributes = {},
  ): unknown {
    const recorder = this.#recorder
    const start = init === undefined ? [] : flatten(init, op)
    const inner = new Block()
    const at = Array.from({ length: indices }, (_, axis) =>
      this.#value(recorder.param(inner, valueType('i32'), `i${axis}`)),
    )
    const names = init === undefined ? [] : namesOf(init)
    const state = start.map((node, i) => recorder.param(inner, node.type, names[i]))
    recorder.within(inner, () => {
      const result = body(...at, ...(init === undefined ? [] : [unflatten(recorder, init, state)]))
      expectSynchronous(result, op)
      return init === undefined ? [] : flatten(result, op)
    })
    const node = this.#emit(op, [...bounds, ...start], attributes, [inner])
    return init === undefined ? undefined : this.#results(node, init)
  }

  #results<C>(from: Node, form: C): C {
    const count = flatten(form, from.op).length
    const nodes = Array.from({ length: count }, (_, i) => this.#emit('result', [from], { index: i }))
    return unflatten(this.#recorder, form, nodes)
  }
}
