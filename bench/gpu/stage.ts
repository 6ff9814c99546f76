/**
 * Where a cell is measured: a world with a gate, the contestants that turned out right, and their times. Everything takes turns in
 * one process, in a random order every round, each execution behind the gate.
 */
import { KernelError } from '../../src/ir/site.ts'
import { randomOrder } from '../../src/runs/contest.ts'
import { Gate, type Timed } from '../../src/runs/gate.ts'
import { medianOf, quantityOf } from '../../src/runs/quantity.ts'
import type { Quantity } from '../../src/runs/results.ts'
import { openCudaWorld } from '../../src/targets/cuda/open.ts'
import type { CudaWorldOptions } from '../../src/targets/cuda/machine.ts'
import type { CudaWorld } from '../../src/targets/cuda/world.ts'
import { WorldError, WorldStopped, type Stream } from '../../src/world/world.ts'
import type { CellResult, Role, Timing } from './cells.ts'
import { fastestTwo, speedupOf } from './tables.ts'

/** How long to go on, in seconds, with at least and at most so many rounds. */
export interface Effort {
  readonly seconds: number
  readonly leastRounds: number
  readonly mostRounds: number
}

/** Behind one gate. */
export interface Turn extends Timed {
  /** 1 by default. */
  readonly executions?: number
}

/** What takes its turn: one for each set of inputs, with which an execution or a loop begins; those take turns, too. */
export interface Ways {
  readonly once: readonly Turn[]
  readonly inLoop: readonly Turn[]
}

export type Contestant = Pick<Timing, 'name' | 'role' | 'form'> & Ways

export interface StageOptions {
  readonly ranks: number
  /** Executions of one turn of a loop; 1 by default. As many launches of a rank as `Gate` has room for. */
  readonly repeats?: number
  /** Bytes on each rank. */
  readonly heap: number
  readonly multiprocessors?: number
}

/** A product of others may be a second kernel, which adds parts up. */
export const mostVendorLaunches = 2

/** What others launch: the fastest behind a gate, and in a loop, for each set of inputs. */
export interface ForeignWays {
  readonly once: readonly (() => void)[]
  readonly inLoop: readonly (() => void)[]
}

export const nothing: Turn = { executions: 0, launches: 0, launch: () => {} }

/** Where rounds of all did not tell the faster one, or by no more than turns of one differ by. */
const roundsOfTwo = { least: 60, most: 400 }
const turnsDiffer = 0.01
const isTie = ({ median, interval: [low, high] }: Quantity): boolean =>
  (low <= 1 && high >= 1) || Math.abs(median - 1) < turnsDiffer

const justOnce: Effort = { seconds: 0, leastRounds: 1, mostRounds: 1 }

/** The time that a kernel may wait for others: nothing here takes a second. */
const timeout = 10_000
const now = (): number => performance.now() * 1e6

/** Orders of turns that were drawn in this process: no two are alike. */
let drawn = 0

/** How stages are: those that only compile what they would launch (ahead.ts) find nothing right or wrong. */
export const stageOptions: {
  open: (options: CudaWorldOptions) => CudaWorld
  isMeasuring: boolean
  /** What a stage is about to do. */
  onProgress: (what: string) => void
} = {
  open: openCudaWorld,
  isMeasuring: true,
  onProgress: () => {},
}

/** Whether after such a failure nothing more can be done in this process. */
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

  /** Something to close before the world is. */
  own(close: () => void): void {
    this.#closing.push(close)
  }

  /** All of the body, or why not: under the name in `failed`. */
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

  /** Executions one after the other, as a decoding loop has them: a turn that begins with each. */
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

  /** Executions that were found right, launched as they are and as a graph. Others may be the faster ones in a loop. */
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
      // Of a turn the first execution is checked.
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

  /** What others launch, on streams of ours: no graph of it can be made alone. */
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

  /** Of all contestants, in loops alone. After each round something else may have its turn; rounds before 0 do not count. */
  async times(effort: Effort, afterRound?: (round: number) => Promise<void>): Promise<Timing[]> {
    const turns = this.contestants.map(({ inLoop }) => inLoop)
    const samples = await this.samples(turns, effort, afterRound)
    return this.contestants.map((one, n) => timingOf(one, samples[n], 0, this.repeats))
  }

  /**
   * Of all contestants, each execution behind a gate of its own, and in loops where a turn has more than one. To start work on eight streams
   * and to tell the time takes a device some tens of microseconds: what a turn of nothing takes is measured as well, and taken off.
   */
  async bothTimes(
    effort: Effort,
  ): Promise<Pick<CellResult, 'timings' | 'inLoop' | 'speedup' | 'duel' | 'turn' | 'telling' | 'failed'>> {
    const { contestants, repeats } = this
    // What takes a turn of its own is short next to a loop, and varies more: it has more turns.
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
    // A round has several turns of each.
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
   * The fastest baseline and the fastest fused one once more: they alone take turns, so that there are more rounds. Which two they are
   * is told by the rounds so far.
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

  /** Microseconds of the turns of each, round by round. */
  async samples(
    turns: readonly (readonly Turn[])[],
    effort: Effort,
    afterRound: (round: number) => Promise<void> = () => Promise.resolve(),
  ): Promise<number[][]> {
    const { seconds, leastRounds, mostRounds } = stageOptions.isMeasuring ? effort : justOnce
    stageOptions.onProgress(`${turns.length} in turns`)
    const samples = turns.map((): number[] => [])
    const random = randomOrder(Math.imul(++drawn, 0x9e3779b1))
    // How many executions there were: the next one's inputs are those that were used least recently.
    let executions = 0
    const next = (ways: readonly Turn[]): Turn => {
      const turn = ways[executions % ways.length]
      executions += turn.executions ?? 1
      return turn
    }
    const start = performance.now()
    const isOver = (round: number): boolean =>
      round >= mostRounds || (round >= leastRounds && performance.now() - start > 1000 * seconds)
    // The first two rounds do not count.
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

/** A result that is not what it should be. */
export class Wrong extends Error {}

/** Relative to the size of what is compared: rounding of 16-bit numbers alone gives 2e-3. */
const mostDeviation = 1e-2

/** Expected and found elements, compared together: NaN never passes. */
export function expectSimilar(what: string, found: ArrayLike<number>, expected: ArrayLike<number>): void {
  let [error, norm] = [0, 0]
  for (let i = 0; i < expected.length; i++) {
    error += (found[i] - expected[i]) ** 2
    norm += expected[i] ** 2
  }
  const relative = Math.sqrt(error / norm)
  if (!(relative <= mostDeviation))
    throw new Wrong(`${what}: ${relative.toExponential(2)} of the expected size away from float64`)
}
