/**
 * What a world of CPU ranks runs on: heaps in one shared memory, queues that threads of this process serve, kernels as code that these
 * load. What a launch means is in abi.ts; the machinery is in host.ts.
 */
import type { DType } from '../../ir/dtype.ts'
import type { KernelIR } from '../../ir/node.ts'
import type { Kernel, ScalarParam } from '../../lang/kernel.ts'
import type { Timeline } from '../../timeline/timeline.ts'
import type { Backend, Loaded, Part, Wanted } from '../../world/backend.ts'
import { WorldError } from '../../world/world.ts'
import { awaitQueue, mostParams, param as paramOf } from './abi.ts'
import type { Executable } from './executables.ts'
import { Host } from './host.ts'
import { CpuMemory } from './memory.ts'
import type { Block, Launched, Queue } from './queue.ts'
import { clockTick } from './recording.ts'

/** A launch on a rank: the words of its launch block. */
export interface CpuPart extends Part {
  readonly queue: Queue
  readonly executable: Executable
  readonly flags: Wanted['flags']
  readonly block: Block
  readonly params: Int32Array
}

/** A place in a queue: behind the launch that was last then; undefined: nothing was launched before. */
export type CpuMark = Launched | undefined

export class CpuBackend extends Host implements Backend<CpuPart, CpuMark> {
  readonly memory = new CpuMemory(this.arena.memory, this.layout)

  get target(): string {
    return this.platform.target
  }
  get clockTick(): number {
    return clockTick(this.platform.threads.now)
  }

  // Code

  load(wanted: Wanted): Loaded<CpuPart> {
    const { kernel, ir, rank, stream } = wanted
    if (Object.keys(kernel.params).length > mostParams)
      throw new WorldError(`${kernel.name} has more than ${mostParams} parameters`)
    const executable = this.executables.get(ir, packedIn(wanted))
    const { lowered, number } = executable
    return {
      resident: this.workers,
      waiting: lowered.needsResidency,
      part: (grid) => {
        const queue = this.queue(rank, stream)
        const block: Block = {
          executable: number,
          grid,
          leaders: Math.min(this.workers, Math.max(grid, 1)),
          counters: this.equip(queue, executable).counters,
          frameStride: lowered.frameBytes,
        }
        const params = this.#image(wanted)
        this.signallers.note({ kernel: kernel.name, rank, stream }, ir, wanted.flags)
        return {
          ...{ kernel, rank, grid, queue, executable, block, params, flags: wanted.flags },
          setNumber: (name, value) => writeScalar(params, kernel, name, value),
          close() {},
        }
      },
    }
  }

  /** The words of the parameters, as launch blocks hold them. Kernels step from rank 0's copy to the rank they mean. */
  #image({ kernel, given, values }: Wanted): Int32Array {
    const names = Object.keys(kernel.params)
    const words = new Int32Array((names.length * paramOf.bytes) / 4)
    const view = new DataView(words.buffer)
    names.forEach((name, index) => {
      const at = index * paramOf.bytes
      const [handle, stored] = [given[name], values[name]]
      if (typeof handle === 'number' || typeof stored === 'number')
        return writeScalar(words, kernel, name, handle as number)
      const pointer = (offset: number): bigint => BigInt(this.memory.address(0, offset))
      view.setBigUint64(at + paramOf.pointer, pointer(stored.offset), true)
      handle.shape.forEach((extent, axis) => view.setInt32(at + paramOf.extents + axis * 4, extent, true))
      if (stored.kind === 'flags') view.setBigUint64(at + paramOf.epochs, pointer(stored.epochsOffset), true)
    })
    return words
  }

  /** Compiles without blocking this thread; nothing runs. */
  compile(ir: KernelIR, wanted: readonly Wanted[]): Promise<void> {
    return this.executables.prepare(ir, packedIn(wanted[0]))
  }

  /** All workers of the streams so far have it at hand, too. */
  async prepare(ir: KernelIR, wanted: readonly Wanted[]): Promise<void> {
    await this.compile(ir, wanted)
    await this.handOut(this.executables.get(ir, packedIn(wanted[0])))
  }

  // Queues

  /** All are written before any worker is told, so that ranks start as nearly together as they can. */
  enqueue(parts: readonly CpuPart[]): void {
    const recording = this.recording !== undefined
    const { now } = this.platform.threads
    const enqueued = recording ? now() : 0
    for (let n = 0; n < parts.length; n++) {
      const { queue, block, params } = parts[n]
      this.makeRoom(queue)
      queue.writeParams(queue.write(block), params)
    }
    for (let n = 0; n < parts.length; n++) {
      const { queue, block, kernel, executable, flags, given } = parts[n]
      const launched = queue.publish(kernel.name, executable, flags, block.grid, enqueued)
      queue.wake(block.leaders, executable.lowered.roles)
      if (!recording) continue
      launched.given = given
      launched.published = now()
    }
    this.launched()
  }

  #queues(stream: number): Queue[] {
    return Array.from({ length: this.ranks }, (_, rank) => this.queue(rank, stream))
  }

  mark(stream: number): readonly CpuMark[] {
    return this.#queues(stream).map(({ last }) => last)
  }

  /** A launch that ends when the other queue of its rank has come so far. */
  follow(stream: number, marks: readonly CpuMark[]): void {
    this.#queues(stream).forEach((queue, rank) => {
      const mark = marks[rank]
      if (!mark || mark.queue === queue) return
      this.makeRoom(queue)
      queue.write({
        executable: awaitQueue,
        grid: mark.sequence,
        leaders: 1,
        counters: mark.queue.address,
        frameStride: 0,
      })
      const enqueued = this.recording ? this.platform.threads.now() : 0
      queue.publish('wait for an event', undefined, {}, 1, enqueued).published = enqueued
      queue.wake(1, 1)
    })
    this.launched()
  }

  elapsed(from: readonly CpuMark[], to: readonly CpuMark[]): number | undefined {
    const [first, second] = [from, to].map((marks) => {
      const ends = marks.map((launched) => {
        if (!launched)
          throw new WorldError('nothing was launched on the stream before the event: it has no time')
        this.settle(launched.queue)
        return launched.end
      })
      return ends.includes(0) ? undefined : Math.max(...ends)
    })
    return first === undefined || second === undefined ? undefined : (second - first) / 1e6
  }

  reach(stream?: number): Promise<void> {
    return stream === undefined ? this.reachAll() : this.reachQueues(this.#queues(stream))
  }

  reachMarks(marks: readonly CpuMark[]): Promise<void> {
    const launched = marks.filter((mark) => mark !== undefined)
    return this.reachQueues(
      launched.map(({ queue }) => queue),
      launched.map(({ sequence }) => sequence),
    )
  }

  timeline(ranks: readonly number[]): Timeline | undefined {
    return this.recording?.timeline(ranks, this.target)
  }
}

/** The parameters whose tensors are packed; without arguments none. */
const packedIn = (wanted: Wanted | undefined): readonly string[] =>
  Object.entries(wanted?.given ?? {}).flatMap(([name, one]) =>
    typeof one !== 'number' && one.kind === 'packed' ? [name] : [],
  )

function writeScalar(words: Int32Array, { params }: Kernel, name: string, value: number): void {
  const at = Object.keys(params).indexOf(name) * paramOf.bytes + paramOf.value
  const { dtype } = params[name] as ScalarParam<DType>
  const view = new DataView(words.buffer)
  if (dtype === 'f32') view.setFloat32(at, value, true)
  else if (dtype === 'i64') view.setBigInt64(at, BigInt(value), true)
  else view.setInt32(at, value, true)
}
