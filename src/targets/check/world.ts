/**
 * Implements a world on the checking machine. In the checker, launches are queued and run when the host waits for them.
 * The checker collects the findings of a run in the field `findings`. One world is one run: to explore schedules, a
 * scenario runs again on a new world (explore.ts).
 */
import { round, type StorageDType } from '../../ir/dtype.ts'
import { elements } from '../../ir/type.ts'
import type { Kernel, Meta, Params } from '../../lang/kernel.ts'
import type { Timeline } from '../../timeline/timeline.ts'
import { expectApart } from '../../world/arguments.ts'
import { HostWorld, isWords } from '../../world/host.ts'
import type { Machine as MachineRecord } from '../../world/machine.ts'
import { cpuMachine } from '../../world/machines.ts'
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
  type SymmetricFlags,
  type SymmetricTensor,
} from '../../world/world.ts'
import { RunOver, StopRun, type Finding } from './findings.ts'
import type { FlagSet } from './flags.ts'
import type { Launch as Running } from './launch.ts'
import { defaultResidency, Launches, type Tensors } from './launches.ts'
import { Machine, type Scheduler } from './machine.ts'
import { Buffer, rowMajor, type Allocation } from './memory.ts'
import { Promises } from './promises.ts'
import { formAt, record, type Stage } from './stage.ts'
import { Streams } from './streams.ts'

export interface CheckWorldOptions {
  readonly ranks: number
  /** The number of programs that can be resident per rank, or undefined for no limit. */
  readonly residency?: number
  readonly stage?: Stage
  readonly scheduler: Scheduler
  readonly stepLimit?: number
  /** True if every promise that the world returns must be awaited. */
  readonly watchPromises?: boolean
  /** A callback that receives the lines that programs print. If the callback is absent, printed lines are ignored. */
  readonly onPrint?: OnPrint
}

export class CheckWorld extends HostWorld<Allocation | FlagSet> {
  override readonly target = 'check'
  readonly interpreter: Machine
  override readonly machine: MachineRecord
  readonly #streams: Streams
  readonly #launches: Launches
  #placed = 0
  #stopped: RunOver | undefined
  readonly #onPrint: OnPrint | undefined
  #isClosed = false
  readonly #promises: Promises

  constructor(options: CheckWorldOptions) {
    super(options.ranks)
    const { ranks, residency, stage = 'recorded', stepLimit, watchPromises = true } = options
    this.#promises = new Promises(watchPromises)
    this.interpreter = new Machine(options.scheduler, { ranks, stepLimit })
    this.#onPrint = options.onPrint
    if (options.onPrint) this.interpreter.prints = []
    this.machine = cpuMachine(this.target, ranks, { workers: residency ?? defaultResidency })
    this.#streams = new Streams(this.interpreter, this.everyRank, this.#promises, (launches) =>
      this.reach(launches),
    )
    const tensors: Tensors = {
      everyRank: this.everyRank,
      wrongHandle: (handle) => this.wrongHandle(handle),
      membersOf: (launch) => this.membersOf(launch),
      expectRank: (rank) => this.expectRank(rank),
      stored: (handle) => this.stored(handle),
      buffers: (name, shape) => this.#buffers(name, shape),
    }
    this.#launches = new Launches(this.interpreter, tensors, this.#streams, {
      form: formAt(stage),
      residency,
    })
  }

  /** The error that ended the run, or undefined if the run was not ended. */
  get stopped(): RunOver | undefined {
    return this.#stopped
  }

  get findings(): Finding[] {
    return [...this.interpreter.findings.values()]
  }

  // Allocation of tensors and flags

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

  // Launches of kernels

  launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void {
    this.#remember(() => {
      this.expectSymmetric()
      this.#launches.add(kernel, args, options)
    })
  }

  override launchTogether(launches: readonly Launch[]): void {
    expectApart(launches, this.everyRank)
    this.#remember(() => {
      for (const { kernel, args, options } of launches) {
        this.expectSymmetric()
        this.#launches.add(kernel, args as never, options)
      }
    })
  }

  override prepare<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    options: PrepareOptions<P, M> = {},
  ): Promise<void> {
    const world = this.membersOf(options)?.length ?? this.ranks
    const compiled = (async () => Promise.resolve(void record(kernel, options.meta as Meta, world)))()
    return this.#promises.track('world.prepare', compiled)
  }

  /**
   * Calls `act`. If `act` throws an error that ends the run, the error is recorded, so that the run remains ended even
   * if the host program catches the error.
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

  // Streams and events

  protected override newStream(): number {
    return this.#launches.streams++
  }

  protected override streamOf(id: number): Stream {
    return this.#streams.stream(id)
  }

  // Waiting for launches, and reading of tensors by the host

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

  /**
   * Executes launches until the given launches have ended, or until all launches have ended. Every host function that
   * waits for launches calls `reach`.
   */
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

  /** Resets the flags of the world. A run that has ended remains ended: a new run needs a new world. */
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
