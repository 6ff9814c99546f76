/**
 * What a world of CPU ranks runs on: heaps in one shared memory, queues that threads of this process serve, kernels as code that these
 * load. What a launch means is in abi.ts; the machinery is in host.ts.
 */
import type { KernelIR } from '../../ir/node.ts'
import type { Timeline } from '../../timeline/timeline.ts'
import type { Backend, HeapFlags, Loaded, Part, Wanted } from '../../world/backend.ts'
import type { Given } from '../../world/launchTraffic.ts'
import { WorldError, type SymmetricFlags } from '../../world/world.ts'
import { awaitQueue, mostParams, param as paramOf } from './abi.ts'
import type { Executable } from './executables.ts'
import { Host, type CpuPlatform, type HostOptions } from './host.ts'
import { CpuMemory } from './memory.ts'
import type { Block, Launched, Queue } from './queue.ts'
import { clockTick } from './recording.ts'

/** A launch on a rank: the words of its launch block. */
export class CpuPart implements Part {
  readonly queue: Queue
  readonly kernel: string
  readonly executable: Executable
  readonly flags: Readonly<Record<string, SymmetricFlags>>
  readonly block: Block
  readonly params: Int32Array
  given?: Given
  readonly #wanted: Wanted

  constructor(wanted: Wanted, queue: Queue, executable: Executable, block: Block, params: Int32Array) {
    this.#wanted = wanted
    this.queue = queue
    this.kernel = wanted.kernel.name
    this.executable = executable
    this.flags = flagsIn(wanted)
    this.block = block
    this.params = params
  }

  get rank(): number {
    return this.queue.rank
  }

  get grid(): number {
    return this.block.grid
  }

  setNumber(name: string, value: number): void {
    const params = Object.entries(this.#wanted.kernel.params)
    const at = params.findIndex(([one]) => one === name)
    const view = new DataView(this.params.buffer)
    writeScalar(view, at * paramOf.bytes + paramOf.value, (params[at][1] as { dtype: string }).dtype, value)
  }

  close(): void {}
}

/** A place in a queue: behind the launch that was last then; undefined: nothing was launched before. */
export type CpuMark = Launched | undefined

export class CpuBackend implements Backend<CpuPart, CpuMark> {
  readonly host: Host
  readonly memory: CpuMemory

  constructor(platform: CpuPlatform, options: HostOptions) {
    this.host = new Host(platform, options)
    this.memory = new CpuMemory(this.host.arena.memory, this.host.layout)
  }

  get target(): string {
    return this.host.platform.target
  }
  get ranks(): number {
    return this.host.ranks
  }
  get isIdle(): boolean {
    return this.host.isIdle
  }
  set onIdle(called: () => void) {
    this.host.onIdle = called
  }
  get clockTick(): number {
    return clockTick(this.host.platform.threads.now)
  }

  expectRunning(): void {
    this.host.expectRunning()
  }

  // Code

  load(wanted: Wanted): Loaded<CpuPart> {
    const { host } = this
    const { kernel, ir, rank, stream } = wanted
    if (Object.keys(kernel.params).length > mostParams)
      throw new WorldError(`${kernel.name} has more than ${mostParams} parameters`)
    const executable = host.executables.get(ir, packedIn(wanted))
    const { lowered, number } = executable
    return {
      resident: host.workers,
      waiting: lowered.needsResidency,
      part: (grid) => {
        const queue = host.queue(rank, stream)
        const block: Block = {
          executable: number,
          grid,
          leaders: Math.min(host.workers, Math.max(grid, 1)),
          counters: host.equip(queue, executable).counters,
          frameStride: lowered.frameBytes,
        }
        return new CpuPart(wanted, queue, executable, block, this.#image(wanted))
      },
    }
  }

  /** The words of the parameters, as launch blocks hold them. Kernels step from rank 0's copy to the rank they mean. */
  #image({ kernel, given, values }: Wanted): Int32Array {
    const params = Object.entries(kernel.params)
    const view = new DataView(new ArrayBuffer(params.length * paramOf.bytes))
    params.forEach(([name, param], index) => {
      const at = index * paramOf.bytes
      const [handle, stored] = [given[name], values[name]]
      if (typeof handle === 'number' || typeof stored === 'number')
        return writeScalar(view, at + paramOf.value, (param as { dtype: string }).dtype, handle as number)
      const pointer = (offset: number): bigint => BigInt(this.memory.address(0, offset))
      view.setBigUint64(at + paramOf.pointer, pointer(stored.offset), true)
      handle.shape.forEach((extent, axis) => view.setInt32(at + paramOf.extents + axis * 4, extent, true))
      if (stored.kind === 'flags')
        view.setBigUint64(at + paramOf.epochs, pointer((stored as HeapFlags).epochsOffset), true)
    })
    return new Int32Array(view.buffer)
  }

  /** Compiles without blocking this thread; nothing runs. */
  compile(ir: KernelIR, wanted: readonly Wanted[]): Promise<void> {
    return this.host.executables.prepare(ir, wanted.length > 0 ? packedIn(wanted[0]) : [])
  }

  /** All workers of the streams so far have it at hand, too. */
  async prepare(ir: KernelIR, wanted: readonly Wanted[]): Promise<void> {
    await this.compile(ir, wanted)
    await this.host.load(this.host.executables.get(ir, wanted.length > 0 ? packedIn(wanted[0]) : []))
  }

  // Queues

  /** Every stream has threads of its own. */
  expectTogether(): void {}

  beforeWrite(): void {}

  /** All are written before any worker is told, so that ranks start as nearly together as they can. */
  enqueue(parts: readonly CpuPart[]): void {
    const { host } = this
    const recording = host.recording !== undefined
    const { now } = host.platform.threads
    const enqueued = recording ? now() : 0
    for (let n = 0; n < parts.length; n++) {
      const { queue, block, params } = parts[n]
      host.makeRoom(queue)
      queue.writeParams(queue.write(block), params)
    }
    for (let n = 0; n < parts.length; n++) {
      const { queue, block, kernel, executable, flags, given } = parts[n]
      const launched = queue.publish(kernel, executable, flags, block.grid, enqueued)
      queue.wake(block.leaders, executable.lowered.roles)
      if (!recording) continue
      launched.given = given
      launched.published = now()
    }
    host.launched()
  }

  #queues(stream: number): Queue[] {
    return Array.from({ length: this.ranks }, (_, rank) => this.host.queue(rank, stream))
  }

  mark(stream: number): readonly CpuMark[] {
    return this.#queues(stream).map(({ last }) => last)
  }

  /** A launch that ends when the other queue of its rank has come so far. */
  follow(stream: number, marks: readonly CpuMark[]): void {
    const { host } = this
    this.#queues(stream).forEach((queue, rank) => {
      const mark = marks[rank]
      if (!mark || mark.queue === queue) return
      host.makeRoom(queue)
      queue.write({
        executable: awaitQueue,
        grid: mark.sequence,
        leaders: 1,
        counters: mark.queue.address,
        frameStride: 0,
      })
      const enqueued = host.recording ? host.platform.threads.now() : 0
      queue.publish('wait for an event', undefined, {}, 1, enqueued).published = enqueued
      queue.wake(1, 1)
    })
    host.launched()
  }

  elapsed(from: readonly CpuMark[], to: readonly CpuMark[]): number | undefined {
    const [first, second] = [from, to].map((marks) => {
      const ends = marks.map((launched) => {
        if (!launched)
          throw new WorldError('nothing was launched on the stream before the event: it has no time')
        this.host.settle(launched.queue)
        return launched.end
      })
      return ends.includes(0) ? undefined : Math.max(...ends)
    })
    return first === undefined || second === undefined ? undefined : (second - first) / 1e6
  }

  reach(stream?: number): Promise<void> {
    return stream === undefined ? this.host.reachAll() : this.host.reach(this.#queues(stream))
  }

  reachMarks(marks: readonly CpuMark[]): Promise<void> {
    const launched = marks.filter((mark) => mark !== undefined)
    return this.host.reach(
      launched.map(({ queue }) => queue),
      launched.map(({ sequence }) => sequence),
    )
  }

  timeline(ranks: readonly number[]): Timeline | undefined {
    return this.host.recording?.timeline(ranks, this.target)
  }

  isCounting(): boolean {
    return false
  }

  reset(clear: () => void): Promise<void> {
    return this.host.reset(clear)
  }

  close(release: () => void, heapReached: number): Promise<void> {
    return this.host.close(release, heapReached)
  }
}

const packedIn = ({ given }: Wanted): readonly string[] =>
  Object.entries(given).flatMap(([name, one]) =>
    typeof one !== 'number' && one.kind === 'packed' ? [name] : [],
  )

const flagsIn = ({ given }: Wanted): Readonly<Record<string, SymmetricFlags>> =>
  Object.fromEntries(
    Object.entries(given).filter(
      (entry): entry is [string, SymmetricFlags] => typeof entry[1] !== 'number' && entry[1].kind === 'flags',
    ),
  )

function writeScalar(view: DataView, at: number, dtype: string, value: number): void {
  if (dtype === 'f32') view.setFloat32(at, value, true)
  else if (dtype === 'i64') view.setBigInt64(at, BigInt(value), true)
  else view.setInt32(at, value, true)
}
