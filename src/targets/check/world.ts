/**
 * A world on the checking machine. Launches are queued and run when the host waits for them. Findings of the machine
 * are collected in `findings`. One world is one run: to explore schedules, a scenario runs again on a new world
 * (explore.ts).
 */
import { clusterOf } from '../../ir/clusters.ts'
import { round, type StorageDType } from '../../ir/dtype.ts'
import { walk, type KernelIR, type Node } from '../../ir/node.ts'
import { origin, paramName } from '../../ir/ops/index.ts'
import { printBuffer, printParams, printShape } from '../../ir/passes/prints.ts'
import { KernelError, Site } from '../../ir/site.ts'
import type { RoleShape } from '../../ir/roles.ts'
import { lowerFor } from '../../ir/stages.ts'
import type { Kernel, Meta, Param, Params } from '../../lang/kernel.ts'
import type { Timeline } from '../../timeline/timeline.ts'
import {
  argumentOf,
  expectApart,
  expectArguments,
  expectLaunchRanks,
  expectDistinct,
  expectSignallers,
  expectStream,
  gridOf,
  hostSignals,
  streamNumber,
  wrongGroup,
  type Handle,
} from '../../world/arguments.ts'
import { elements, HostWorld, isWords } from '../../world/host.ts'
import type { Machine as MachineRecord } from '../../world/machine.ts'
import { cpuMachine } from '../../world/machines.ts'
import { inWorld, rankName, type Members } from '../../world/members.ts'
import { doesNotFit } from '../../world/residency.ts'
import { inOrder, type OnPrint } from '../../world/prints.ts'
import type { Disagreement } from '../../world/symmetric.ts'
import {
  WorldError,
  type Launch,
  type LaunchArguments,
  type LaunchOptions,
  type PackedTensor,
  type PrepareOptions,
  type Stream,
  type StreamEvent,
  type SymmetricFlags,
  type SymmetricTensor,
} from '../../world/world.ts'
import { compile, type Code } from './code.ts'
import { RunOver, StopRun, type Finding } from './findings.ts'
import type { FlagSet, FlagView } from './flags.ts'
import { Machine, type Launch as Running, type Scheduler } from './machine.ts'
import { mostAtOnce } from './order.ts'
import { Buffer, rowMajor, type Allocation } from './memory.ts'
import { Promises } from './promises.ts'
import type { TensorView } from './views.ts'

/**
 * The IR stage of the kernels to run. A function derives the IR from the recorded kernel, the shapes of its tensors, and
 * whether the host signals flags of the launch.
 */
export type Stage =
  | 'recorded'
  | 'lowered'
  | ((
      recorded: KernelIR,
      shapes: Readonly<Record<string, readonly number[]>>,
      hostSignals: boolean,
    ) => KernelIR)

/**
 * The sizes of roles at the stage `lowered`. The checker executes a role as one agent, so that sizes have no effect, and
 * programs have no limits.
 */
const anyRoles: RoleShape = {
  producerWarps: 1,
  courierWarps: 0,
  consumers: [{ fromRows: 0, warps: 1 }],
  mostWarps: Infinity,
}
const lowered = (recorded: KernelIR): KernelIR => lowerFor(recorded, anyRoles)

export interface CheckWorldOptions {
  readonly ranks: number
  /** The number of programs that can be resident per rank, or undefined for no limit. */
  readonly residency?: number
  readonly stage?: Stage
  readonly scheduler: Scheduler
  readonly stepLimit?: number
  /** True if every promise that the world returns must be awaited. */
  readonly watchPromises?: boolean
  /** Receives what programs print. Without it, prints are ignored. */
  readonly onPrint?: OnPrint
}

const mostPrograms = 1 << 16

/** The number of programs of a launch with `grid: 'resident'` if the residency is unlimited. */
const defaultResidency = 2

const isFlagSet = (value: unknown): value is SymmetricFlags =>
  typeof value === 'object' && value !== null && (value as Handle).kind === 'flags'

interface Launched {
  readonly kernel: string
  readonly code: Code
  readonly args: Readonly<Record<string, unknown>>
  readonly stream: number
}

const flagsOf = ({ args }: Pick<Launched, 'args'>, names: ReadonlySet<string>): FlagSet[] =>
  [...names].map((name) => (args[name] as FlagView).flags)

/** All of a rank's copy of a tensor. */
const wholeOf = (allocation: Allocation, rank: number): TensorView => ({
  ...{ allocation, rank, offset: 0 },
  shape: allocation.shape,
  strides: allocation.strides,
})

/** The source location where a kernel first uses a flag set. */
function siteOf({ code, args }: Launched, flags: FlagSet): Site | undefined {
  const isIt = (node: Node): boolean =>
    node.type.kind === 'flags' && (args[paramName(origin(node).base)] as FlagView).flags === flags
  for (const node of walk(code.ir.body))
    if (node.type.kind !== 'flags' && node.inputs.some(isIt)) return node.site
  return undefined
}

export class CheckWorld extends HostWorld<Allocation | FlagSet> {
  override readonly target = 'check'
  readonly interpreter: Machine
  override readonly machine: MachineRecord
  readonly #residency: number | undefined
  readonly #form: Exclude<Stage, string>
  #placed = 0
  #streams = 1
  /** For each stream and rank, the launches that the next launch on this stream must follow. */
  readonly #awaited = new Map<number, (readonly Running[])[]>()
  #stopped: RunOver | undefined
  readonly #onPrint: OnPrint | undefined
  /** What kernels print into after the stage `prints`, on each rank. */
  readonly #printBuffers = new Map<Kernel, readonly Buffer[]>()
  #isClosed = false
  readonly #promises: Promises

  constructor(options: CheckWorldOptions) {
    super(options.ranks)
    this.#residency = options.residency
    const { stage = 'recorded' } = options
    this.#form = stage === 'recorded' ? (ir) => ir : stage === 'lowered' ? lowered : stage
    const { ranks, stepLimit, watchPromises = true } = options
    this.#promises = new Promises(watchPromises)
    this.interpreter = new Machine(options.scheduler, { ranks, stepLimit })
    this.#onPrint = options.onPrint
    if (options.onPrint) this.interpreter.prints = []
    this.machine = cpuMachine(this.target, ranks, { workers: options.residency ?? defaultResidency })
  }

  /** The error that ended the run, or undefined if the run was not ended. */
  get stopped(): RunOver | undefined {
    return this.#stopped
  }

  get findings(): Finding[] {
    return [...this.interpreter.findings.values()]
  }

  // Allocation

  #buffers(name: string, shape: readonly number[]): Buffer[] {
    const at = this.#placed++
    return this.everyRank.map((rank) => new Buffer(name, `x${at}@${rank}`, rank, shape, elements(shape)))
  }

  protected override place({ name, dtype, shape }: SymmetricTensor): Allocation {
    return { name, dtype, shape, strides: rowMajor(shape), buffers: this.#buffers(name, shape) }
  }

  protected override placeFlags({ name, shape, arrivals, signaller }: SymmetricFlags): FlagSet {
    const buffers = this.#buffers(name, shape)
    for (const buffer of buffers)
      for (let i = 0; i < buffer.data.length; i++)
        this.interpreter.memory.write(this.interpreter.host, buffer, i, 0)
    const zeros = (): number[] => this.everyRank.map(() => 0)
    return { name, shape, arrivals, signaller, buffers, signalled: zeros(), waited: zeros() }
  }

  /** Freed memory is never reused, so a launch that is still running cannot conflict with a new allocation. */
  protected override remove(): void {}

  protected override fill(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void {
    const { buffers, dtype } = this.#allocation(tensor)
    for (let i = 0; i < contents.length; i++)
      this.interpreter.memory.write(this.interpreter.host, buffers[rank], i, round(dtype, contents[i]))
  }

  protected override overwrite(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void {
    const { buffers, dtype } = this.#allocation(tensor)
    if (!this.interpreter.isBusy || !isWords(tensor.dtype, contents.length))
      return this.fill(tensor, rank, contents)
    for (let i = 0; i < contents.length; i++)
      this.interpreter.writeWord(buffers[rank], i, round(dtype, contents[i]))
  }

  protected override contents(tensor: SymmetricTensor, rank: number): Float64Array {
    return this.#allocation(tensor).buffers[rank].data.slice()
  }

  override peek(tensor: SymmetricTensor, rank: number): Promise<Float64Array> {
    return this.#promises.track('world.peek', super.peek(tensor, rank))
  }

  protected override present(tensor: SymmetricTensor, rank: number): Float64Array {
    return this.#remember(() => {
      const { buffers, shape, name } = this.#allocation(tensor)
      const count = elements(shape)
      this.interpreter.look(`${name} of rank ${rank}`)
      const isWeak = !this.interpreter.isBusy || !isWords(tensor.dtype, count)
      return Float64Array.from({ length: count }, (_, i) =>
        isWeak
          ? this.interpreter.memory.read(this.interpreter.host, buffers[rank], i)
          : this.interpreter.readWord(buffers[rank], i),
      )
    })
  }

  protected override post(flags: SymmetricFlags, rank: number, index: number, value: number): void {
    this.#remember(() => {
      const { buffers } = this.stored(flags) as FlagSet
      this.interpreter.writeWord(buffers[rank], index, value)
    })
  }

  #allocation(tensor: SymmetricTensor): Allocation {
    return this.stored(tensor) as Allocation
  }

  protected override asymmetric({ message, parties }: Disagreement): never {
    throw new StopRun({ kind: 'asymmetric-allocation', kernel: 'the host program', message, parties })
  }

  // Launches

  launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void {
    this.#remember(() => this.#launch(kernel, args, options))
  }

  override launchTogether(launches: readonly Launch[]): void {
    expectApart(launches, this.everyRank)
    this.#remember(() => {
      for (const { kernel, args, options } of launches) this.#launch(kernel, args as never, options)
    })
  }

  override prepare<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    options: PrepareOptions<P, M> = {},
  ): Promise<void> {
    const world = this.membersOf(options)?.length ?? this.ranks
    const compiled = (async () => Promise.resolve(void this.#record(kernel, options.meta as Meta, world)))()
    return this.#promises.track('world.prepare', compiled)
  }

  #compile<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    meta: Meta | undefined,
    world: number,
  ): Code {
    const given = Object.entries(args).map(
      ([name, value]) => [name, argumentOf(value, 0) as number | Handle] as const,
    )
    const shapes = given.flatMap(([name, handle]) =>
      typeof handle === 'object' && handle.kind === 'tensor' ? [[name, handle.shape] as const] : [],
    )
    const isByHost = hostSignals(given.map(([, handle]) => handle))
    return compile(this.#form(this.#record(kernel, meta, world), Object.fromEntries(shapes), isByHost))
  }

  /** Records a kernel. An error thrown while recording is a mistake in the kernel, not a result of the scenario. */
  #record<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    meta: Meta | undefined,
    world: number,
  ): KernelIR {
    try {
      return kernel.record({ world, meta })
    } catch (error) {
      if (!(error instanceof Error) || error.name !== 'Error') throw error
      throw new KernelError(`${kernel.name} cannot be recorded: ${error.message}`, Site.of(error))
    }
  }

  #launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void {
    this.expectSymmetric()
    const members = this.membersOf(options)
    const everyRank = members ? [...members.keys()] : this.everyRank
    expectLaunchRanks(options.ranks, members, (rank) => this.expectRank(rank))
    const wrong = (handle: Handle): string | undefined =>
      this.wrongHandle(handle) ?? wrongGroup(handle, members)
    expectArguments(kernel as unknown as Kernel, args, everyRank, wrong)
    const code = this.#compile(kernel, args, options.meta as Meta | undefined, everyRank.length)
    const flags = Object.entries(args as Record<string, unknown>).filter(([, value]) => isFlagSet(value))
    expectSignallers(code.ir, code.signals, Object.fromEntries(flags) as Record<string, SymmetricFlags>)
    expectStream(options.stream)
    const stream = streamNumber(options.stream)
    this.#streams = Math.max(this.#streams, stream + 1)
    for (const place of options.ranks ?? everyRank) {
      const rank = inWorld(members, place)
      const grid = gridOf(options.grid, place, this.#residency ?? defaultResidency, clusterOf(code.ir))
      if (grid > mostPrograms)
        throw new WorldError(
          `${kernel.name}: the grid has ${grid} programs, but the checker runs at most ${mostPrograms} per rank: check a smaller grid`,
        )
      const after = this.#tail(stream, rank)
      if (code.needsResidency)
        this.#expectResident(kernel.name, code.needsResidency.site, grid, rank, members, after)
      const values: Readonly<Record<string, unknown>> = Object.fromEntries(
        Object.entries(kernel.params).map(([name, param]) => [
          name,
          this.#bind(param, argumentOf(args[name], place) as number | Handle, rank),
        ]),
      )
      this.#expectOwnEpochs(kernel.name, code, values, rank, stream, after)
      expectDistinct(
        kernel.name,
        code.writes,
        Object.entries(values).map(([name, value]) => [name, (value as Partial<TensorView>).allocation]),
      )
      this.interpreter.enqueue({
        ...{ kernel: kernel.name, code, rank, members, stream, grid, after },
        args: { ...values, ...this.#printedBy(kernel as unknown as Kernel, code, rank) },
      })
      this.#await(stream, rank, [])
    }
  }

  /**
   * Reports launches that may run concurrently and share epochs. A flag set has one epoch counter per rank and side.
   * Concurrent launches must neither share a counter nor read it.
   */
  #expectOwnEpochs(
    kernel: string,
    code: Code,
    args: Readonly<Record<string, unknown>>,
    rank: number,
    stream: number,
    after: readonly Running[],
  ): void {
    const now = { kernel, code, args, stream }
    for (const launch of this.interpreter.beside(rank, after))
      for (const side of ['signals', 'waits'] as const)
        for (const [one, other] of [
          [launch, now],
          [now, launch],
        ] as const)
          for (const flags of flagsOf(one, one.code[side])) {
            const isAdvanced = flagsOf(other, other.code[side]).includes(flags)
            if (!isAdvanced && !flagsOf(other, other.code.looks[side]).includes(flags)) continue
            const what = side === 'signals' ? 'signal' : 'wait for'
            this.interpreter.report({
              kind: 'flag-reuse',
              kernel,
              message: `${one.kernel} (stream ${one.stream}) and ${other.kernel} (stream ${other.stream}) may run at once on rank ${rank}; ${isAdvanced ? `both ${what} ${flags.name}` : `the first advances the epoch of ${flags.name}, which the second reads`}, and a rank has one epoch counter per flag set: give each launch flags of its own, or order the two with an event`,
              parties: [one, other].map((launched) => ({
                who: `${launched.kernel} on stream ${launched.stream}`,
                what: `uses ${flags.name}`,
                site: siteOf(launched, flags),
              })),
            })
          }
  }

  /**
   * Runs `act` and records an error that ends the run. The run stays ended, even if the host program catches the
   * error.
   */
  #remember<T>(act: () => T): T {
    if (this.#stopped) throw this.#stopped
    if (this.#isClosed)
      throw new WorldError(
        'the scenario uses its world after the world was closed: a promise of the scenario is not awaited, or the scenario closed the world itself',
      )
    try {
      return act()
    } catch (error) {
      if (error instanceof RunOver) this.#stopped = error
      throw error
    }
  }

  #expectResident(
    kernel: string,
    site: Site | undefined,
    grid: number,
    rank: number,
    members: Members,
    after: readonly Running[],
  ): void {
    if (this.#residency === undefined) return
    const beside = this.interpreter.beside(rank, after).filter((launch) => launch.code.needsResidency)
    const running = mostAtOnce(beside, (launch) => launch.grid)
    if (grid + running <= this.#residency) return
    throw new StopRun({
      kind: 'residency',
      kernel,
      message: doesNotFit(grid, this.#residency, rankName(rank, members), running),
      parties: [{ who: rankName(rank, members), what: 'may wait here', site }],
    })
  }

  #bind(param: Param, value: number | Handle, rank: number): unknown {
    if (typeof value === 'number') return param.kind === 'scalar' ? round(param.dtype, value) : value
    const storage = this.stored(value)
    if (value.kind === 'flags') return { flags: storage as FlagSet, rank, index: 0 } satisfies FlagView
    return wholeOf(storage as Allocation, rank)
  }

  /**
   * The arguments for the parameters that the stage `prints` has added. Nobody reads what is printed there: the lines of a
   * scenario are those of its kernels as written.
   */
  #printedBy(kernel: Kernel, { ir }: Code, rank: number): Readonly<Record<string, TensorView>> {
    const names = new Set(ir.body.params.map(paramName))
    const added = printParams.filter(({ name }) => names.has(name) && !Object.hasOwn(kernel.params, name))
    if (added.length === 0) return {}
    let buffers = this.#printBuffers.get(kernel)
    if (!buffers) {
      this.#printBuffers.set(kernel, (buffers = this.#buffers(printParams[0].name, printShape)))
      for (const buffer of buffers)
        for (const count of [printBuffer.used, printBuffer.dropped])
          this.interpreter.memory.write(this.interpreter.host, buffer, count, 0)
    }
    const shape = { shape: printShape, strides: rowMajor(printShape), buffers }
    return Object.fromEntries(added.map((param) => [param.name, wholeOf({ ...param, ...shape }, rank)]))
  }

  // Streams

  protected override newStream(): number {
    return this.#streams++
  }

  protected override streamOf(id: number): Stream {
    return {
      kind: 'stream',
      id,
      record: () => {
        const marks = this.everyRank.map((rank) => this.#tail(id, rank))
        const event: StreamEvent = {
          kind: 'event',
          synchronize: () => this.#promises.track('event.synchronize', this.reach(marks.flat())),
          elapsed: () => 0,
        }
        this.#marks.set(event, marks)
        return event
      },
      wait: (event) => {
        const marks = this.#marks.get(event)
        if (!marks) throw new WorldError('the event was not recorded on this world')
        for (const rank of this.everyRank)
          this.#await(id, rank, [...(this.#awaited.get(id)?.[rank] ?? []), ...marks[rank]])
      },
      synchronize: () =>
        this.#promises.track(
          'stream.synchronize',
          this.reach(this.everyRank.flatMap((rank) => this.#tail(id, rank))),
        ),
    }
  }
  /** For each event and rank, the launches that the event comes after. */
  readonly #marks = new WeakMap<StreamEvent, readonly (readonly Running[])[]>()

  /** The launches that must end before everything enqueued so far on a stream of a rank has ended. */
  #tail(stream: number, rank: number): readonly Running[] {
    return [...this.interpreter.last(rank, stream), ...(this.#awaited.get(stream)?.[rank] ?? [])]
  }

  #await(stream: number, rank: number, launches: readonly Running[]): void {
    let awaited = this.#awaited.get(stream)
    if (!awaited) this.#awaited.set(stream, (awaited = this.everyRank.map(() => [])))
    awaited[rank] = launches
  }

  // Waiting and reading

  override synchronize(): Promise<void> {
    return this.#promises.track('world.synchronize', this.reach())
  }

  override read(tensor: SymmetricTensor, rank: number): Promise<Float64Array> {
    return this.#promises.track('world.read', super.read(tensor, rank))
  }

  override copy(...args: Parameters<HostWorld['copy']>): Promise<void> {
    return this.#promises.track('world.copy', super.copy(...args))
  }

  override broadcast(tensor: SymmetricTensor, root: number): Promise<void> {
    return this.#promises.track('world.broadcast', super.broadcast(tensor, root))
  }

  override pack<D extends StorageDType>(tensor: SymmetricTensor<D>): Promise<PackedTensor<D>> {
    return this.#promises.track('world.pack', super.pack(tensor))
  }

  override barrier(): Promise<void> {
    return this.#promises.track('world.barrier', super.barrier())
  }

  /** Runs until the given launches have ended, or until all have. Every way to wait uses this function. */
  protected async reach(launches?: readonly Running[]): Promise<void> {
    this.#remember(() => {
      this.expectSymmetric()
      try {
        this.interpreter.run(launches)
      } finally {
        const { prints } = this.interpreter
        if (prints) for (const line of inOrder(prints.splice(0))) this.#onPrint!(line)
      }
    })
    return Promise.resolve()
  }

  /** Resets the flags. A run that has ended stays ended: a new run needs a new world. */
  override reset(): Promise<void> {
    return this.#promises.track('world.reset', this.#reset())
  }

  async #reset(): Promise<void> {
    await this.reach()
    for (const storage of this.everyStored) {
      if (!('signalled' in storage)) continue
      for (const buffer of storage.buffers)
        for (let i = 0; i < buffer.data.length; i++)
          this.interpreter.memory.write(this.interpreter.host, buffer, i, 0)
      this.forgetSignals()
      storage.signalled.fill(0)
      storage.waited.fill(0)
    }
    this.interpreter.flags.forgetParts()
  }

  override timeline(): Timeline {
    throw new WorldError('the checker has no clock, so it records no timeline: record on another target')
  }

  override async close(): Promise<void> {
    if (this.#isClosed) return
    await this.reach()
    this.interpreter.flags.expectComplete()
    this.#promises.expectAwaited()
    this.#isClosed = true
  }
}
