/**
 * `openWorld`: a world on a target, by name. The one place that knows which targets can run kernels.
 *
 * A world on the checker is one schedule, chosen by its seed. What the checker finds is thrown when the host next waits for
 * the ranks (`synchronize`, `barrier`, `read`, `close`): results after a race mean nothing, so they are not handed out.
 * To try many schedules, give a scenario to `explore` or to `arke check`.
 */
import type { Kernel, Meta, Params } from '../lang/kernel.ts'
import { formatFinding, StopRun, type Finding } from '../targets/check/findings.ts'
import { RandomScheduler } from '../targets/check/scheduler.ts'
import { CheckWorld } from '../targets/check/world.ts'
import type { Stall } from './stops.ts'
import {
  mostRanks,
  WorldError,
  type Launch,
  type LaunchArguments,
  type LaunchOptions,
  type World,
} from './world.ts'

export { mostRanks }

export interface OpenOptions {
  /** `check` by default; `wasm` and `native` run on the processor, `cuda` on NVIDIA GPUs. */
  readonly target?: string
  /** How many ranks, 1 to 64. */
  readonly ranks: number
  /** On the checker: programs that run at once on a rank; undefined is no limit. */
  readonly residency?: number
  /** Of the schedule, where the target chooses one. */
  readonly seed?: number
  /** Of a rank, in bytes. By default what fits the addresses, a gibibyte at most; pages that nobody touches cost nothing. */
  readonly heap?: number
  /** Programs of a rank that run at once, each on a thread of its own; by default the rank's share of the cores. */
  readonly workers?: number
  /**
   * How long nothing may move while launches are pending before the world is stopped, in milliseconds. By default, on CPU ranks: 10 s
   * where all programs wait, a minute where a program is in a `while` loop, and no limit where one computes. On a GPU: a minute.
   */
  readonly timeout?: number
  /** On CPU ranks: called once when all programs have waited for 3 s. By default it prints `message` on stderr. */
  readonly onStall?: (stall: Stall) => void
  /** Record launches, programs, waits and remote copies: see `World.timeline`. */
  readonly record?: boolean
}

type Open = (options: OpenOptions) => World | Promise<World>

/** Every target that can run kernels. */
export const worlds: Readonly<Record<string, Open>> = {
  check: ({ ranks, residency, seed = 1 }) =>
    new ReportingWorld({ ranks, residency, scheduler: new RandomScheduler(seed) }),
  // Loaded when they are asked for: whoever only checks kernels does not pay for them.
  wasm: async (options) => {
    await startThreads(options)
    return (await import('../targets/wasm/world.ts')).openWasmWorld(options)
  },
  native: async (options) => {
    await startThreads(options)
    return (await import('../targets/native/world.ts')).openNativeWorld(options)
  },
  cuda: async (options) => (await import('../targets/cuda/open.ts')).openCudaWorld(options),
}

async function startThreads({ ranks, workers }: OpenOptions): Promise<void> {
  const start = await import('../targets/cpu/start.ts')
  start.startThreads(ranks, workers)
}

export async function openWorld(options: OpenOptions): Promise<World> {
  const { target = 'check', ranks } = options
  const open = Object.hasOwn(worlds, target) ? worlds[target] : undefined
  if (!open)
    throw new WorldError(
      `there is no target ${JSON.stringify(target)}; there is ${Object.keys(worlds).join(', ')}`,
    )
  if (!Number.isInteger(ranks) || ranks < 1 || ranks > mostRanks)
    throw new WorldError(`a world of ${ranks} ranks: it has 1 to ${mostRanks}`)
  return open(options)
}

/** What the checker found, thrown where the host waits. */
export class FindingsError extends Error {
  override readonly name = 'FindingsError'
  readonly findings: readonly Finding[]
  constructor(findings: readonly Finding[]) {
    super(findings.map(formatFinding).join('\n'))
    this.findings = findings
  }
}

class ReportingWorld extends CheckWorld {
  #stopped: Finding | undefined

  override launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void {
    try {
      super.launch(kernel, args, options)
    } catch (error) {
      this.#stop(error)
    }
  }

  override launchTogether(launches: readonly Launch[]): void {
    try {
      super.launchTogether(launches)
    } catch (error) {
      this.#stop(error)
    }
  }

  protected override async reach(...launches: Parameters<CheckWorld['reach']>): Promise<void> {
    try {
      if (!this.#stopped) await super.reach(...launches)
    } catch (error) {
      this.#stop(error)
    }
    this.#expectNothingFound()
  }

  #stop(error: unknown): void {
    if (!(error instanceof StopRun)) throw error
    this.#stopped = error.finding
    this.#expectNothingFound()
  }

  #expectNothingFound(): void {
    const found = [...this.findings, ...(this.#stopped ? [this.#stopped] : [])]
    if (found.length > 0) throw new FindingsError(found)
  }
}
