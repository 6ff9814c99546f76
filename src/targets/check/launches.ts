/**
 * Validates the launches of the checker, compiles their kernels, binds their arguments, and enqueues them on the checking
 * machine.
 */
import { clusterOf } from '../../ir/clusters.ts'
import { round } from '../../ir/dtype.ts'
import { paramName } from '../../ir/ops/index.ts'
import { printBuffer, printParams, printShape } from '../../ir/passes/prints.ts'
import type { Site } from '../../ir/site.ts'
import type { Kernel, Meta, Param, Params } from '../../lang/kernel.ts'
import {
  argumentOf,
  expectArguments,
  expectDistinct,
  expectLaunchRanks,
  expectSignallers,
  expectStream,
  gridOf,
  streamNumber,
  wrongGroup,
  type Handle,
} from '../../world/arguments.ts'
import { inWorld, rankName, type Members } from '../../world/members.ts'
import { doesNotFit } from '../../world/residency.ts'
import {
  WorldError,
  type LaunchArguments,
  type LaunchOptions,
  type SymmetricFlags,
} from '../../world/world.ts'
import type { Code } from './code.ts'
import { StopRun } from './findings.ts'
import type { FlagSet, FlagView } from './flags.ts'
import type { Launch as Running } from './launch.ts'
import type { Machine } from './machine.ts'
import { rowMajor, type Allocation, type Buffer } from './memory.ts'
import { mostAtOnce } from './order.ts'
import { expectOwnEpochs } from './ownEpochs.ts'
import { compileAt, type Form } from './stage.ts'
import type { Streams } from './streams.ts'
import type { TensorView } from './views.ts'

/** The functions of a world that the code for launches calls. */
export interface Tensors {
  readonly everyRank: readonly number[]
  wrongHandle(handle: Handle): string | undefined
  /** The group on which a launch runs. */
  membersOf(options: Pick<LaunchOptions, 'group'>): Members
  expectRank(rank: number): void
  stored(handle: Handle): Allocation | FlagSet
  /** Allocates memory on every rank. */
  buffers(name: string, shape: readonly number[]): Buffer[]
}

const mostPrograms = 1 << 16

/** The number of programs of a launch with `grid: 'resident'` if the residency is unlimited. */
export const defaultResidency = 2

const isFlagSet = (value: unknown): value is SymmetricFlags =>
  typeof value === 'object' && value !== null && (value as Handle).kind === 'flags'

/** All elements of a rank's copy of a tensor. */
const wholeOf = (allocation: Allocation, rank: number): TensorView => ({
  ...{ allocation, rank, offset: 0 },
  shape: allocation.shape,
  strides: allocation.strides,
})

export class Launches {
  readonly #machine: Machine
  readonly #tensors: Tensors
  readonly #order: Streams
  readonly #form: Form
  readonly #residency: number | undefined
  /** The print buffers of each rank, after the stage `prints`. */
  readonly #printBuffers = new Map<Kernel, readonly Buffer[]>()
  /** The highest stream number in use, plus one. */
  streams = 1

  constructor(
    machine: Machine,
    tensors: Tensors,
    order: Streams,
    options: { readonly form: Form; readonly residency: number | undefined },
  ) {
    this.#machine = machine
    this.#tensors = tensors
    this.#order = order
    this.#form = options.form
    this.#residency = options.residency
  }

  /** Validates a launch and enqueues it on its ranks. */
  add<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void {
    const members = this.#tensors.membersOf(options)
    const everyRank = members ? [...members.keys()] : this.#tensors.everyRank
    expectLaunchRanks(options.ranks, members, (rank) => this.#tensors.expectRank(rank))
    const wrong = (handle: Handle): string | undefined =>
      this.#tensors.wrongHandle(handle) ?? wrongGroup(handle, members)
    expectArguments(kernel as unknown as Kernel, args, everyRank, wrong)
    const code = compileAt(this.#form, kernel, args, options.meta as Meta | undefined, everyRank.length)
    const flags = Object.entries(args as Record<string, unknown>).filter(([, value]) => isFlagSet(value))
    expectSignallers(code.ir, code.signals, Object.fromEntries(flags) as Record<string, SymmetricFlags>)
    expectStream(options.stream)
    const stream = streamNumber(options.stream)
    this.streams = Math.max(this.streams, stream + 1)
    for (const place of options.ranks ?? everyRank) {
      const rank = inWorld(members, place)
      const grid = gridOf(options.grid, place, this.#residency ?? defaultResidency, clusterOf(code.ir))
      if (grid > mostPrograms)
        throw new WorldError(
          `${kernel.name}: the grid has ${grid} programs, but the checker runs at most ${mostPrograms} per rank: check a smaller grid`,
        )
      const after = this.#order.tail(stream, rank)
      if (code.needsResidency)
        this.#expectResident(kernel.name, code.needsResidency.site, grid, rank, members, after)
      const values: Readonly<Record<string, unknown>> = Object.fromEntries(
        Object.entries(kernel.params).map(([name, param]) => [
          name,
          this.#bind(param, argumentOf(args[name], place) as number | Handle, rank),
        ]),
      )
      expectOwnEpochs(this.#machine, { kernel: kernel.name, code, args: values, stream }, rank, after)
      expectDistinct(
        kernel.name,
        code.writes,
        Object.entries(values).map(([name, value]) => [name, (value as Partial<TensorView>).allocation]),
      )
      this.#machine.enqueue({
        ...{ kernel: kernel.name, code, rank, members, stream, grid, after },
        args: { ...values, ...this.#printedBy(kernel as unknown as Kernel, code, rank) },
      })
      this.#order.await(stream, rank, [])
    }
  }

  #expectResident(
    kernel: string,
    site: Site | undefined,
    grid: number,
    rank: number,
    members: Members,
    after: readonly Running[],
  ): void {
    if (this.#residency === undefined) return
    const beside = this.#machine.beside(rank, after).filter((launch) => launch.code.needsResidency)
    const running = mostAtOnce(beside, (launch) => launch.grid)
    if (grid + running <= this.#residency) return
    throw new StopRun({
      kind: 'residency',
      kernel,
      message: doesNotFit(grid, this.#residency, rankName(rank, members), running),
      parties: [{ who: rankName(rank, members), what: 'may wait here', site }],
    })
  }

  #bind(param: Param, value: number | Handle, rank: number): unknown {
    if (typeof value === 'number') return param.kind === 'scalar' ? round(param.dtype, value) : value
    const storage = this.#tensors.stored(value)
    if (value.kind === 'flags') return { flags: storage as FlagSet, rank, index: 0 } satisfies FlagView
    return wholeOf(storage as Allocation, rank)
  }

  /**
   * The arguments for the print-buffer parameters that the compiler stage `prints` has added to the kernel. In the
   * checker, no code reads print buffers, because the printed lines of a scenario are those of its kernels as written.
   */
  #printedBy(kernel: Kernel, { ir }: Code, rank: number): Readonly<Record<string, TensorView>> {
    const names = new Set(ir.body.params.map(paramName))
    const added = printParams.filter(({ name }) => names.has(name) && !Object.hasOwn(kernel.params, name))
    if (added.length === 0) return {}
    let buffers = this.#printBuffers.get(kernel)
    if (!buffers) {
      this.#printBuffers.set(kernel, (buffers = this.#tensors.buffers(printParams[0].name, printShape)))
      for (const buffer of buffers)
        for (const count of [printBuffer.used, printBuffer.dropped])
          this.#machine.memory.write(this.#machine.host, buffer, count, 0)
    }
    const shape = { shape: printShape, strides: rowMajor(printShape), buffers }
    return Object.fromEntries(added.map((param) => [param.name, wholeOf({ ...param, ...shape }, rank)]))
  }
}
