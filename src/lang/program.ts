/**
 * `t` is the object through which a kernel's body records operations. Every method of `t` appends nodes to the IR, and
 * no method computes a result. The kernel describes one *program* of a launch, which runs `t.programs` times on each of
 * `t.world` ranks.
 */
import type { DotDType, DType, StorageDType } from '../ir/dtype.ts'
import type { Attributes, Node } from '../ir/node.ts'
import type { OpName, Order, Scope } from '../ir/ops/index.ts'
import { KernelError, Site } from '../ir/site.ts'
import { access, Atomics, operand, type Access, type Masked, type Operand } from './access.ts'
import type { Carried } from './carried.ts'
import { ControlFlow } from './control.ts'
import {
  awaited,
  expectCluster,
  type Body,
  type CopyOptions,
  type FragmentShape,
  type Indices,
  type Initial,
  type LastOptions,
  type LoopRange,
  type PersistentOptions,
  type PipelineOptions,
  type RoleBody,
  type State,
  type WaitOptions,
  type Yielded,
} from './options.ts'
import { firstElements } from './printed.ts'
import { randomInputs, randomOf, type Counter, type Seed } from './random.ts'
import type { Recorder } from './recorder.ts'
import {
  Barrier,
  Barriers,
  Flags,
  Ref,
  Shared,
  TileSpace,
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
  type Rank,
  type Scalar,
} from './value.ts'

export class Program {
  /** The number of ranks, which is known when the kernel is recorded. */
  readonly world: number
  readonly atomic: Atomics
  readonly #recorder: Recorder
  readonly #control: ControlFlow
  constructor(recorder: Recorder) {
    this.#recorder = recorder
    this.world = recorder.world
    this.atomic = new Atomics(recorder)
    this.#control = new ControlFlow(recorder)
  }

  #emit(op: OpName, inputs: readonly Node[] = [], attributes: Attributes = {}): Node {
    return this.#recorder.emit(op, inputs, attributes)
  }
  #value<D extends DType, R extends Rank>(node: Node): Value<D, R> {
    return new Value<D, R>(this.#recorder, node)
  }
  #index(at: Index): Node {
    return index(this.#recorder, at)
  }

  // Identity

  get rank(): Scalar<'i32'> {
    return this.#value(this.#emit('rank'))
  }
  /** The index of this program among the programs of its rank, or of its team. */
  get program(): Scalar<'i32'> {
    return this.#control.program
  }
  get programs(): Scalar<'i32'> {
    return this.#control.programs
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
  /** The integer vector 0, 1, …, extent - 1. */
  arange(extent: number): Fragment<'i32', 1> {
    return this.#value(this.#emit('iota', [], { extent }))
  }
  /**
   * Random numbers of the generator Philox4x32-10, which depend only on a seed and a counter and are the same on every
   * target. For dtype u32, each random number is word 0 of a counter's block of random bits. For dtype f32, each random
   * number is from 0 to 1 (exclusive) and made of 24 random bits.
   */
  random<D extends 'u32' | 'f32', R extends Rank>(dtype: D, seed: Seed, counter: Counter<R>): Value<D, R> {
    return randomOf(this.#recorder, dtype, randomInputs(this.#recorder, seed, counter), 0)
  }
  /**
   * All four 32-bit words of each counter's block of random bits. Computing four random words costs little more than
   * computing one word.
   */
  random4<D extends 'u32' | 'f32', R extends Rank>(
    dtype: D,
    seed: Seed,
    counter: Counter<R>,
  ): [Value<D, R>, Value<D, R>, Value<D, R>, Value<D, R>] {
    const inputs = randomInputs(this.#recorder, seed, counter)
    const [a, b, c, d] = [0, 1, 2, 3].map((word) => randomOf<D, R>(this.#recorder, dtype, inputs, word))
    return [a, b, c, d]
  }
  /**
   * Multiplies two matrices and returns accumulator + a x b. Both operands of `dot`, `a` and `b`, may be shared tiles
   * or fragments, although a GPU's matrix unit requires `b` in shared memory.
   */
  dot<D extends DotDType>(
    a: Shared<D, 2> | Fragment<D, 2>,
    b: Shared<NoInfer<D>, 2> | Fragment<NoInfer<D>, 2>,
    accumulator: Fragment<D extends 'i8' ? 'i32' : 'f32', 2>,
  ): Fragment<D extends 'i8' ? 'i32' : 'f32', 2> {
    return this.#value(this.#emit('dot', [a.node, b.node, accumulator.node]))
  }

  // Memory accesses

  /**
   * Declares a tile in shared memory. If the shape has three extents, the first is the number of stages, each of which
   * holds a whole tile.
   */
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
  /**
   * Copies elements between memories, or from a fragment to memory. A copy transfers only elements inside both tensors.
   */
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
  /**
   * The attributes of a copy that the programs of a cluster execute together (multicast). A copy in a cluster of one
   * program has no multicast attributes.
   */
  #multicast(axis: number): Attributes {
    const { cluster } = this.#control
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
  /** A `get` that does not wait for its completion (`get_nbi`): the copy is in flight until this role calls `quiet`. */
  getNbi<D extends DType, R extends number>(
    from: Ref<NoInfer<D>, NoInfer<R>, 'global'>,
    to: Ref<D, R>,
    options: Masked<NoInfer<R>> = {},
  ): void {
    this.#copy('copy.nbi', [from.node, to.node], to, options)
  }
  /** A `put` that does not wait for its completion (`put_nbi`): the copy is in flight until this role calls `quiet`. */
  putNbi<D extends DType, R extends number>(
    from: Ref<NoInfer<D>, NoInfer<R>>,
    to: Ref<D, R, 'global'>,
    options: Masked<NoInfer<R>> = {},
  ): void {
    this.#copy('copy.nbi', [from.node, to.node], to, options)
  }
  /**
   * Copies into another rank's memory, then signals `flag`: one operation with the effect of `put` and `signal`. An
   * agent that waits for the flag observes the copied data and everything that this role did before. The signal of
   * `putSignal` does not cover asynchronous copies that are still in flight.
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
   * Copies a tile asynchronously between global and shared memory. If a barrier is given, `copyAsync` copies from
   * global to shared memory. A copy into shared memory is complete when the current phase of `barrier` completes, and
   * the issuing role must also arrive at the barrier. If no barrier is given, `copyAsync` copies from shared to global
   * memory. A copy from shared memory is in flight until this role calls `quiet`.
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
   * Waits until the copies that this role has in flight (`putNbi`, `getNbi`, `copyAsync` without a barrier) are
   * complete. With `reads`, `quiet` waits only until the copies have read their sources, which may then be written
   * again.
   */
  quiet({ reads = false }: { readonly reads?: boolean } = {}): void {
    this.#emit('quiet', [], { of: reads ? 'reads' : 'all' })
  }

  // Synchronisation

  /**
   * Signals a flag for the current epoch. An agent that waits for the flag observes everything that this role did
   * before the signal.
   */
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
   * For a flag, `wait` blocks until the flag is signalled in this epoch. With `lag` L, `wait` blocks until the flag was
   * signalled in the L-th epoch before the current epoch. With `atLeast` n, `wait` blocks until the first n signals of
   * the epoch have arrived, from any programs.
   *
   * For an arrival barrier, `wait` blocks until phase `phase` of the barrier is complete. An arrival barrier stores
   * only the parity of its phase, so a wait can name only the current or the previous phase. For a new arrival barrier,
   * the previous phase is -1.
   */
  wait<W extends Flag | Barrier>(
    on: W,
    ...how: W extends Barrier ? [phase: Index] : [options?: WaitOptions]
  ): void {
    if (on instanceof Barrier) this.#emit('barrier.wait', [on.node, this.#index(how[0] as Index)])
    else this.#await('wait', on, (how[0] ?? {}) as WaitOptions)
  }
  /**
   * Polls a flag: the result is true if `wait` would return at once. If `reached` returns true, the memory that the
   * signaller has written may be read, as after a `wait`. If `reached` returns false, it orders no memory accesses. A
   * launch that only polls a flag set with `reached` does not count as waiting, so the set's wait epoch does not
   * advance.
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
   * The epoch of a flag set in this launch: 1 in the first launch that signals it (or waits for it), then 2, and so on.
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
  /**
   * Creates `count` arrival barriers between the roles of this program. Each phase of a barrier completes after
   * `arrivals` arrivals.
   */
  barriers(count: number, arrivals = 1): Barriers {
    return new Barriers(this.#recorder, this.#emit('barriers', [], { count, arrivals }))
  }
  arrive(barrier: Barrier): void {
    this.#emit('barrier.arrive', [barrier.node])
  }

  // Assertions and prints

  /**
   * Stops the world unless the condition is true. The error of a failed assertion names the rank, the program, the
   * source line and the message. If the condition is a fragment, it must be true in all elements.
   */
  assert(condition: Value<'bool'>, message: string): void {
    if (!(condition instanceof Value))
      throw new KernelError(
        `assert: ${String(condition)} is not a symbolic condition: pass a comparison, such as x.gt(0); check values that are known during recording with TypeScript`,
        Site.here(),
      )
    this.#emit('assert', [all(condition).node], { message })
  }

  /**
   * Prints values with the rank, the program and the source line, when the host synchronises. Of a fragment, `t.print`
   * prints the first eight elements.
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
    return this.#control.loop('for', bounds, 1, init, body as (...args: unknown[]) => unknown)
  }
  /** Loops as long as `condition` holds. The state of a loop holds the values that change between iterations. */
  while<const C>(
    init: Initial<C>,
    condition: (state: State<C>) => Scalar<'bool'>,
    body: (state: State<C>) => NoInfer<State<C>>,
  ): State<C> {
    return this.#control.while(init, condition as (state: unknown) => unknown, body) as State<C>
  }
  if(condition: Scalar<'bool'>, then: () => void): void
  if<const C extends Yielded>(condition: Scalar<'bool'>, then: () => C, otherwise: () => NoInfer<C>): C
  if(condition: Scalar<'bool'>, then: () => Yielded, otherwise?: () => Yielded): Yielded {
    return this.#control.if(condition, then, otherwise)
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
    const { cluster } = options ?? {}
    if (cluster) {
      expectCluster(cluster, extents.length, this.#control.isInTeam)
      if (cluster.some((extent) => extent > 1))
        return this.#control.inClusters(extents, cluster, init, record)
    }
    return this.#control.persistent(extents, cluster, init, record)
  }
  /**
   * A pipeline is a loop over a space whose waits and global-to-shared copies run up to `stages` - 1 iterations before
   * the other statements of its body. The copies of a pipeline fill shared tiles that are declared before the loop. The
   * target allocates one buffer per pipeline stage for each shared tile that the pipeline fills.
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
    return this.#control.loop('pipeline', bounds, bounds.length, init, record, {
      axes: bounds.length,
      stages: options?.stages ?? 2,
    })
  }
  /**
   * Divides this program into roles: groups of warps that do different work. Roles communicate through shared memory
   * and barriers. A role has four warps unless its options set another number.
   */
  roles(bodies: Readonly<Record<string, RoleBody>>): void {
    this.#control.roles(bodies)
  }
  /**
   * Divides the programs of the launch into teams that do different work. Each team has a fixed number of programs; the
   * last team may take all remaining programs with 'rest'. Inside a team, `t.program`, `t.programs` and `t.persistent`
   * count the programs of the team.
   */
  teams(teams: Readonly<Record<string, { readonly programs: Index | 'rest'; readonly body: Body }>>): void {
    this.#control.teams(teams)
  }
  /**
   * Executes `body` once per rank (or team), in the last program that arrives at this call. The body of `last` is
   * ordered after everything that the other programs did before they arrived. `last` counts arrivals, so it must be
   * outside loops and branches, where every program passes it exactly once.
   *
   * With options, `last` has one count per index and may be used in loops and branches: every `arrivals` arrivals at an
   * index execute the body once.
   */
  last(body: Body, options?: LastOptions): void {
    this.#control.last(body, options)
  }
}
