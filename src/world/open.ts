/**
 * The function `openWorld` opens a world on a target, which the caller names. No other file knows which targets can run
 * kernels.
 *
 * A world on the checker runs one schedule, chosen by its seed. Findings of the checker are thrown when the host next
 * waits for the ranks (`synchronize`, `barrier`, `read`, `close`). Results after a race are meaningless, so the world
 * does not return them. To try many schedules, pass a scenario to `explore` or to `arke check`.
 */
import type { Kernel, Meta, Params } from '../lang/kernel.ts'
import { formatFinding, StopRun, type Finding } from '../targets/check/findings.ts'
import { RandomScheduler } from '../targets/check/scheduler.ts'
import { CheckWorld } from '../targets/check/world.ts'
import { reportPrint, type OnPrint } from './prints.ts'
import type { Stall } from './stops.ts'
import {
  expectRanks,
  expectResidency,
  mostRanks,
  misuse,
  type Launch,
  type LaunchArguments,
  type LaunchOptions,
  type World,
} from './world.ts'

export { mostRanks }

export interface OpenOptions {
  /** The target: `check` (the default), `wasm` or `native` on the CPU, or `cuda` on NVIDIA GPUs. */
  readonly target?: string
  /** The number of ranks of the world, 1 to 64. */
  readonly ranks: number
  /**
   * The number of programs that the checker lets be resident on a rank at the same time. If the residency is undefined,
   * there is no limit.
   */
  readonly residency?: number
  /** The seed of the schedule, for targets that choose a schedule, such as the checker. */
  readonly seed?: number
  /**
   * The number of heap bytes per rank. By default, the heap is as large as the address space allows, at most 1 GiB.
   * Memory pages of the heap that are never touched cost nothing.
   */
  readonly heap?: number
  /**
   * The number of programs per rank that run at the same time, each on its own thread. The default number of workers is
   * the rank's share of the cores.
   */
  readonly workers?: number
  /**
   * The watchdog's limit in milliseconds: the world is stopped if launches are pending and no program makes progress
   * for this long. The default timeout on CPU ranks is 10 s if all programs wait, one minute if a program is in a
   * `while` loop, and no limit if a program computes. The default timeout on a GPU is one minute.
   */
  readonly timeout?: number
  /**
   * A callback for CPU ranks, which is called once when all programs have waited for 3 s. The default callback prints
   * the field `message` of its argument on stderr.
   */
  readonly onStall?: (stall: Stall) => void
  /**
   * A callback for each line that `t.print` prints, called when the host synchronises. The default callback prints the
   * field `message` of its argument on stderr.
   */
  readonly onPrint?: OnPrint
  /** True to record launches, programs, waits and remote copies for `World.timeline`. */
  readonly record?: boolean
}

type Open = (options: OpenOptions) => World | Promise<World>

/** The targets that can run kernels. */
export const worlds: Readonly<Record<string, Open>> = {
  check: ({ ranks, residency, onPrint = reportPrint, seed = 1 }) =>
    new ReportingWorld({ ranks, residency, onPrint, scheduler: new RandomScheduler(seed) }),
  // Targets other than the checker are loaded on demand, so that checking kernels does not pay for loading them.
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
  if (typeof options !== 'object' || options === null)
    throw misuse('openWorld needs options: openWorld({ ranks: 2 }) opens a world of two ranks')
  const { target = 'check', ranks } = options
  const open = Object.hasOwn(worlds, target) ? worlds[target] : undefined
  if (!open)
    throw misuse(
      `there is no target ${JSON.stringify(target)}; choose one of ${Object.keys(worlds).join(', ')}`,
    )
  expectRanks(ranks)
  expectResidency(options.residency)
  return open(options)
}

/** Findings of the checker, which are thrown as an error when the host waits. */
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
