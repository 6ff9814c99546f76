/**
 * The gate before every timed execution: all ranks meet in it, on the device, when all that is timed has been enqueued; so the time
 * from its opening to the end of the last rank holds nothing of the host.
 *
 *   hold    waits for the host to open: before the first gate of a batch, since the host is still enqueueing
 *   gate    all ranks meet; on a GPU, what comes behind it is made ready meanwhile, and touches no memory before it opens
 *   delay   keeps a rank busy for so many turns: a straggler
 *
 * CPU ranks that have a core each spin in both and never sleep: a rank that had to be woken would leave the gate late, and the
 * others would have begun without it. Others meet by flags. A GPU lets the next launch be made ready while a kernel waits for flags,
 * and copies nothing early behind a kernel that has only flags. Its ranks meet again when each has told the time: a device does that
 * for one rank after the other, and the first ones would have been at work for a while when the last one's time begins.
 */
import { f32, i32 } from '../lang/dtypes.ts'
import { flags, kernel, scalar, tensor } from '../lang/kernel.ts'
import type { Program } from '../lang/program.ts'
import type { Tensor } from '../lang/tensor.ts'
import type { Index, Scalar } from '../lang/value.ts'
import type { Stream, StreamEvent, World } from '../world/world.ts'

export const gateName = 'gate'

/** Until a word is at least so much. */
function spinUntil(t: Program, word: Tensor<'i32', 1>, wanted: Scalar): void {
  const look = () => t.load(word.at([0]), { order: 'acquire', scope: 'system' })
  t.while(
    look(),
    (seen) => seen.lt(wanted),
    () => look(),
  )
}

/**
 * The same without a rest: on a CPU a loop naps after some hundreds of iterations, for longer than a short operation takes. Loops in
 * loops, each of fewer, go on for milliseconds before the outermost does.
 */
function spinAwake(t: Program, word: Tensor<'i32', 1>, wanted: Scalar): void {
  const look = () => t.load(word.at([0]), { order: 'acquire', scope: 'system' })
  const spin = (seen: Scalar<'i32'>, depth: number): Scalar<'i32'> =>
    depth === 0
      ? look()
      : t.while(
          { seen, left: t.constant(i32, 200) },
          ({ seen, left }) => seen.lt(wanted).and(left.gt(0)),
          ({ seen, left }) => ({ seen: spin(seen, depth - 1), left: left.sub(1) }),
        ).seen
  t.while(
    look(),
    (seen) => seen.lt(wanted),
    (seen) => spin(seen, 2),
  )
}

/** Computes for so many turns. */
function keepBusy(t: Program, result: Tensor<'f32', 1>, turns: Index): void {
  const busy = t.for(turns, t.constant(f32, 1), (_, x) => x.mul(0.999).add(0.001))
  t.store(result.at([0]), busy)
}

/** In turns, some tenths of a millisecond: the host, which has just opened, leaves its core meanwhile. A GPU has its own. */
const settling = 100_000

const holdParams = { open: tensor(i32, 1), wanted: scalar(i32), result: tensor(f32, 1) }
const hold = kernel('hold', holdParams, { settling }, (t, { open, wanted, result }, { settling }) => {
  spinUntil(t, open, wanted)
  if (settling > 0) keepBusy(t, result, settling)
})

/** `met` on rank 0 counts all arrivals, `turn` of each rank its own. */
const meeting = { met: tensor(i32, 1), turn: tensor(i32, 1) }
const spinningGate = kernel(gateName, meeting, (t, { met, turn }) => {
  const turns = t.load(turn.at([0])).add(1)
  t.store(turn.at([0]), turns)
  t.atomic.add(met.on(0).at([0]), 1, { order: 'acqRel' })
  spinAwake(t, met.on(0), turns.mul(t.world))
})

const flagGate = kernel(gateName, { arrived: flags(1) }, (t, { arrived }) => {
  t.signalAll(arrived.at([t.rank]))
  t.for(t.world, (source) => t.wait(arrived.at([source])))
})

const delay = kernel('delay', { result: tensor(f32, 1), turns: scalar(i32) }, (t, { result, turns }) =>
  keepBusy(t, result, turns),
)

/** An execution to time: how many launches it makes, which must all be enqueued before it starts. */
export interface Timed {
  readonly launches: number
  /** They are one graph. */
  readonly isGraph?: boolean
  readonly launch: () => void
}

/** In nanoseconds, from the opening of its gate. */
export interface Lap {
  /** To the end of the last rank. */
  readonly time: number
  /** Of each rank, from its leaving the gate to its end. */
  readonly ends: readonly number[]
  /** What the host did to enqueue it. */
  readonly host: number
}

/**
 * What a queue of a rank holds for certain, the gates and the hold included. A GPU's driver makes the host wait when much is
 * pending, for ever if a kernel waits for the host; there events and what joins the streams of a graph are counted, too.
 */
const mostLaunches = 48
const mostPendingOnGpu = 46
/** Around an execution: two gates, two events, and for a graph two waits. */
const pendingAroundOnGpu = 6

export class Gate {
  readonly #world: World
  readonly #stream: Stream
  readonly #now: () => number
  readonly #open
  readonly #launchGate: () => void
  /** Those that hold: all where every program has a core of its own, or the first. */
  readonly #holding: readonly number[]
  readonly #result
  #batches = 0
  /** What was executed behind each gate so far; null behind those that end a batch. */
  readonly log: (Timed | null)[] = []
  /** Turns of `delay` in a nanosecond, once it was measured. */
  #turns = 0

  /** `now` is the host's clock in nanoseconds; `spin`: every program that runs has a core of its own. */
  constructor(world: World, stream: Stream, now: () => number, spin: boolean) {
    this.#world = world
    this.#stream = stream
    this.#now = now
    this.#holding = spin ? world.localRanks : [0]
    const options = { grid: 1, stream }
    if (spin && !this.#isDevice) {
      const args = {
        met: world.zeros(i32, [1], { name: 'met' }),
        turn: world.zeros(i32, [1], { name: 'turn' }),
      }
      this.#launchGate = () => world.launch(spinningGate, args, options)
    } else {
      const args = { arrived: world.flags([world.ranks], { name: 'gate' }) }
      this.#launchGate = () => world.launch(flagGate, args, options)
    }
    this.#open = world.zeros(i32, [1], { name: 'open' })
    this.#result = world.zeros(f32, [1], { name: 'delay' })
  }

  get #isDevice(): boolean {
    return this.#world.machine.capabilities.deviceQueues
  }

  /** Launches what gates are made of once: behind one that holds, a target may be unable to load more. */
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
   * One after the other, each behind a gate; as few batches as the queues allow. A graph has a batch to itself: while one on several ranks waits for
   * its turn, whatever runs takes 1.6 % longer. (And behind several nothing is copied to a GPU any more, nor can what runs be stopped.)
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
        throw new RangeError(`an execution of ${executions[from].launches} launches is too long`)
      laps.push(...(await this.#batch(executions.slice(from, to))))
      from = to
    }
    return laps
  }

  /** What makes an execution start late on a rank, by so many nanoseconds. */
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
    // What comes behind this one is the next batch's hold, no part of the last execution.
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
