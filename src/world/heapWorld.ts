/**
 * Implements the world of every target that runs kernels: tensors and flags on the ranks' heaps, launches, streams and
 * events. A `Backend` of the target supplies memory, launch queues and compiled code. Freed memory is reused once no
 * launch is running or pending.
 */
import { dtypes } from '../ir/dtype.ts'
import type { KernelIR } from '../ir/node.ts'
import { elements } from '../ir/type.ts'
import type { Kernel, Meta, Params } from '../lang/kernel.ts'
import type { Timeline } from '../timeline/timeline.ts'
import { expectApart, wrongGroup } from './arguments.ts'
import type { Backend, HeapFlags, HeapTensor, Part, Stored, Wanted } from './backend.ts'
import { bytesText, granule, Heap, OutOfHeap } from './heap.ts'
import { HostWorld, isWords } from './host.ts'
import { Launches } from './launches.ts'
import type { Machine } from './machine.ts'
import { PrintBuffers } from './printBuffers.ts'
import { reportPrint, type OnPrint } from './prints.ts'
import {
  WorldError,
  WorldStopped,
  type Launch,
  type LaunchArguments,
  type LaunchOptions,
  type PrepareOptions,
  type Stream,
  type StreamEvent,
  type SymmetricFlags,
  type SymmetricTensor,
} from './world.ts'

interface CodeWanted {
  readonly ir: KernelIR
  readonly wanted: readonly Wanted[]
}

/** The size of a flag set's two epoch words in bytes, aligned to eight bytes. */
const epochBytes = 8

/** The type `L` is a per-rank launch and `E` is a position in a launch queue, as in `Backend`. */
export abstract class HeapWorld<
  L extends Part,
  E,
  B extends Backend<L, E> = Backend<L, E>,
> extends HostWorld<Stored> {
  override readonly target: string
  override readonly machine: Machine
  protected readonly backend: B
  readonly #heap: Heap
  /** Freed allocations whose memory is reused once no launch is running or pending. */
  #leaving: Stored[] = []
  readonly #launches: Launches<L>
  readonly #prints: PrintBuffers
  /**
   * The launches that the method `wantedFor` collects instead of enqueueing them. Outside of `wantedFor`, the list of
   * collected launches is undefined.
   */
  #collected: Launch[] | undefined
  readonly #marks = new WeakMap<StreamEvent, readonly E[]>()

  constructor(backend: B, options: { readonly record?: boolean; readonly onPrint?: OnPrint }) {
    super(backend.ranks)
    this.target = backend.target
    this.machine = backend.machine
    this.backend = backend
    this.#heap = new Heap(backend.memory.bytes)
    this.#prints = new PrintBuffers(backend.memory, this.everyRank, options.onPrint ?? reportPrint, (bytes) =>
      this.#allocate('the print buffer', bytes, granule),
    )
    this.#launches = new Launches(backend, {
      everyRank: this.everyRank,
      records: options.record ?? false,
      wrongHandle: (handle, members) => this.wrongHandle(handle) ?? wrongGroup(handle, members),
      membersOf: (options) => this.membersOf(options),
      expectLocal: (rank) => this.expectLocal(rank),
      stored: (handle) => this.stored(handle),
      printedBy: (recorded) => this.#prints.argumentsOf(recorded),
    })
    backend.onIdle = () => {
      this.#prints.drain()
      if (this.#leaving.length === 0) return
      for (const { offset } of this.#leaving) this.#heap.free(offset)
      this.#leaving = []
    }
  }

  override get recordedUnlike(): readonly string[] {
    return [...this.backend.unlike]
  }

  override get clockTick(): number {
    return this.backend.clockTick
  }

  // Allocation of memory

  #allocate(name: string, bytes: number, alignment: number): number {
    this.backend.expectRunning()
    try {
      return this.#heap.allocate(bytes, alignment)
    } catch (error) {
      if (!(error instanceof OutOfHeap)) throw error
      const waiting = this.#leaving.reduce((sum, stored) => sum + stored.bytes, 0)
      const more =
        waiting > 0
          ? `; ${bytesText(waiting)} more become free when the launches so far have ended (await synchronize)`
          : ''
      throw new WorldError(`${name}: ${error.message}${more}. Free tensors, or open the world with more heap`)
    }
  }

  protected override place({ name, dtype, shape }: SymmetricTensor, alignment: number): HeapTensor {
    const bytes = elements(shape) * dtypes[dtype].bytes
    return { kind: 'tensor', dtype, shape, offset: this.#allocate(name, bytes, alignment), bytes }
  }

  protected override placeFlags({ name, shape }: SymmetricFlags): HeapFlags {
    const words = Math.ceil((elements(shape) * 4) / epochBytes) * epochBytes
    const bytes = words + epochBytes
    const offset = this.#allocate(name, bytes, granule)
    const flags: HeapFlags = { kind: 'flags', shape, offset, epochsOffset: offset + words, bytes }
    this.#zero(flags)
    return flags
  }

  #zero({ offset, bytes }: Stored): void {
    for (const rank of this.everyRank) this.backend.memory.fill(rank, offset, 'u8', bytes, 0)
  }

  protected override remove(stored: Stored): void {
    this.#launches.forget()
    if (this.backend.isIdle) this.#heap.free(stored.offset)
    else this.#leaving.push(stored)
  }

  protected override fill(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void {
    this.#beforeWrite(tensor, rank)
    this.backend.memory.write(rank, this.stored(tensor).offset, tensor.dtype, contents)
  }

  protected override overwrite(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void {
    const { memory } = this.backend
    if (!memory.writeWords || !isWords(tensor.dtype, contents.length))
      return this.fill(tensor, rank, contents)
    this.#beforeWrite(tensor, rank)
    memory.writeWords(rank, this.stored(tensor).offset, tensor.dtype, contents)
  }

  #beforeWrite(tensor: SymmetricTensor, rank: number): void {
    this.backend.expectRunning()
    this.backend.beforeWrite?.(this.stored(tensor), tensor.name, rank)
  }

  protected override fillWith(tensor: SymmetricTensor, rank: number, value: number): void {
    const { offset, shape } = this.stored(tensor)
    this.backend.memory.fill(rank, offset, tensor.dtype, elements(shape), value)
  }

  protected override contents(tensor: SymmetricTensor, rank: number): Float64Array {
    const { offset, shape } = this.stored(tensor)
    return this.backend.memory.read(rank, offset, tensor.dtype, elements(shape))
  }

  protected override present(tensor: SymmetricTensor, rank: number): Float64Array {
    this.backend.expectRunning()
    const { memory } = this.backend
    const { offset, shape } = this.stored(tensor)
    const count = elements(shape)
    return memory.readWords && isWords(tensor.dtype, count)
      ? memory.readWords(rank, offset, tensor.dtype, count)
      : memory.read(rank, offset, tensor.dtype, count)
  }

  protected override post(flags: SymmetricFlags, rank: number, index: number, value: number): void {
    this.backend.expectRunning()
    const { memory } = this.backend
    const offset = this.stored(flags).offset + 4 * index
    if (memory.writeWords) memory.writeWords(rank, offset, 'u32', [value])
    else memory.write(rank, offset, 'u32', [value])
    this.backend.wake?.(rank, offset)
  }

  protected override move(
    from: SymmetricTensor,
    fromRank: number,
    to: SymmetricTensor,
    toRank: number,
  ): void {
    const [source, target] = [this.stored(from), this.stored(to)]
    this.backend.memory.copy(toRank, target.offset, fromRank, source.offset, source.bytes)
  }

  // Launches of kernels

  override launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void {
    this.expectSymmetric()
    const one = { kernel: kernel as unknown as Kernel, args, options: options as LaunchOptions }
    if (this.#collected) return void this.#collected.push(one)
    this.backend.expectRunning()
    this.backend.enqueue(this.#launches.parts(one.kernel, args, one.options))
  }

  override launchTogether(launches: readonly Launch[]): void {
    this.expectSymmetric()
    expectApart(launches, this.everyRank)
    if (this.#collected) return void this.#collected.push(...launches)
    this.backend.expectRunning()
    const parts = launches.flatMap(({ kernel, args, options }) => this.#launches.parts(kernel, args, options))
    this.backend.expectTogether?.(parts)
    this.backend.enqueue(parts)
  }

  override async prepare<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    { meta, args, group }: PrepareOptions<P, M> = {},
  ): Promise<void> {
    this.backend.expectRunning()
    const ranks = args ? undefined : []
    const options: LaunchOptions = { grid: 1, meta: meta as Meta | undefined, ranks, group }
    const { ir, wanted } = this.#wanted({ kernel: kernel as unknown as Kernel, args: args ?? {}, options })
    await this.backend.prepare(ir, wanted)
  }

  #wanted({ kernel, args, options }: Launch): CodeWanted {
    const members = this.membersOf(options)
    const ir = this.#launches.recorded(kernel, options.meta as Meta | undefined, members)
    const ranks = options.ranks ?? this.#launches.ranksOf(members)
    return {
      ir,
      wanted: ranks.length > 0 ? this.#launches.wanted(kernel, ir, args, members, ranks) : [],
    }
  }

  /** Returns the compiled code that the launches in `launches` need, without launching anything. */
  protected wantedFor(launches: () => void): readonly CodeWanted[] {
    const collected: Launch[] = (this.#collected = [])
    try {
      launches()
    } finally {
      this.#collected = undefined
    }
    return collected.map((launch) => this.#wanted(launch))
  }

  // Streams and events of the world

  protected override newStream(): number {
    return this.#launches.streams++
  }

  protected override streamOf(id: number, members: readonly number[]): Stream {
    const { backend } = this
    return {
      kind: 'stream',
      id,
      record: () => this.#record(id, members),
      wait: (event) => {
        backend.expectRunning()
        backend.follow(id, this.#marksOf(event))
      },
      synchronize: () => backend.reach(id),
    }
  }

  #record(stream: number, members: readonly number[]): StreamEvent {
    this.backend.expectRunning()
    const marks = this.backend.mark(stream)
    const event: StreamEvent = {
      kind: 'event',
      synchronize: () => this.backend.reachMarks(marks),
      elapsed: (since, rank) =>
        this.#elapsed(since, event, rank === undefined ? members : [members[rank] ?? rank]),
    }
    this.#marks.set(event, marks)
    return event
  }

  #marksOf(event: StreamEvent): readonly E[] {
    const marks = this.#marks.get(event)
    if (!marks) throw new WorldError('the event was not recorded on this world')
    return marks
  }

  #elapsed(from: StreamEvent, to: StreamEvent, ranks: readonly number[]): number {
    for (const rank of ranks) this.expectLocal(rank)
    const of = (event: StreamEvent): readonly E[] => {
      const marks = this.#marksOf(event)
      return ranks.map((rank) => marks[rank])
    }
    const elapsed = this.backend.elapsed(of(from), of(to))
    if (elapsed === undefined) throw new WorldError('the event has not happened yet: await its synchronize()')
    return elapsed
  }

  // Waiting for launches, and closing the world

  override async synchronize(): Promise<void> {
    this.expectSymmetric()
    try {
      await this.backend.reach()
    } catch (error) {
      if (error instanceof WorldStopped) this.#prints.drain()
      throw error
    }
  }

  override async reset(): Promise<void> {
    await this.backend.reset(() => {
      this.#prints.drain()
      for (const stored of this.everyStored)
        if (stored.kind === 'flags' || this.backend.isCounting?.(stored)) this.#zero(stored)
      this.forgetSignals()
    })
  }

  override timeline(): Timeline {
    const timeline = this.backend.timeline(this.localRanks)
    if (!timeline) throw new WorldError('the world does not record: open it with record: true')
    return timeline
  }

  override async close(): Promise<void> {
    const release = (): void => {
      this.#prints.drain()
      this.#launches.forget()
    }
    await this.backend.close(release, this.#heap.reached)
  }
}
