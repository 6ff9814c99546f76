/**
 * The backend of a world of CPU ranks: heaps in one shared memory, queues served by threads of this process, and
 * kernels compiled to code that these threads load. The file abi.ts defines the launch protocol between the host and
 * its worker threads, and host.ts implements the host's side.
 */
import type { DType } from '../../ir/dtype.ts'
import type { KernelIR } from '../../ir/node.ts'
import type { Kernel, ScalarParam } from '../../lang/kernel.ts'
import type { Timeline } from '../../timeline/timeline.ts'
import type { Handle } from '../../world/arguments.ts'
import type { Backend, Loaded, Part, Wanted } from '../../world/backend.ts'
import { residentPrograms, type Machine } from '../../world/machine.ts'
import { cpuMachine } from '../../world/machines.ts'
import { WorldError } from '../../world/world.ts'
import { awaitQueue, control, mostParams, param as paramOf } from './abi.ts'
import { Host, type CpuPlatform } from './host.ts'
import { inGroup, spacingOf } from '../../world/members.ts'
import type { Executable, Specialisation } from './executables.ts'
import { isScattered } from './facts.ts'
import { CpuMemory } from './memory.ts'
import type { Block, Launched, Place, Queue } from './queue.ts'
import { clockTick } from './recording.ts'

/** A prepared launch on one rank: the words of its launch block. */
export interface CpuPart extends Part {
  readonly queue: Queue
  readonly executable: Executable
  readonly flags: Wanted['flags']
  readonly members: Wanted['members']
  readonly block: Block
  readonly params: Int32Array
}

/**
 * A position in a launch queue, directly after the launch that was enqueued last when the position was recorded. If the
 * queue had no launch yet, the position is the start of the queue.
 */
export interface CpuMark {
  readonly launched: Launched | undefined
  /** The time at which the position was recorded, in nanoseconds. */
  readonly made: number
}

export class CpuBackend extends Host implements Backend<CpuPart, CpuMark> {
  readonly memory = new CpuMemory(this.arena.memory, this.layout)
  readonly machine = machineOf(this.platform, this.ranks, this.workers)

  get target(): string {
    return this.platform.target
  }
  get clockTick(): number {
    return clockTick(this.platform.threads.now)
  }

  /**
   * Wakes kernels that sleep on a flag. A kernel increments the sleeper count before its last poll, so the kernel
   * either sees the host's signal or is woken by this function.
   */
  wake(rank: number, offset: number): void {
    if (Atomics.load(this.words, control.sleepers >>> 2) === 0) return
    const at = this.memory.address(rank, offset)
    const { wake } = this.platform.engine
    if (wake) wake(this.arena.memory, at)
    else Atomics.notify(this.words, at >>> 2)
  }

  // Compiled code

  readonly unlike = new Set<string>()

  load(wanted: Wanted): Loaded<CpuPart> {
    const { kernel, ir, rank, members, stream } = wanted
    if (Object.keys(kernel.params).length > mostParams)
      throw new WorldError(`${kernel.name} has more than ${mostParams} parameters`)
    const executable = this.executables.get(ir, specialisationOf(wanted))
    const { lowered, number } = executable
    for (const difference of lowered.unlike) this.unlike.add(difference)
    return {
      resident: residentPrograms(this.machine, rank),
      waiting: lowered.needsResidency,
      part: (grid) => {
        const queue = this.queue(rank, stream)
        const block: Block = {
          executable: number,
          place: this.#place(wanted),
          grid,
          leaders: Math.min(this.workers, Math.max(grid, 1)),
          counters: this.equip(queue, executable).counters,
          frameStride: lowered.frameBytes,
        }
        const params = this.#image(wanted, lowered.params)
        this.signallers.note({ kernel: kernel.name, rank, stream }, ir, wanted.flags)
        return {
          ...{ kernel, rank, grid, queue, executable, block, params, members, flags: wanted.flags },
          setNumber: (name, value) => writeScalar(params, kernel, name, value),
          close() {},
        }
      },
    }
  }

  #place({ rank, members }: Wanted): Place {
    const units = this.layout.heapBytes / 65536
    const spacing = spacingOf(members)
    return {
      rank: inGroup(members, rank),
      ranks: members?.length ?? this.ranks,
      heapStride: spacing ? spacing.step * units : 0,
      heaps: spacing ? undefined : Int32Array.from(members!, (other) => (other - rank) * units),
    }
  }

  /**
   * The parameter words of the launch block. A kernel computes the address of a tensor's copy on another rank from the
   * copy on rank 0 of the group or, if it uses a table of heap distances, from the copy on its own rank.
   */
  #image({ kernel, given, values, rank, members }: Wanted, names: readonly string[]): Int32Array {
    const base = spacingOf(members)?.first ?? rank
    const words = new Int32Array((names.length * paramOf.bytes) / 4)
    const view = new DataView(words.buffer)
    names.forEach((name, index) => {
      const at = index * paramOf.bytes
      const stored = values[name]
      if (typeof stored === 'number') return writeScalar(words, kernel, name, given[name] as number)
      const pointer = (offset: number): bigint => BigInt(this.memory.address(base, offset))
      view.setBigUint64(at + paramOf.pointer, pointer(stored.offset), true)
      // For kernels, a packed tensor has the shape of its handle, not the shape of its panels in memory.
      const { shape } = (given[name] as Handle | undefined) ?? stored
      shape.forEach((extent, axis) => view.setInt32(at + paramOf.extents + axis * 4, extent, true))
      if (stored.kind === 'flags') view.setBigUint64(at + paramOf.epochs, pointer(stored.epochsOffset), true)
    })
    return words
  }

  /** Compiles kernels without blocking this thread. The function `compile` does not launch anything. */
  compile(ir: KernelIR, wanted: readonly Wanted[]): Promise<void> {
    return this.executables.prepare(ir, specialisationOf(wanted[0]))
  }

  /** Compiles a kernel, and also loads the executable into all workers of the existing streams. */
  async prepare(ir: KernelIR, wanted: readonly Wanted[]): Promise<void> {
    await this.compile(ir, wanted)
    await this.handOut(this.executables.get(ir, specialisationOf(wanted[0])))
  }

  // Launch queues

  /**
   * Writes the launches of all ranks before waking any worker, so that the ranks start as close together as possible.
   */
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
      const { queue, block, kernel, executable, flags, members, given } = parts[n]
      const launched = queue.publish(kernel.name, executable, flags, block.grid, enqueued, members)
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
    const made = this.platform.threads.now()
    return this.#queues(stream).map(({ last }) => ({ launched: last, made }))
  }

  /** Enqueues, on each rank, a launch that ends when another queue of that rank has reached the position in `marks`. */
  follow(stream: number, marks: readonly CpuMark[]): void {
    this.#queues(stream).forEach((queue, rank) => {
      const mark = marks[rank].launched
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
      const times = marks.map(({ launched, made }) => {
        if (!launched) return made
        this.settle(launched.queue)
        return launched.end === 0 ? Infinity : Math.max(launched.end, made)
      })
      return times.includes(Infinity) ? undefined : Math.max(...times)
    })
    return first === undefined || second === undefined ? undefined : (second - first) / 1e6
  }

  reach(stream?: number): Promise<void> {
    return stream === undefined ? this.reachAll() : this.reachQueues(this.#queues(stream))
  }

  reachMarks(marks: readonly CpuMark[]): Promise<void> {
    const launched = marks.flatMap((mark) => mark.launched ?? [])
    return this.reachQueues(
      launched.map(({ queue }) => queue),
      launched.map(({ sequence }) => sequence),
    )
  }

  timeline(ranks: readonly number[]): Timeline | undefined {
    return this.recording?.timeline(ranks, this.target)
  }
}

/** The facts of a launch for which its code is specialised. If no arguments are given, no tensor counts as packed. */
export const specialisationOf = (wanted: Pick<Wanted, 'given' | 'members'> | undefined): Specialisation => ({
  packed: Object.entries(wanted?.given ?? {}).flatMap(([name, one]) =>
    typeof one !== 'number' && one.kind === 'packed' ? [name] : [],
  ),
  scattered: isScattered(wanted?.members),
})

function writeScalar(words: Int32Array, { params }: Kernel, name: string, value: number): void {
  const at = Object.keys(params).indexOf(name) * paramOf.bytes + paramOf.value
  const { dtype } = params[name] as ScalarParam<DType>
  const view = new DataView(words.buffer)
  if (dtype === 'f32') view.setFloat32(at, value, true)
  else if (dtype === 'i64') view.setBigInt64(at, BigInt(value), true)
  else view.setInt32(at, value, true)
}

/**
 * Describes the machine by the facts that the operating system reports about its processors. All other fields of the
 * machine record are unknown for a CPU.
 */
function machineOf({ target, threads, panelSteps }: CpuPlatform, ranks: number, workers: number): Machine {
  const all = Array.from({ length: ranks }, (_, rank) => rank)
  const caches = threads.caches.map(({ level, bytes, isShared }) => ({
    level,
    bytes,
    ...(isShared && { ranks: all }),
  }))
  return cpuMachine(target, ranks, { workers, panelSteps, caches, model: threads.model })
}
