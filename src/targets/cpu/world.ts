/**
 * A world of CPU ranks: their heaps lie in one shared memory, their kernels run on threads of this process. What a launch means is
 * in abi.ts; here are tensors, arguments, streams and events. The machinery under it is in host.ts.
 */
import { dtypes, type StorageDType } from '../../ir/dtype.ts'
import type { Kernel, Meta, Params } from '../../lang/kernel.ts'
import type { Timeline } from '../../timeline/timeline.ts'
import { expectApart, type Handle } from '../../world/arguments.ts'
import { fillElements, readElements, writeElements } from '../../world/elements.ts'
import { bytesText, granule, Heap, OutOfHeap } from '../../world/heap.ts'
import { elements, HostWorld, isWords } from '../../world/host.ts'
import type { Disagreement } from '../../world/symmetric.ts'
import {
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
import { awaitQueue, epochs } from './abi.ts'
import { Host, type CpuPlatform, type HostOptions } from './host.ts'
import { Launches } from './launches.ts'
import { packedLayout, packTensor } from './lower/panels.ts'
import { isPackable, packable, type PackableArray } from './packing.ts'
import type { Launched, Queue } from './queue.ts'
import { clockTick } from './recording.ts'

export type CpuWorldOptions = HostOptions

/** Where an allocation lies on every rank's heap. */
interface Storage {
  readonly offset: number
  readonly bytes: number
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
  readonly #launches: Launches

  constructor(platform: CpuPlatform, options: CpuWorldOptions) {
    super(options.ranks)
    this.target = platform.target
    this.#host = new Host(platform, options)
    this.#heap = new Heap(this.#host.layout.heapBytes)
    this.#launches = new Launches(this.#host, {
      everyRank: this.everyRank,
      wrongHandle: (handle) => this.wrongHandle(handle),
      expectLocal: (rank) => this.expectLocal(rank),
      stored: (handle) => this.#stored(handle),
      pointer: (handle) => this.#address(this.#stored(handle), 0),
      epochsPointer: (flags) => this.#address(this.#stored(flags), 0) + epochsOffset(flags),
    })
    this.#host.onIdle = () => {
      if (this.#leaving.length === 0) return
      for (const { offset } of this.#leaving) this.#heap.free(offset)
      this.#leaving = []
    }
  }

  /** Leaders a rank: programs that run at once on each. */
  get workers(): number {
    return this.#host.workers
  }

  override get clockTick(): number {
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
    this.#launches.forget()
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

  /** A kernel that polls the words with an order sees all that was written before them, on every processor. */
  protected override overwrite(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void {
    if (!isWords(tensor.dtype, contents.length)) return this.fill(tensor, rank, contents)
    this.#host.expectRunning()
    const words = new Uint32Array(contents.length)
    writeElements(words.buffer, 0, tensor.dtype, contents)
    const address = this.#address(this.#storage.get(tensor)!, rank)
    const target = new Uint32Array(this.#buffer, address, words.length)
    words.forEach((word, i) => Atomics.store(target, i, word))
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
    this.expectSymmetric()
    this.#launches.launch(kernel as unknown as Kernel, args, options as LaunchOptions)
  }

  override launchTogether(launches: readonly Launch[]): void {
    this.expectSymmetric()
    expectApart(launches, this.everyRank)
    this.#launches.launchTogether(launches)
  }

  override async prepare<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    options: Pick<LaunchOptions<M>, 'meta'> = {},
  ): Promise<void> {
    this.#host.expectRunning()
    const { executables } = this.#host
    const ir = this.#launches.recorded(kernel as unknown as Kernel, options.meta as Meta | undefined)
    await executables.prepare(ir, [])
    await this.#host.load(executables.get(ir))
  }

  async compile(launches: () => void): Promise<void> {
    this.#host.expectRunning()
    await this.#launches.compile(launches)
  }

  #stored(handle: Handle): Storage {
    return this.#storage.get(handle.kind === 'packed' ? handle.source : handle)!
  }

  // Streams and events

  override stream(): Stream {
    const id = this.#launches.streams++
    return {
      kind: 'stream',
      id,
      record: () => this.#record(id),
      wait: (event) => this.#waitFor(id, event),
      synchronize: async () => {
        await this.#host.reach(this.#everyQueue(id))
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
        const sequences = queues.map((queue, rank) => marks[rank]?.sequence ?? queue.completed)
        await this.#host.reach(queues, sequences)
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
        frameStride: 0,
      })
      const enqueued = this.#host.recording ? this.#host.platform.threads.now() : 0
      queue.publish('wait for an event', undefined, [], 1, enqueued).published = enqueued
      queue.wake(1, 1)
    }
    this.#host.launched()
  }

  // Waiting and the end

  override async synchronize(): Promise<void> {
    this.expectSymmetric()
    await this.#host.reachAll()
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
