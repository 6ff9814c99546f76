/**
 * A world of ranks on NVIDIA GPUs. With as many devices as ranks each has one; with fewer, ranks share the first device, each with
 * multiprocessors of its own. Here are tensors, arguments, streams and events; the machinery under it is in machine.ts.
 */
import { dtypes } from '../../ir/dtype.ts'
import type { Kernel, Meta, Params } from '../../lang/kernel.ts'
import type { Timeline } from '../../timeline/timeline.ts'
import { argumentOf, expectApart, expectArguments, type Handle } from '../../world/arguments.ts'
import { bytesText, granule, Heap, OutOfHeap } from '../../world/heap.ts'
import { elements, HostWorld } from '../../world/host.ts'
import type { Disagreement } from '../../world/symmetric.ts'
import {
  WorldError,
  type Launch,
  type LaunchArguments,
  type LaunchOptions,
  type Stream,
  type StreamEvent,
  type SymmetricFlags,
  type SymmetricTensor,
} from '../../world/world.ts'
import type { HeapFlags, HeapTensor } from './arguments.ts'
import { DeviceClock } from './clock.ts'
import { executableOf } from './executables.ts'
import { Graphs, type LaunchGraph } from './graphs.ts'
import { Launches } from './launches.ts'
import { Machine, type CudaPlatform, type CudaWorldOptions } from './machine.ts'
import type { Queue } from './queue.ts'
import type { Stream as DeviceStream, StreamEvent as DeviceEvent } from './runtime.ts'

type Stored = (HeapTensor | HeapFlags) & { readonly bytes: number }

export class CudaWorld extends HostWorld {
  override readonly target = 'cuda'
  readonly #machine: Machine
  readonly #heap: Heap
  readonly #stored = new Map<SymmetricTensor | SymmetricFlags, Stored>()
  readonly #freed = new WeakSet<object>()
  /** Given back, and used again when nothing runs. */
  #leaving: Stored[] = []
  readonly #launches: Launches
  readonly #graphs: Graphs
  readonly #marks = new WeakMap<StreamEvent, readonly DeviceEvent[]>()
  readonly #events = new Set<DeviceEvent>()

  constructor(platform: CudaPlatform, options: CudaWorldOptions) {
    super(options.ranks)
    this.#machine = new Machine(platform, options)
    this.#heap = new Heap(this.#machine.heapBytes)
    this.#graphs = new Graphs(this.#machine)
    this.#launches = new Launches(this.#machine, {
      everyRank: this.everyRank,
      wrongHandle: (handle) => this.wrongHandle(handle),
      expectLocal: (rank) => this.expectLocal(rank),
      stored: (handle) => this.#storedAs(handle),
    })
    this.#machine.onIdle = () => {
      for (const { offset } of this.#leaving) this.#heap.free(offset)
      this.#leaving = []
    }
  }

  override get clockTick(): number {
    const { platform } = this.#machine
    const clock = new DeviceClock(this.#machine.place(0).device, platform.compile)
    try {
      return clock.tick()
    } finally {
      clock.close()
    }
  }

  /** Multiprocessors of a rank. */
  multiprocessors(rank: number): number {
    this.expectRank(rank)
    return this.#machine.place(rank).sms
  }

  /** The name of a rank's device. */
  device(rank: number): string {
    this.expectRank(rank)
    return this.#machine.place(rank).device.name
  }

  /** Whether all ranks are parts of one. */
  get oneDevice(): boolean {
    return this.#machine.facts.oneDevice
  }

  // For libraries that launch kernels of their own

  /** Where a rank's copy of a tensor lies. */
  addressOf(tensor: SymmetricTensor, rank: number): bigint {
    this.expectLocal(rank)
    this.expectHandle(tensor)
    return this.#address(tensor, rank)
  }

  /** The driver's stream of a rank: what is enqueued on it comes after the launches so far, and before those that follow. */
  driverStream(rank: number, stream = 0): DeviceStream {
    this.expectLocal(rank)
    this.#machine.expectRunning()
    const [{ settled }, queue] = [this.#machine, this.#machine.queue(rank, stream)]
    settled.forgo()
    // A stream that is captured takes no events from outside: the graph is held back as a whole.
    if (!this.#graphs.isCapturing) {
      this.#graphs.catchUp()
      settled.holdBackAll(queue)
    }
    return queue.stream
  }

  // Allocation

  #storedAs(handle: Handle): Stored {
    return this.#stored.get(handle.kind === 'packed' ? handle.source : handle)!
  }

  #address(handle: SymmetricTensor, rank: number): bigint {
    return this.#machine.address(this.#stored.get(handle)!.offset, rank)
  }

  #allocate(name: string, bytes: number, alignment: number): number {
    this.#machine.expectRunning()
    try {
      return this.#heap.allocate(bytes, alignment)
    } catch (error) {
      if (!(error instanceof OutOfHeap)) throw error
      const waiting = this.#leaving.reduce((sum, stored) => sum + stored.bytes, 0)
      const more =
        waiting > 0 ? `; ${bytesText(waiting)} more when the launches so far have ended (synchronize)` : ''
      throw new WorldError(`${name}: ${error.message}${more}. Free tensors, or open the world with more heap`)
    }
  }

  protected override place(tensor: SymmetricTensor, alignment: number): void {
    const { dtype, shape, name } = tensor
    const bytes = elements(shape) * dtypes[dtype].bytes
    const offset = this.#allocate(name, bytes, alignment)
    this.#stored.set(tensor, { kind: 'tensor', dtype, shape, offset, bytes })
  }

  /** Its words, then its epochs. */
  protected override placeFlags(flags: SymmetricFlags): void {
    const words = elements(flags.shape)
    const bytes = 4 * (words + 2)
    const offset = this.#allocate(flags.name, bytes, granule)
    const stored: Stored = {
      kind: 'flags',
      shape: flags.shape,
      offset,
      epochsOffset: offset + 4 * words,
      bytes,
    }
    this.#stored.set(flags, stored)
    this.#zero(stored)
  }

  #zero({ offset, bytes }: Stored): void {
    for (const rank of this.everyRank)
      this.#machine.transfers(rank).fill(this.#machine.address(offset, rank), 'u8', bytes, 0)
  }

  protected override remove(handle: SymmetricTensor | SymmetricFlags): void {
    const stored = this.#stored.get(handle)!
    this.#stored.delete(handle)
    this.#freed.add(handle)
    this.#launches.forget()
    if (this.#machine.isIdle) this.#heap.free(stored.offset)
    else this.#leaving.push(stored)
  }

  protected override wrongHandle(handle: Handle): string | undefined {
    const own = handle.kind === 'packed' ? handle.source : handle
    if (this.#stored.has(own)) return undefined
    return this.#freed.has(own) ? 'was freed' : 'was not allocated on this world'
  }

  protected override asymmetric({ message, parties }: Disagreement): never {
    const lines = parties.map(({ who, what, site }) => `  ${site ?? '(unknown line)'}  ${who} ${what}`)
    throw new WorldError([message, ...lines].join('\n'))
  }

  protected override fill(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void {
    this.#machine.expectRunning()
    if (this.#graphs.isCapturing)
      throw new WorldError(
        `${tensor.name} is written while a graph is captured, which would not hold that: write it before`,
      )
    this.#machine.holdHostBack(this.#stored.get(tensor)!, tensor.name, rank)
    this.#machine.transfers(rank).write(this.#address(tensor, rank), tensor.dtype, contents)
  }

  protected override fillWith(tensor: SymmetricTensor, rank: number, value: number): void {
    const { dtype, shape } = tensor
    this.#machine.transfers(rank).fill(this.#address(tensor, rank), dtype, elements(shape), value)
  }

  protected override contents(tensor: SymmetricTensor, rank: number): Float64Array {
    const { dtype, shape } = tensor
    return this.#machine.transfers(rank).read(this.#address(tensor, rank), dtype, elements(shape))
  }

  protected override move(
    from: SymmetricTensor,
    fromRank: number,
    to: SymmetricTensor,
    toRank: number,
  ): void {
    const { bytes } = this.#stored.get(from)!
    this.#machine.transfers(toRank).copy(this.#address(to, toRank), this.#address(from, fromRank), bytes)
  }

  // Launches

  override launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void {
    this.expectSymmetric()
    const parts = this.#launches.parts(kernel as unknown as Kernel, args, options as LaunchOptions)
    if (this.#graphs.isCapturing) this.#graphs.add(parts)
    else this.#machine.enqueue(parts)
  }

  override launchTogether(launches: readonly Launch[]): void {
    this.expectSymmetric()
    expectApart(launches, this.everyRank)
    const parts = launches.flatMap(({ kernel, args, options }) => this.#launches.parts(kernel, args, options))
    this.#launches.expectTogether(parts)
    if (this.#graphs.isCapturing) this.#graphs.add(parts)
    else this.#machine.enqueue(parts)
  }

  /** What a kernel becomes depends on the shapes of its tensors: with `args` it is compiled, without it is recorded and lowered. */
  override prepare<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    options: Pick<LaunchOptions<M>, 'meta'> & { readonly args?: LaunchArguments<P> } = {},
  ): Promise<void> {
    return Promise.resolve().then(() =>
      this.#prepare(kernel as unknown as Kernel, options.meta as Meta | undefined, options.args),
    )
  }

  #prepare(
    kernel: Kernel,
    meta: Meta | undefined,
    args: Readonly<Record<string, unknown>> | undefined,
  ): void {
    this.#machine.expectRunning()
    const ir = this.#launches.recorded(kernel, meta)
    if (!args) return
    expectArguments(kernel, args, this.everyRank, (handle) => this.wrongHandle(handle))
    for (const rank of this.everyRank) {
      const values = Object.entries(args).map(([name, given]) => {
        const value = argumentOf(given, rank)
        return [name, typeof value === 'number' ? value : this.#storedAs(value as Handle)] as const
      })
      const executable = executableOf(ir, Object.fromEntries(values), this.#machine.facts)
      this.#machine.kernel(executable, rank)
    }
  }

  /** The launches that `body` makes, on all ranks and streams, as one graph: they run when it is launched. */
  graph(body: () => void): LaunchGraph {
    this.expectSymmetric()
    return this.#graphs.capture(body)
  }

  // Streams and events

  override stream(): Stream {
    const id = this.#launches.streams++
    return {
      kind: 'stream',
      id,
      record: () => this.#record(this.#everyQueue(id)),
      wait: (event) => this.#waitFor(this.#everyQueue(id), event),
      synchronize: () => this.#machine.reach(this.#everyQueue(id)),
    }
  }

  #everyQueue(stream: number): Queue[] {
    return this.everyRank.map((rank) => this.#machine.queue(rank, stream))
  }

  #record(queues: readonly Queue[]): StreamEvent {
    this.#expectNoCapture()
    this.#graphs.catchUp()
    const marks = queues.map(({ stream }) => {
      const mark = stream.createEvent()
      mark.record()
      this.#events.add(mark)
      return mark
    })
    const event: StreamEvent = {
      kind: 'event',
      synchronize: () => this.#machine.reachEvents(marks),
      elapsed: (since, rank) => this.#elapsed(since, event, rank),
    }
    this.#marks.set(event, marks)
    return event
  }

  #waitFor(queues: readonly Queue[], event: StreamEvent): void {
    this.#expectNoCapture()
    this.#graphs.catchUp()
    const marks = this.#marksOf(event)
    for (const { rank, stream } of queues) stream.waitFor(marks[rank])
  }

  #expectNoCapture(): void {
    this.#machine.expectRunning()
    if (this.#graphs.isCapturing) throw new WorldError('a graph is made of launches: events stand outside')
  }

  #marksOf(event: StreamEvent): readonly DeviceEvent[] {
    const marks = this.#marks.get(event)
    if (!marks) throw new WorldError('the event was not recorded on this world')
    return marks
  }

  /** Events of one device have one clock; where there are several, the rank that took longest counts. */
  #elapsed(from: StreamEvent, to: StreamEvent, rank?: number): number {
    if (rank !== undefined) this.expectLocal(rank)
    const of = (event: StreamEvent): DeviceEvent[] =>
      this.#marksOf(event).filter((_, at) => rank === undefined || at === rank)
    const [first, last] = [of(from), of(to)]
    if (![...first, ...last].every((mark) => mark.isReached()))
      throw new WorldError('the event has not happened yet: await its synchronize()')
    const { device } = first[0].stream
    if (first.some(({ stream }) => stream.device !== device))
      return Math.max(...last.map((mark, at) => mark.millisecondsSince(first[at])))
    const latest = (marks: readonly DeviceEvent[]): number =>
      Math.max(...marks.map((mark) => mark.millisecondsSince(first[0])))
    return latest(last) - latest(first)
  }

  // Waiting and the end

  override async synchronize(): Promise<void> {
    this.expectSymmetric()
    await this.#machine.reach()
  }

  override async reset(): Promise<void> {
    await this.#machine.reset(() => {
      for (const stored of this.#stored.values())
        if (stored.kind === 'flags' || this.#launches.isCarrying(stored)) this.#zero(stored)
    })
  }

  override timeline(): Timeline {
    const { recorder } = this.#machine
    if (!recorder) throw new WorldError('the world does not record: open it with record: true')
    return recorder.recording.timeline(this.localRanks, this.target, (rank) => this.multiprocessors(rank))
  }

  override async close(): Promise<void> {
    await this.#machine.close(() => {
      this.#graphs.close()
      this.#launches.forget()
      for (const event of this.#events) event.close()
    })
  }
}
