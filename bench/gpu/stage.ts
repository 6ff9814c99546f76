/**
 * Implements the stage on which a cell (one row of a results table) is measured: a world with a start gate, the
 * contestants whose results were correct, and their times. All contestants run interleaved in one process, in a new
 * random order in every round, and each execution starts behind the gate.
 */
import { KernelError } from '../../src/ir/site.ts'
import { randomOrder } from '../../src/runs/contest.ts'
import { Gate, type Timed } from '../../src/runs/gate.ts'
import { medianOf, quantityOf } from '../../src/runs/quantity.ts'
import type { Quantity } from '../../src/runs/results.ts'
import { openCudaWorld } from '../../src/targets/cuda/open.ts'
import type { GpuWorldOptions } from '../../src/targets/gpu/machine.ts'
import type { CudaWorld } from '../../src/targets/cuda/world.ts'
import { WorldError, WorldStopped, type Stream } from '../../src/world/world.ts'
import type { CellResult, Role, Timing } from './cells.ts'
import { fastestTwo, speedupOf } from './tables.ts'

/** The measuring time in seconds, and the least and the largest number of rounds. */
export interface Effort {
  readonly seconds: number
  readonly leastRounds: number
  readonly mostRounds: number
}

/** The work that is enqueued behind one start gate of the benchmark. */
export interface Turn extends Timed {
  /** The number of executions that are enqueued behind the gate; 1 by default. */
  readonly executions?: number
}

/**
 * A contestant is timed in two ways: in single executions, and in loops. Each of the two lists has one entry per
 * input set, which the single execution, or the first one of the loop, uses. The input sets of a stage are used in
 * rotation.
 */
export interface Ways {
  readonly once: readonly Turn[]
  readonly inLoop: readonly Turn[]
}

export type Contestant = Pick<Timing, 'name' | 'role' | 'form'> & Ways

export interface StageOptions {
  readonly ranks: number
  /**
   * The number of executions per loop, which is 1 by default. All launches of one rank in a loop must fit into the
   * queue of the `Gate`.
   */
  readonly repeats?: number
  /** The heap size per rank, in bytes. */
  readonly heap: number
  readonly multiprocessors?: number
}

/** The vendor's product may use a second kernel that adds partial results. */
export const mostVendorLaunches = 2

/**
 * The launches of another library, with one entry per input set: the algorithm that is fastest in single executions,
 * and the algorithm that is fastest in a loop.
 */
export interface ForeignWays {
  readonly once: readonly (() => void)[]
  readonly inLoop: readonly (() => void)[]
}

export const nothing: Turn = { executions: 0, launches: 0, launch: () => {} }

/**
 * If the first rounds showed no significant difference, or a difference below 1 %, the two fastest contestants run
 * alone for these numbers of rounds.
 */
const roundsOfTwo = { least: 60, most: 400 }
const turnsDiffer = 0.01
const isTie = ({ median, interval: [low, high] }: Quantity): boolean =>
  (low <= 1 && high >= 1) || Math.abs(median - 1) < turnsDiffer

const justOnce: Effort = { seconds: 0, leastRounds: 1, mostRounds: 1 }

/**
 * After this time without progress, in ms, the watchdog stops all ranks. No execution in the benchmark takes a second.
 */
const timeout = 10_000
const now = (): number => performance.now() * 1e6

/**
 * The number of random orders drawn so far in this process. The number of random orders is used as a seed, so that no
 * two orders are equal.
 */
let drawn = 0

/**
 * Options that apply to all stages of a benchmark process. Stages that only compile (ahead.ts) do not check results.
 */
export const stageOptions: {
  open: (options: GpuWorldOptions) => CudaWorld
  isMeasuring: boolean
  /** A callback that receives a description of what the benchmark is about to measure. */
  onProgress: (what: string) => void
} = {
  open: openCudaWorld,
  isMeasuring: true,
  onProgress: () => {},
}

/** True if the process can no longer use the device after this failure. */
export const isLost = (message: string): boolean =>
  /cannot use the device any more|does not stop|cannot be stopped|failed: CUDA_ERROR_(?!OUT_OF_MEMORY)/.test(
    message,
  )

export class Stage {
  readonly world: CudaWorld
  readonly stream: Stream
  readonly contestants: Contestant[] = []
  readonly failed: Record<string, string> = {}
  readonly repeats: number
  readonly #gate: Gate
  readonly #closing: (() => void)[] = []

  private constructor(world: CudaWorld, repeats: number) {
    this.world = world
    this.repeats = repeats
    this.stream = world.stream()
    this.#gate = new Gate(world, this.stream, now, true)
  }

  static async open({ ranks, heap, multiprocessors, repeats = 1 }: StageOptions): Promise<Stage> {
    const stage = new Stage(stageOptions.open({ ranks, heap, multiprocessors, timeout }), repeats)
    await stage.#gate.prepare()
    return stage
  }

  /** Registers a function that runs before the world of the stage is closed. */
  own(close: () => void): void {
    this.#closing.push(close)
  }

  /** Runs the body of a measurement. If the body fails, the reason is stored under `name` in `failed`. */
  async try(name: string, body: () => Promise<void>): Promise<void> {
    stageOptions.onProgress(name)
    try {
      await body()
    } catch (error) {
      if (!(error instanceof Error)) throw error
      if (isLost(error.message)) throw error
      const known = [WorldError, KernelError, RangeError, Wrong].some((kind) => error instanceof kind)
      this.failed[name] = known ? error.message.split('\n').slice(0, 6).join('\n') : (error.stack ?? '')
      if (error instanceof WorldStopped) await this.world.reset()
    }
  }

  /**
   * Returns loops of consecutive executions, as in a decoding loop. The n-th loop begins with the n-th execution of the
   * argument.
   */
  inLoop(executions: readonly Timed[]): Turn[] {
    const { repeats } = this
    return executions.map(({ launches }, first) => ({
      executions: repeats,
      launches: repeats * launches,
      launch: () => {
        for (let n = 0; n < repeats; n++) executions[(first + n) % executions.length].launch()
      },
    }))
  }

  /**
   * Checks the results of the executions and adds them as a contestant, once as launches and once as a graph. Loops
   * consist of `executionsInLoop`, which may differ from `executions` if another algorithm is faster in a loop.
   */
  async enter(
    name: string,
    role: Role,
    executions: readonly Timed[],
    check: (execution: number, run: () => void) => Promise<void>,
    executionsInLoop = executions,
  ): Promise<void> {
    if (!stageOptions.isMeasuring) check = async (_, run) => run()
    const checkAll = async (all: readonly Timed[]): Promise<void> => {
      for (const [n, { launch }] of all.entries()) await check(n, launch)
    }
    const inLoop = this.inLoop(executionsInLoop)
    await this.try(name, async () => {
      await checkAll(executions)
      if (executionsInLoop !== executions) await checkAll(executionsInLoop)
      this.contestants.push({ name, role, form: 'launches', once: executions, inLoop })
    })
    if (!this.contestants.some((one) => one.name === name)) return
    await this.try(`${name} as a graph`, async () => {
      const replays = { once: this.#graphs(executions), inLoop: this.#graphs(inLoop) }
      // The check sees only the result of the first execution in each loop.
      await checkAll(replays.once)
      await checkAll(replays.inLoop)
      this.contestants.push({ name, role, form: 'graph', ...replays })
    })
  }

  #graphs(turns: readonly Turn[]): Turn[] {
    return turns.map((turn) => {
      const graph = this.world.graph(turn.launch)
      const launches = graph.nodes / this.world.ranks
      return { ...turn, launches, isGraph: true, launch: () => graph.launch() }
    })
  }

  /**
   * Adds an implementation of another library, which launches on the world's streams, as a contestant. Launches of
   * another library cannot be captured as a separate CUDA graph.
   */
  async enterForeign(
    name: string,
    role: Role,
    { once, inLoop }: ForeignWays,
    check: (execution: number, run: () => void) => Promise<void>,
  ): Promise<void> {
    await this.try(name, async () => {
      for (const launches of new Set([once, inLoop]))
        for (const [n, launch] of launches.entries()) await check(n, launch)
      const timed = (launch: () => void): Timed => ({ launches: mostVendorLaunches, launch })
      const ways = { once: once.map(timed), inLoop: this.inLoop(inLoop.map(timed)) }
      this.contestants.push({ name, role, form: 'launches', ...ways })
    })
  }

  /**
   * Times all contestants in loops only. The function `afterRound` may run other work after each round. Rounds with a
   * negative number are warm-up rounds, whose times are not used.
   */
  async times(effort: Effort, afterRound?: (round: number) => Promise<void>): Promise<Timing[]> {
    const turns = this.contestants.map(({ inLoop }) => inLoop)
    const samples = await this.samples(turns, effort, afterRound)
    return this.contestants.map((one, n) => timingOf(one, samples[n], 0, this.repeats))
  }

  /**
   * Times all contestants in single executions behind a gate, and also in loops if a loop has more than one execution.
   * Starting work on eight streams and recording the time takes a device some tens of microseconds. The cost of
   * starting and recording is measured with empty executions and subtracted.
   */
  async bothTimes(
    effort: Effort,
  ): Promise<Pick<CellResult, 'timings' | 'inLoop' | 'speedup' | 'duel' | 'turn' | 'telling' | 'failed'>> {
    const { contestants, repeats } = this
    // A single execution is shorter than a loop and varies more, so single executions run three times per round.
    const turns = Array.from({ length: repeats > 1 ? 3 : 1 }, () => [
      [nothing],
      ...contestants.map(({ once }) => once),
    ])
    const loops = repeats > 1 ? contestants.map(({ inLoop }) => inLoop) : []
    const samples = await this.samples([...turns.flat(), ...loops], effort)
    const onceOf = (n: number): number[] => turns.flatMap((all, turn) => samples[turn * all.length + n])
    const telling = medianOf(onceOf(0))
    const looped = samples.slice(samples.length - loops.length)
    const timings = contestants.map((one, n) => timingOf(one, onceOf(n + 1), telling))
    // The mean time of the executions of a contestant, for each round.
    const roundsOf = (n: number): number[] => {
      const each = turns.map((all, turn) => samples[turn * all.length + n])
      return each[0].map(
        (_, round) => each.reduce((sum, times) => sum + times[round], 0) / each.length - telling,
      )
    }
    const rounds = contestants.map((_, n) => roundsOf(n + 1))
    const speedup = speedupOf(timings, rounds)
    return {
      timings,
      ...(speedup && isTie(speedup) ? await this.#duel(rounds, effort, telling) : { speedup }),
      inLoop:
        repeats > 1 ? contestants.map((one, n) => timingOf(one, looped[n], telling, repeats)) : undefined,
      turn: repeats,
      telling,
      failed: this.failed,
    }
  }

  /**
   * Times the fastest baseline and the fastest fused contestant again without the others, with more rounds. The rounds
   * so far decide which two contestants are measured again.
   */
  async #duel(
    rounds: readonly (readonly number[])[],
    effort: Effort,
    telling: number,
  ): Promise<Required<Pick<CellResult, 'speedup' | 'duel'>>> {
    const two = fastestTwo(this.contestants, rounds).map((n) => this.contestants[n])
    const samples = await this.samples(
      two.map(({ once }) => once),
      { ...effort, leastRounds: roundsOfTwo.least, mostRounds: roundsOfTwo.most },
    )
    const [slower, faster] = samples.map((times) => times.map((time) => time - telling))
    const [baseline, fused] = two.map((one, n) => timingOf(one, samples[n], telling))
    return {
      speedup: quantityOf(slower.map((time, round) => time / faster[round])),
      duel: [baseline, fused],
    }
  }

  /** Returns the times of each contestant in microseconds, one per round. */
  async samples(
    turns: readonly (readonly Turn[])[],
    effort: Effort,
    afterRound: (round: number) => Promise<void> = () => Promise.resolve(),
  ): Promise<number[][]> {
    const { seconds, leastRounds, mostRounds } = stageOptions.isMeasuring ? effort : justOnce
    stageOptions.onProgress(`timing ${turns.length} contestants, interleaved`)
    const samples = turns.map((): number[] => [])
    const random = randomOrder(Math.imul(++drawn, 0x9e3779b1))
    // The number of executions that have run so far. The number of executions selects the input set that was used least
    // recently.
    let executions = 0
    const next = (ways: readonly Turn[]): Turn => {
      const turn = ways[executions % ways.length]
      executions += turn.executions ?? 1
      return turn
    }
    const start = performance.now()
    const isOver = (round: number): boolean =>
      round >= mostRounds || (round >= leastRounds && performance.now() - start > 1000 * seconds)
    // The times of the first two rounds of a measurement are not used.
    for (let round = -2; !isOver(round); round++) {
      const order = random(turns.length)
      const laps = await this.#gate.time(order.map((n) => next(turns[n])))
      if (round >= 0) order.forEach((n, place) => samples[n].push(laps[place].time / 1e3))
      await afterRound(round)
    }
    return samples
  }

  async close(): Promise<void> {
    stageOptions.onProgress('closing')
    for (const close of this.#closing.reverse()) close()
    await this.world.close()
  }
}

const timingOf = (
  { name, role, form }: Contestant,
  samples: readonly number[],
  telling: number,
  repeats = 1,
): Timing => ({ name, role, form, ...quantityOf(samples.map((time) => (time - telling) / repeats)) })

/** The error for an incorrect result. */
export class Wrong extends Error {}

/** The largest accepted relative error (L2 norm). Rounding to 16 bits alone causes an error of 2e-3. */
const mostDeviation = 1e-2

/** Compares all elements of a result by one relative error. A result that contains NaN never passes. */
export function expectSimilar(what: string, found: ArrayLike<number>, expected: ArrayLike<number>): void {
  let [error, norm] = [0, 0]
  for (let i = 0; i < expected.length; i++) {
    error += (found[i] - expected[i]) ** 2
    norm += expected[i] ** 2
  }
  const relative = Math.sqrt(error / norm)
  if (!(relative <= mostDeviation))
    throw new Wrong(`${what}: ${relative.toExponential(2)} relative error against the float64 reference`)
}
