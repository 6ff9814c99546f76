/**
 * Where a cell is measured: a world with a gate, the contestants that turned out right, and their times. Everything takes turns in
 * one process, in a random order every round, each execution behind the gate.
 */
import { KernelError } from '../../src/ir/site.ts'
import { randomOrder } from '../../src/runs/contest.ts'
import { Gate, type Timed } from '../../src/runs/gate.ts'
import { quantityOf } from '../../src/runs/quantity.ts'
import { openCudaWorld } from '../../src/targets/cuda/open.ts'
import type { CudaWorldOptions } from '../../src/targets/cuda/machine.ts'
import type { CudaWorld } from '../../src/targets/cuda/world.ts'
import { WorldError, WorldStopped, type Stream } from '../../src/world/world.ts'
import type { Role, Timing } from './cells.ts'

/** How long to go on, in seconds, with at least and at most so many rounds. */
export interface Effort {
  readonly seconds: number
  readonly leastRounds: number
  readonly mostRounds: number
}

export interface Contestant extends Pick<Timing, 'name' | 'role' | 'form'> {
  /** One for each set of inputs; they take turns. */
  readonly executions: readonly Timed[]
}

type Turns = Pick<Contestant, 'executions'> & Partial<Contestant>

export interface StageOptions {
  readonly ranks: number
  /** Executions of one turn; 1 by default. As many launches of a rank as `Gate` has room for. */
  readonly repeats?: number
  /** Bytes on each rank. */
  readonly heap: number
  readonly multiprocessors?: number
}

/** A product of others may be a second kernel, which adds parts up. */
export const mostVendorLaunches = 2

const justOnce: Effort = { seconds: 0, leastRounds: 1, mostRounds: 1 }

/** The time that a kernel may wait for others: nothing here takes a second. */
const timeout = 10_000
const now = (): number => performance.now() * 1e6

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
  /cannot use the device any more|does not stop|failed: CUDA_ERROR_(?!OUT_OF_MEMORY)/.test(message)

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

  /** Executions that were found right, launched as they are and as a graph. */
  async enter(
    name: string,
    role: Role,
    executions: readonly Timed[],
    check: (execution: number, run: () => void) => Promise<void>,
  ): Promise<void> {
    if (!stageOptions.isMeasuring) check = async (_, run) => run()
    await this.try(name, async () => {
      for (const [n, { launch }] of executions.entries()) await check(n, launch)
      this.contestants.push({ name, role, form: 'launches', executions })
    })
    if (!this.contestants.some((one) => one.name === name)) return
    await this.try(`${name} as a graph`, async () => {
      // As many executions as a turn has; the first one of each graph is checked.
      const graphs = executions.map((_, first) =>
        this.world.graph(() => {
          for (let n = 0; n < this.repeats; n++) executions[(first + n) % executions.length].launch()
        }),
      )
      const replays = graphs.map((graph): Timed => ({
        launches: graph.nodes / this.world.ranks,
        launch: () => graph.launch(),
      }))
      for (const [n, { launch }] of replays.entries()) await check(n, launch)
      this.contestants.push({ name, role, form: 'graph', executions: replays })
    })
  }

  /** What others launch, on streams of ours: no graph of it can be made alone. */
  async enterForeign(
    name: string,
    role: Role,
    launches: readonly (() => void)[],
    check: (execution: number, run: () => void) => Promise<void>,
  ): Promise<void> {
    await this.try(name, async () => {
      for (const [n, launch] of launches.entries()) await check(n, launch)
      const executions = launches.map((launch): Timed => ({ launches: mostVendorLaunches, launch }))
      this.contestants.push({ name, role, form: 'launches', executions })
    })
  }

  /** Of all contestants. After each round something else may have its turn; rounds before 0 do not count. */
  async times(effort: Effort, afterRound?: (round: number) => Promise<void>): Promise<Timing[]> {
    const samples = await this.samples(this.contestants, effort, afterRound)
    return this.contestants.map(({ name, role, form }, n) => ({
      name,
      role,
      form,
      ...quantityOf(samples[n]),
    }))
  }

  /**
   * Microseconds of each, round by round. An execution is repeated behind its gate and the mean counts, as one step of a decoding
   * loop follows the other: to start work on eight streams and to tell the time takes a device some tens of microseconds.
   */
  async samples(
    contestants: readonly Turns[],
    effort: Effort,
    afterRound: (round: number) => Promise<void> = () => Promise.resolve(),
  ): Promise<number[][]> {
    const { seconds, leastRounds, mostRounds } = stageOptions.isMeasuring ? effort : justOnce
    stageOptions.onProgress(`${contestants.length} in turns`)
    const samples = contestants.map((): number[] => [])
    const random = randomOrder(contestants.length + 7)
    let turn = 0
    const { repeats } = this
    const repeated = ({ executions, form }: Turns): Timed => {
      const first = turn++
      if (form === 'graph') return executions[first % executions.length]
      return {
        launches: repeats * executions[0].launches,
        launch: () => {
          for (let n = 0; n < repeats; n++) executions[(first * repeats + n) % executions.length].launch()
        },
      }
    }
    const start = performance.now()
    const isOver = (round: number): boolean =>
      round >= mostRounds || (round >= leastRounds && performance.now() - start > 1000 * seconds)
    // The first two rounds do not count.
    for (let round = -2; !isOver(round); round++) {
      const order = random(contestants.length)
      const laps = await this.#gate.time(order.map((n) => repeated(contestants[n])))
      const times = laps.map(({ time }) => time / 1e3 / repeats)
      if (round >= 0) order.forEach((n, place) => samples[n].push(times[place]))
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
