/**
 * The start gate is a kernel in front of every timed execution. In the start gate, every rank waits until all ranks
 * have arrived and all timed work has been enqueued. The time from the opening of the start gate to the end of the last
 * rank therefore contains no host work.
 *
 *   hold    waits until the host opens the batch; the host is still enqueueing until then
 *   gate    a rank barrier by flags
 *   delay   keeps one rank busy for a number of loop iterations, to make it a straggler
 *
 * On a GPU, the launch after the gate may start before the gate opens (programmatic dependent launch), but it accesses
 * no memory until then. A GPU records the start events of its ranks one after another, so these ranks pass a second
 * gate after all start times are recorded. Without the second gate, the first ranks would have worked for some time
 * before the last rank's start was recorded.
 */
import { f32, i32 } from '../lang/dtypes.ts'
import { flags, kernel, scalar, tensor } from '../lang/kernel.ts'
import type { Program } from '../lang/program.ts'
import type { Tensor } from '../lang/tensor.ts'
import type { Index, Scalar } from '../lang/value.ts'
import type { Stream, StreamEvent, World } from '../world/world.ts'

export const gateName = 'gate'

/** Polls a 32-bit word in memory until its value is at least `wanted`. */
function spinUntil(t: Program, word: Tensor<'i32', 1>, wanted: Scalar): void {
  const look = () => t.load(word.at([0]), { order: 'acquire', scope: 'system' })
  t.while(
    look(),
    (seen) => seen.lt(wanted),
    () => look(),
  )
}

/** Executes a loop for a given number of iterations, to delay a rank. */
function keepBusy(t: Program, result: Tensor<'f32', 1>, turns: Index): void {
  const busy = t.for(turns, t.constant(f32, 1), (_, x) => x.mul(0.999).add(0.001))
  t.store(result.at([0]), busy)
}

/**
 * The number of loop iterations of a short delay, which takes some tenths of a millisecond. On a CPU, the host thread
 * that has just opened the start gates leaves its core during the delay. A GPU shares no core with the host, so it
 * needs no delay.
 */
const settling = 100_000

const holdParams = { open: tensor(i32, 1), wanted: scalar(i32), result: tensor(f32, 1) }
const hold = kernel('hold', holdParams, { settling }, (t, { open, wanted, result }, { settling }) => {
  spinUntil(t, open, wanted)
  if (settling > 0) keepBusy(t, result, settling)
})

const gate = kernel(gateName, { arrived: flags(1) }, (t, { arrived }) => {
  t.signalAll(arrived.at([t.rank]))
  t.for(t.world, (source) => t.wait(arrived.at([source])))
})

const delay = kernel('delay', { result: tensor(f32, 1), turns: scalar(i32) }, (t, { result, turns }) =>
  keepBusy(t, result, turns),
)

/** An execution whose time is measured. All launches of an execution must be enqueued before the execution starts. */
export interface Timed {
  readonly launches: number
  /** True if the launches are replayed as one CUDA graph. */
  readonly isGraph?: boolean
  readonly launch: () => void
}

/** The measured times of one execution in nanoseconds, counted from the opening of its start gate. */
export interface Lap {
  /** The time until the last rank has finished the execution. */
  readonly time: number
  /** The time from leaving the start gate to the end of the work, for each rank. */
  readonly ends: readonly number[]
  /** The time that the host takes to enqueue the execution. */
  readonly host: number
}

/**
 * The number of launches that a rank's queue is guaranteed to take, including the gates and the `hold` kernel. If too
 * many operations are pending, a GPU driver blocks the host thread. A blocked host causes a deadlock if a kernel waits
 * for the host. On a GPU, events and stream waits count as pending operations too.
 */
const mostLaunches = 48
const mostPendingOnGpu = 46
/**
 * The number of pending operations that surround an execution: two gates, two events and, for a graph, two stream
 * waits.
 */
const pendingAroundOnGpu = 6

/** The maximum number of launches of a rank on a GPU that one gate can hold back. */
export const mostBehindGateOnGpu = mostPendingOnGpu - pendingAroundOnGpu - 2

export class Gate {
  readonly #world: World
  readonly #stream: Stream
  readonly #now: () => number
  readonly #open
  readonly #arrived
  /** The ranks that run the kernel `hold`: all ranks if every program has a core of its own, otherwise rank 0. */
  readonly #holding: readonly number[]
  readonly #result
  #batches = 0
  /** The execution that follows each start gate, in order, with null for a gate that ends a batch. */
  readonly log: (Timed | null)[] = []
  /** The number of loop iterations of `delay` per nanosecond, or 0 until it is measured. */
  #turns = 0

  /** `now` returns the host's clock in nanoseconds. `spin` is true if every running program has a core of its own. */
  constructor(world: World, stream: Stream, now: () => number, spin: boolean) {
    this.#world = world
    this.#stream = stream
    this.#now = now
    this.#holding = spin ? world.localRanks : [0]
    this.#arrived = world.flags([world.ranks], { name: 'gate' })
    this.#open = world.zeros(i32, [1], { name: 'open' })
    this.#result = world.zeros(f32, [1], { name: 'delay' })
  }

  get #isDevice(): boolean {
    return this.#world.machine.capabilities.deviceQueues
  }

  /** Launches each kernel of the start gate once. Some targets cannot load a kernel while `hold` is running. */
  async prepare(): Promise<void> {
    await this.#world.compile?.(() => {
      this.#hold(0)
      this.#launchGate()
    })
    this.#hold(0)
    this.#gate(null)
    await this.#stream.synchronize()
  }

  /**
   * Runs the executions one after another, each after its own start gate, in as few batches as the queues allow. A
   * graph gets its own batch, because running kernels take 1.6 % longer while a graph on several ranks is pending.
   * While several graphs are pending, copies to the GPU no longer complete, and a running kernel can no longer be
   * stopped.
   */
  async time(executions: readonly Timed[]): Promise<Lap[]> {
    const laps: Lap[] = []
    for (let from = 0; from < executions.length;) {
      let [to, launches] = [from, 2]
      const [most, gates] = this.#isDevice ? [mostPendingOnGpu, pendingAroundOnGpu] : [mostLaunches, 1]
      const isApart = (n: number): boolean => executions.slice(n - 1, n + 1).some(({ isGraph }) => isGraph)
      for (; to < executions.length && (to === from || !isApart(to)); to++) {
        launches += executions[to].launches + gates
        if (launches > most) break
      }
      if (to === from)
        throw new RangeError(
          `an execution of ${executions[from].launches} launches does not fit the queues: use fewer launches per execution`,
        )
      laps.push(...(await this.#batch(executions.slice(from, to))))
      from = to
    }
    return laps
  }

  /** Returns a function that makes one rank start an execution late by a number of nanoseconds. */
  async delaying(rank: number, by: number): Promise<(execution: Timed) => Timed> {
    if (this.#turns === 0) await this.#measureTurns(rank)
    const turns = Math.max(1, Math.round(by * this.#turns))
    return (execution) => ({
      ...execution,
      launches: execution.launches + 1,
      launch: () => {
        this.#delay(turns, rank)
        execution.launch()
      },
    })
  }

  #delay(turns: number, rank: number): void {
    const { id: stream } = this.#stream
    this.#world.launch(delay, { result: this.#result, turns }, { grid: 1, stream, ranks: [rank] })
  }

  async #measureTurns(rank: number): Promise<void> {
    const turns = 100_000
    await this.#world.compile?.(() => this.#delay(1, rank))
    this.#delay(1, rank)
    await this.#stream.synchronize()
    const one = { launches: 1, launch: () => this.#delay(turns, rank) }
    const laps = await this.time([one, one, one])
    this.#turns = turns / Math.min(...laps.map(({ ends }) => ends[rank]))
  }

  #hold(wanted: number): void {
    const { id: stream } = this.#stream
    this.#world.launch(
      hold,
      { open: this.#open, wanted, result: this.#result },
      { grid: 1, stream, ranks: this.#holding, meta: this.#isDevice ? { settling: 0 } : {} },
    )
  }

  #gate(execution: Timed | null): void {
    this.log.push(execution)
    this.#launchGate()
  }

  #launchGate(): void {
    this.#world.launch(gate, { arrived: this.#arrived }, { grid: 1, stream: this.#stream })
  }

  async #batch(executions: readonly Timed[]): Promise<Lap[]> {
    const world = this.#world
    const wanted = ++this.#batches
    this.#hold(wanted)
    const marks: { readonly opened: StreamEvent; readonly ended: StreamEvent; readonly host: number }[] = []
    for (const execution of executions) {
      this.#gate(this.#isDevice ? null : execution)
      const opened = this.#stream.record()
      if (this.#isDevice) this.#gate(execution)
      const before = this.#now()
      execution.launch()
      const host = this.#now() - before
      marks.push({ opened, ended: this.#stream.record(), host })
    }
    // A last gate separates the last execution of a batch from the `hold` kernel of the next batch.
    this.#gate(null)
    for (const rank of this.#holding) world.write(this.#open, rank, [wanted])
    await this.#stream.synchronize()
    return marks.map(({ opened, ended, host }) => ({
      time: ended.elapsed(opened) * 1e6,
      ends: world.localRanks.map((rank) => ended.elapsed(opened, rank) * 1e6),
      host,
    }))
  }
}
