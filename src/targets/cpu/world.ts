/**
 * A world of CPU ranks: their heaps lie in one shared memory, their kernels run on threads of this process. What a launch means is
 * in abi.ts; here are tensors, arguments, streams and events. The machinery under it is in host.ts.
 */
import { dtypes, type StorageDType } from '../../ir/dtype.ts'
import type { KernelIR } from '../../ir/node.ts'
import type { Kernel, Meta, Param, Params } from '../../lang/kernel.ts'
import type { Timeline } from '../../timeline/timeline.ts'
import {
  argumentOf,
  expectApart,
  expectArguments,
  expectDistinct,
  expectStream,
  gridOf,
  streamNumber,
  type Handle,
} from '../../world/arguments.ts'
import { fillElements, readElements, writeElements } from '../../world/elements.ts'
import { bytesText, granule, Heap, OutOfHeap } from '../../world/heap.ts'
import { elements, HostWorld } from '../../world/host.ts'
import type { Disagreement } from '../../world/symmetric.ts'
import { usesOf } from '../../world/uses.ts'
import {
  launchOf,
  WorldError,
  type Launch,
  type LaunchArguments,
  type LaunchOptions,
  type PackedTensor,
  type Stream,
  type StreamEvent,
  type SymmetricFlags,
  type SymmetricTensor,
} from '../../world/world.ts'
import { awaitQueue, epochs, mostParams, param as paramOf } from './abi.ts'
import type { Executable } from './executables.ts'
import { Host, type CpuPlatform, type HostOptions } from './host.ts'
import type { Launched, Queue } from './queue.ts'
import { packedLayout, packTensor } from './lower/panels.ts'
import { clockTick } from './recording.ts'

export type CpuWorldOptions = HostOptions

/** Where an allocation lies on every rank's heap. */
interface Storage {
  readonly offset: number
  readonly bytes: number
}

/** What a product multiplies, by the arrays that hold its bits. */
const packable = {
  f32: Float32Array,
  f16: Uint16Array,
  bf16: Uint16Array,
  f8e4m3: Uint8Array,
  f8e5m2: Uint8Array,
  i8: Int8Array,
} as const
type PackableArray = new (
  buffer: ArrayBufferLike,
  offset: number,
  length: number,
) => Float32Array | Uint16Array | Uint8Array | Int8Array
const isPackable = (dtype: StorageDType): dtype is keyof typeof packable => Object.hasOwn(packable, dtype)

/** The parameters that were given packed tensors, on every rank or on none. */
function packedParams(
  kernel: Kernel,
  args: Readonly<Record<string, unknown>>,
  ranks: readonly number[],
): readonly string[] {
  let packed: string[] | undefined
  for (const [name, { kind }] of Object.entries(kernel.params)) {
    if (kind !== 'tensor') continue
    const given = args[name]
    const kinds = (typeof given === 'function' ? ranks : ranks.slice(0, 1)).map(
      (rank) => (argumentOf(given, rank) as Handle).kind,
    )
    if (kinds.every((one) => one !== 'packed')) continue
    if (kinds.some((one) => one !== 'packed'))
      throw new WorldError(`${kernel.name}: ${name} is packed on some ranks only`)
    ;(packed ??= []).push(name)
  }
  return packed ?? nonePacked
}
const nonePacked: readonly string[] = []

/** A launch that was found to be in order. */
interface Plan {
  readonly kernel: Kernel
  readonly args: Readonly<Record<string, unknown>>
  readonly executable: Executable
  readonly stream: number
  readonly ranks: readonly number[]
  readonly grids: readonly number[]
}

export class CpuWorld extends HostWorld {
  override readonly target: string
  readonly #host: Host
  readonly #heap: Heap
  readonly #storage = new Map<SymmetricTensor | SymmetricFlags, Storage>()
  readonly #freed = new WeakSet<object>()
  /** Given back, and used again when nothing runs. */
  #leaving: Storage[] = []
  readonly #marks = new WeakMap<StreamEvent, readonly (Launched | undefined)[]>()
  readonly #plain = new Map<Kernel, KernelIR>()
  #streams = 1

  constructor(platform: CpuPlatform, options: CpuWorldOptions) {
    super(options.ranks)
    this.target = platform.target
    this.#host = new Host(platform, options)
    this.#heap = new Heap(this.#host.layout.heapBytes)
    this.#host.onIdle = () => {
      for (const { offset } of this.#leaving) this.#heap.free(offset)
      this.#leaving = []
    }
  }

  /** Leaders a rank: programs that run at once on each. */
  get workers(): number {
    return this.#host.workers
  }

  /** The shortest time that a recording can tell from none, in nanoseconds. */
  get clockTick(): number {
    return clockTick(this.#host.platform.threads.now)
  }

  // Allocation

  get #buffer(): ArrayBufferLike {
    return this.#host.arena.memory.buffer
  }

  #address({ offset }: Storage, rank: number): number {
    const { heaps, heapBytes } = this.#host.layout
    return heaps + rank * heapBytes + offset
  }

  #allocate(handle: SymmetricTensor | SymmetricFlags, bytes: number, alignment: number): Storage {
    this.#host.expectRunning()
    try {
      const storage: Storage = { offset: this.#heap.allocate(bytes, alignment), bytes }
      this.#storage.set(handle, storage)
      return storage
    } catch (error) {
      if (!(error instanceof OutOfHeap)) throw error
      const waiting = this.#leaving.reduce((sum, storage) => sum + storage.bytes, 0)
      const more =
        waiting > 0 ? `; ${bytesText(waiting)} more when the launches so far have ended (synchronize)` : ''
      throw new WorldError(
        `${handle.name}: ${error.message}${more}. Free tensors, or open the world with more heap`,
      )
    }
  }

  protected override place(tensor: SymmetricTensor, alignment: number): void {
    this.#allocate(tensor, elements(tensor.shape) * dtypes[tensor.dtype].bytes, alignment)
  }

  /** Its words, then its epochs. */
  protected override placeFlags(flags: SymmetricFlags): void {
    const storage = this.#allocate(flags, epochsOffset(flags) + epochs.bytes, granule)
    for (const rank of this.everyRank) this.#zero(storage, rank)
  }

  #zero(storage: Storage, rank: number): void {
    new Uint8Array(this.#buffer, this.#address(storage, rank), storage.bytes).fill(0)
  }

  protected override remove(handle: SymmetricTensor | SymmetricFlags): void {
    const storage = this.#storage.get(handle)!
    this.#storage.delete(handle)
    this.#freed.add(handle)
    if (this.#host.isIdle) this.#heap.free(storage.offset)
    else this.#leaving.push(storage)
  }

  protected override wrongHandle(handle: Handle): string | undefined {
    const own = handle.kind === 'packed' ? handle.source : handle
    if (this.#storage.has(own)) return undefined
    return this.#freed.has(own) ? 'was freed' : 'was not allocated on this world'
  }

  protected override asymmetric({ message, parties }: Disagreement): never {
    const lines = parties.map(({ who, what, site }) => `  ${site ?? '(unknown line)'}  ${who} ${what}`)
    throw new WorldError([message, ...lines].join('\n'))
  }

  protected override fill(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void {
    this.#host.expectRunning()
    writeElements(this.#buffer, this.#address(this.#storage.get(tensor)!, rank), tensor.dtype, contents)
  }

  protected override fillWith(tensor: SymmetricTensor, rank: number, value: number): void {
    const address = this.#address(this.#storage.get(tensor)!, rank)
    fillElements(this.#buffer, address, tensor.dtype, elements(tensor.shape), value)
  }

  protected override contents(tensor: SymmetricTensor, rank: number): Float64Array {
    const address = this.#address(this.#storage.get(tensor)!, rank)
    return readElements(this.#buffer, address, tensor.dtype, elements(tensor.shape))
  }

  protected override move(
    from: SymmetricTensor,
    fromRank: number,
    to: SymmetricTensor,
    toRank: number,
  ): void {
    const [source, target] = [this.#storage.get(from)!, this.#storage.get(to)!]
    new Uint8Array(this.#buffer, this.#address(target, toRank), target.bytes).set(
      new Uint8Array(this.#buffer, this.#address(source, fromRank), source.bytes),
    )
  }

  /** Panels in the order in which products read them: see lower/panels.ts. */
  override async pack<D extends StorageDType>(tensor: SymmetricTensor<D>): Promise<PackedTensor<D>> {
    this.expectHandle(tensor)
    const { dtype, shape, name } = tensor
    if (shape.length !== 2 || !isPackable(dtype))
      throw new WorldError(
        `${name} is ${dtype}[${shape.join(', ')}]: what is packed is the right operand of products, two axes of f32, f16, bf16, f8 or i8`,
      )
    await this.synchronize()
    const [rows, columns] = shape
    const { machine } = this.#host.platform.engine
    const { bytes } = packedLayout(machine, dtype, rows, columns)
    const source = this.empty(dtype, [bytes / dtypes[dtype].bytes], { name: `${name}, packed` })
    const Elements: PackableArray = packable[dtype]
    const of = (handle: SymmetricTensor, rank: number): InstanceType<PackableArray> =>
      new Elements(this.#buffer, this.#address(this.#storage.get(handle)!, rank), elements(handle.shape))
    for (const rank of this.localRanks)
      of(source, rank).set(packTensor(of(tensor, rank), dtype, rows, columns, machine))
    return { kind: 'packed', name, dtype, shape, source }
  }

  // Launches

  override launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void {
    this.#enqueue([this.#plan(launchOf(kernel, args, options))])
  }

  override launchTogether(launches: readonly Launch[]): void {
    expectApart(launches, this.everyRank)
    this.#enqueue(launches.map((launch) => this.#plan(launch)))
  }

  override async prepare<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    options: Pick<LaunchOptions<M>, 'meta'> = {},
  ): Promise<void> {
    this.#host.compile(kernel.record({ world: this.ranks, meta: options.meta as Meta | undefined }))
    return Promise.resolve()
  }

  /** A launch that says nothing about meta-parameters, as most do, finds its recording at once. */
  #recorded(kernel: Kernel, meta: Meta | undefined): KernelIR {
    if (meta) return kernel.record({ world: this.ranks, meta })
    let ir = this.#plain.get(kernel)
    if (!ir) this.#plain.set(kernel, (ir = kernel.record({ world: this.ranks })))
    return ir
  }

  #plan({ kernel, args, options }: Launch): Plan {
    this.#host.expectRunning()
    this.expectSymmetric()
    const ir = this.#recorded(kernel, options.meta as Meta | undefined)
    const ranks = options.ranks ?? this.everyRank
    for (const rank of options.ranks ?? []) this.expectLocal(rank)
    expectArguments(kernel, args, ranks, (handle) => this.wrongHandle(handle))
    expectStream(options.stream)
    if (Object.keys(kernel.params).length > mostParams)
      throw new WorldError(`${kernel.name} has more than ${mostParams} parameters`)
    const executable = this.#host.executable(ir, packedParams(kernel, args, ranks))
    const stream = streamNumber(options.stream)
    this.#streams = Math.max(this.#streams, stream + 1)
    const grids = ranks.map((rank) => gridOf(options.grid, rank, this.workers))
    this.#expectDistinct(kernel, ir, args, ranks)
    this.#expectResident(kernel, executable, ranks, grids)
    return { kernel, args, executable, stream, ranks, grids }
  }

  #expectDistinct(
    kernel: Kernel,
    ir: KernelIR,
    args: Readonly<Record<string, unknown>>,
    ranks: readonly number[],
  ): void {
    const { writes } = usesOf(ir)
    if (writes.size === 0) return
    const tensors = Object.keys(kernel.params).filter((name) => kernel.params[name].kind === 'tensor')
    const varies = tensors.some((name) => typeof args[name] === 'function')
    for (const rank of varies ? ranks : ranks.slice(0, 1))
      expectDistinct(
        kernel.name,
        writes,
        tensors.map((name) => [name, this.#stored(argumentOf(args[name], rank) as Handle)]),
      )
  }

  #expectResident(
    kernel: Kernel,
    { lowered }: Executable,
    ranks: readonly number[],
    grids: readonly number[],
  ): void {
    if (!lowered.needsResidency) return
    const at = grids.findIndex((grid) => grid > this.workers)
    if (at < 0) return
    const site = lowered.needsResidency.site
    throw new WorldError(
      `${kernel.name}: ${grids[at]} programs do not fit: ${this.workers} run at once on rank ${ranks[at]}, and a program that waits for one that has not started waits forever${site ? ` (it may wait at ${site})` : ''}. Launch at most ${this.workers}, or grid: 'resident'`,
    )
  }

  #stored(handle: Handle): Storage {
    return this.#storage.get(handle.kind === 'packed' ? handle.source : handle)!
  }

  /** All are written before any worker is told, so that ranks start as nearly together as they can. */
  #enqueue(plans: readonly Plan[]): void {
    const recording = this.#host.recording !== undefined
    const { now } = this.#host.platform.threads
    const written: (() => void)[] = []
    for (const { kernel, args, executable, stream, ranks, grids } of plans) {
      const params = Object.entries(kernel.params)
      const flags = params.map(([name, { kind }]) =>
        kind === 'flags' ? (args[name] as SymmetricFlags) : undefined,
      )
      for (let at = 0; at < ranks.length; at++) {
        const [rank, grid] = [ranks[at], grids[at]]
        const enqueued = recording ? now() : 0
        const queue = this.#host.queue(rank, stream)
        this.#host.makeRoom(queue)
        const { frames, counters } = this.#host.equip(queue, executable)
        const leaders = Math.min(this.workers, Math.max(grid, 1))
        let address = queue.write({
          executable: executable.number,
          grid,
          leaders,
          counters,
          frames,
          frameStride: executable.lowered.frameBytes,
        })
        for (const [name, param] of params) {
          this.#writeArgument(queue, address, param, argumentOf(args[name], rank))
          address += paramOf.bytes
        }
        written.push(() => {
          const launched = queue.publish({ kernel: kernel.name, executable, flags, grid, enqueued })
          queue.wake(leaders, executable.lowered.roles)
          if (recording) launched.published = now()
        })
      }
    }
    for (const publish of written) publish()
    this.#host.launched()
  }

  #writeArgument(queue: Queue, address: number, param: Param, value: unknown): void {
    if (param.kind === 'scalar') {
      queue.writeScalar(address, param.dtype, value as number)
      return
    }
    const handle = value as Handle
    // Of rank 0: kernels step from there to the rank they mean.
    const pointer = this.#address(this.#stored(handle), 0)
    queue.writePointer(address + paramOf.pointer, pointer)
    queue.writeExtents(address, handle.shape)
    if (handle.kind === 'flags') queue.writePointer(address + paramOf.epochs, pointer + epochsOffset(handle))
  }

  // Streams and events

  override stream(): Stream {
    const id = this.#streams++
    return {
      kind: 'stream',
      id,
      record: () => this.#record(id),
      wait: (event) => this.#waitFor(id, event),
      synchronize: async () => {
        await this.#host.reach(this.#everyQueue(id).map((queue) => [queue, queue.head]))
      },
    }
  }

  #everyQueue(stream: number): Queue[] {
    return this.everyRank.map((rank) => this.#host.queue(rank, stream))
  }

  #record(stream: number): StreamEvent {
    this.#host.expectRunning()
    const queues = this.#everyQueue(stream)
    const marks = queues.map(({ last }) => last)
    const event: StreamEvent = {
      kind: 'event',
      synchronize: async () => {
        await this.#host.reach(queues.map((queue, rank) => [queue, marks[rank]?.sequence ?? queue.completed]))
      },
      elapsed: (since, rank) => this.#elapsed(since, event, rank),
    }
    this.#marks.set(event, marks)
    return event
  }

  #marksOf(event: StreamEvent): readonly (Launched | undefined)[] {
    const marks = this.#marks.get(event)
    if (!marks) throw new WorldError('the event was not recorded on this world')
    return marks
  }

  #elapsed(from: StreamEvent, to: StreamEvent, rank?: number): number {
    if (rank !== undefined) this.expectLocal(rank)
    const [first, second] = [from, to].map((event) => {
      const marks = this.#marksOf(event).filter((_, at) => rank === undefined || at === rank)
      const ends = marks.map((launched) => {
        if (!launched)
          throw new WorldError('nothing was launched on the stream before the event: it has no time')
        this.#host.settle(launched.queue)
        if (launched.end === 0)
          throw new WorldError('the event has not happened yet: await its synchronize()')
        return launched.end
      })
      return Math.max(...ends)
    })
    return (second - first) / 1e6
  }

  /** A launch that ends when the other queue of its rank has come so far. */
  #waitFor(stream: number, event: StreamEvent): void {
    this.#host.expectRunning()
    const marks = this.#marksOf(event)
    for (const rank of this.everyRank) {
      const mark = marks[rank]
      if (!mark || mark.queue.stream === stream) continue
      const queue = this.#host.queue(rank, stream)
      this.#host.makeRoom(queue)
      queue.write({
        executable: awaitQueue,
        grid: mark.sequence,
        leaders: 1,
        counters: mark.queue.address,
        frames: 0,
        frameStride: 0,
      })
      queue.publish({ kernel: 'wait for an event', executable: undefined, flags: [], grid: 1, enqueued: 0 })
      queue.wake(1, 1)
    }
    this.#host.launched()
  }

  // Waiting and the end

  override async synchronize(): Promise<void> {
    this.expectSymmetric()
    await this.#host.reach([...this.#host.queues()].map((queue) => [queue, queue.head]))
  }

  override async reset(): Promise<void> {
    await this.#host.reset(() => {
      for (const [handle, storage] of this.#storage)
        if (handle.kind === 'flags') for (const rank of this.everyRank) this.#zero(storage, rank)
    })
  }

  override timeline(): Timeline {
    const { recording } = this.#host
    if (!recording) throw new WorldError('the world does not record: open it with record: true')
    return recording.timeline(this.localRanks, this.target)
  }

  override async close(): Promise<void> {
    await this.#host.close(this.#heap.reached)
  }
}

/** From a flag set's words to its epochs. */
const epochsOffset = ({ shape }: SymmetricFlags): number => Math.ceil((elements(shape) * 4) / 8) * 8
