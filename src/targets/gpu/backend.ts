/**
 * The backend of a world on GPUs: heaps in device memory, device streams, and kernels compiled to machine code.
 * backend.ts prepares arguments, per-rank launches and events, and machine.ts contains launch queues, waiting and
 * aborts. The arguments of a per-rank launch are prepared in native memory once, so that each further launch costs one
 * driver call.
 */
import type { KernelIR } from '../../ir/node.ts'
import type { Timeline } from '../../timeline/timeline.ts'
import { hostSignals } from '../../world/arguments.ts'
import type { Backend, Loaded, Stored, Wanted } from '../../world/backend.ts'
import { residentPrograms } from '../../world/machine.ts'
import { inGroup, isEvenlyAscending, spacingOf, type Members } from '../../world/members.ts'
import { expectTogether } from '../../world/residency.ts'
import { WorldError } from '../../world/world.ts'
import { kernelArgument, type RankMemory } from './arguments.ts'
import { DeviceClock } from './clock.ts'
import { describeMachine } from './describe.ts'
import type { WorldFacts } from './platform.ts'
import { executableOf, type Executable } from './executables.ts'
import { Graphs } from './graphs.ts'
import { Machine, programsAProcessor } from './machine.ts'
import type { Part, Queue } from './queue.ts'
import type { Kernel, StreamEvent } from './device.ts'

/** A kernel that is loaded on a device. */
interface Code {
  readonly executable: Executable
  readonly kernel: Kernel
  readonly programsPerProcessor: number
}

export class GpuBackend extends Machine implements Backend<Part, StreamEvent> {
  /** The differences between the kernels of a world that records events and the kernels of a world that does not. */
  readonly unlike = new Set<string>()
  readonly target = this.platform.target
  readonly machine = describeMachine(this.platform, this.placement.ranks)
  readonly graphs = new Graphs(this)
  readonly #events = new Set<StreamEvent>()
  /** Tensors with flag-in-data words (the low two bits of each f32 hold the epoch). */
  readonly #carrying = new WeakSet<object>()

  get clockTick(): number {
    const clock = new DeviceClock(this.place(0).device, this.platform)
    try {
      return clock.tick()
    } finally {
      clock.close()
    }
  }

  // Compiled code

  load(wanted: Wanted): Loaded<Part> {
    const { ir, rank, stream, values } = wanted
    // Creating a new queue may block until no kernel runs, so the queue is created before any code is loaded.
    const queue = this.queue(rank, stream)
    const emitted = this.platform.emit(ir, values, this.#factsFor(wanted))
    const { block, sharedBytes, carriesEpochs, unlike } = emitted
    for (const name of carriesEpochs) this.#carrying.add(values[name] as object)
    for (const difference of unlike) this.unlike.add(difference)
    const executable = executableOf(ir, emitted)
    const kernel = this.kernel(emitted, rank)
    const programsPerProcessor = kernel.programsPerProcessor({ block, sharedBytes })
    return {
      resident: residentPrograms(this.machine, rank, Math.min(programsPerProcessor, programsAProcessor)),
      waiting: executable.waiting,
      part: (grid) => this.#part(wanted, queue, { executable, kernel, programsPerProcessor }, grid),
    }
  }

  #factsFor({ flags, members }: Wanted): WorldFacts {
    return {
      ...this.facts,
      ...(hostSignals(Object.values(flags)) && { hostSignals: true }),
      ...(!isEvenlyAscending(members) && { scattered: true }),
    }
  }

  /**
   * Returns the range of heaps that a kernel on the group `members` can access. The range consists of the heaps of the
   * group's ranks if these heaps are at a constant distance, and of the heaps of the whole world if they are not.
   */
  #heapsOf(members: Members): Pick<RankMemory, 'heap' | 'stride' | 'heaps' | 'places'> {
    const { heap, stride } = this.placement
    const spacing = spacingOf(members)
    if (!isEvenlyAscending(members) || !spacing) return { heap, stride, heaps: this.ranks, places: members! }
    const { first, step } = spacing
    const heaps = members?.length ?? this.ranks
    const places = Array.from({ length: heaps }, (_, place) => place)
    return { heap: heap + BigInt(first) * BigInt(stride), stride: step * stride, heaps, places }
  }

  #part(wanted: Wanted, queue: Queue, code: Code, grid: number): Part {
    const { rank, members, values } = wanted
    const { executable, kernel, programsPerProcessor } = code
    const { block, sharedBytes, params, writes } = executable.emitted
    const memory: RankMemory = {
      device: this.place(rank).device,
      rank: inGroup(members, rank),
      ranks: members?.length ?? this.ranks,
      ...this.#heapsOf(members),
      counters: this.counters(queue, executable),
      control: 0n,
      log: this.recorder?.address(queue),
    }
    // A single program always fits on the device, so a launch of one program need not be cooperative.
    const cooperative = executable.waiting !== undefined && grid > 1
    const launch = kernel.prepare(
      { grid, block, sharedBytes, cooperative },
      params.map((param) => kernelArgument(param, values, memory, this.platform)),
    )
    this.signallers.note({ kernel: wanted.kernel.name, rank, stream: wanted.stream }, wanted.ir, wanted.flags)
    const memoryOf = (name: string): object => values[name] as Stored
    return {
      ...{ queue, rank, grid, executable, programsPerProcessor, launch },
      kernel: wanted.kernel,
      flags: wanted.flags,
      members,
      controlAt: params.findIndex(({ kind }) => kind === 'control'),
      early: params.flatMap((param) =>
        param.kind === 'settled' ? param.groups.map((group) => group.map(memoryOf)) : [],
      ),
      writes: writes.map(memoryOf),
      writesElsewhere: executable.writesElsewhere.map(memoryOf),
      settledAt: params.findIndex(({ kind }) => kind === 'settled'),
      settled: 0,
      setNumber: (name, value) => {
        const at = params.findIndex((param) => param.kind === 'scalar' && param.name === name)
        if (at >= 0)
          launch.setArgument(at, kernelArgument(params[at], { [name]: value }, memory, this.platform))
      },
      close: () => launch.close(),
    }
  }

  /**
   * Compiles the kernel for the tensor shapes of each argument set in `wanted`. If no argument sets are given, no
   * kernel is compiled, because the code depends on the shapes.
   */
  prepare(ir: KernelIR, wanted: readonly Wanted[]): Promise<void> {
    for (const one of wanted) this.kernel(this.platform.emit(ir, one.values, this.#factsFor(one)), one.rank)
    return Promise.resolve()
  }

  // Launch queues

  expectTogether(parts: readonly Part[]): void {
    expectTogether(parts, this.machine)
  }

  override enqueue(parts: readonly Part[]): void {
    if (this.graphs.isCapturing) this.graphs.add(parts)
    else super.enqueue(parts)
  }

  beforeWrite(stored: Stored, name: string, rank: number): void {
    if (this.graphs.isCapturing)
      throw new WorldError(
        `${name} is written during graph capture, but a graph contains only launches: write ${name} before the capture`,
      )
    this.holdHostBack(stored, name, rank)
  }

  #queues(stream: number): Queue[] {
    return this.placement.ranks.map((_, rank) => this.queue(rank, stream))
  }

  mark(stream: number): readonly StreamEvent[] {
    const queues = this.#queues(stream)
    this.#beforeEvent()
    return queues.map((queue) => {
      const mark = queue.stream.createEvent()
      mark.record()
      this.#events.add(mark)
      return mark
    })
  }

  follow(stream: number, marks: readonly StreamEvent[]): void {
    const queues = this.#queues(stream)
    this.#beforeEvent()
    for (const queue of queues) queue.stream.waitFor(marks[queue.rank])
  }

  #beforeEvent(): void {
    if (this.graphs.isCapturing)
      throw new WorldError(
        'events cannot be recorded or waited for during graph capture, since a graph contains only launches: use events before or after the capture',
      )
    this.graphs.catchUp()
  }

  /**
   * Returns the time in milliseconds between two sets of events, or undefined if an event is not reached yet. Events of
   * one device share a clock. If the world has several devices, the result is the longest time that any rank took.
   */
  elapsed(from: readonly StreamEvent[], to: readonly StreamEvent[]): number | undefined {
    if (![...from, ...to].every((mark) => mark.isReached())) return undefined
    const { device } = from[0].stream
    if (from.some(({ stream }) => stream.device !== device))
      return Math.max(...to.map((mark, at) => mark.millisecondsSince(from[at])))
    const latest = (marks: readonly StreamEvent[]): number =>
      Math.max(...marks.map((mark) => mark.millisecondsSince(from[0])))
    return latest(to) - latest(from)
  }

  reach(stream?: number): Promise<void> {
    return this.reachQueues(stream === undefined ? undefined : this.#queues(stream))
  }

  reachMarks(marks: readonly StreamEvent[]): Promise<void> {
    return this.reachEvents(marks)
  }

  timeline(ranks: readonly number[]): Timeline | undefined {
    return this.recorder?.recording.timeline(ranks, this.target, (rank) => this.place(rank).processors)
  }

  isCounting(stored: Stored): boolean {
    return this.#carrying.has(stored)
  }

  override close(release: () => void): Promise<void> {
    return super.close(() => {
      this.graphs.close()
      release()
      for (const event of this.#events) event.close()
    })
  }
}
