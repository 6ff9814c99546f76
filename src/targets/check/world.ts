/**
 * A world on the checking machine. Launches are queued and run when the host waits for them; what the machine finds is collected
 * in `findings`. One world is one run: to explore schedules, a scenario is run again on a new one (explore.ts).
 */
import { round, type StorageDType } from '../../ir/dtype.ts'
import type { KernelIR } from '../../ir/node.ts'
import { Site } from '../../ir/site.ts'
import { lower } from '../../ir/stages.ts'
import type { Kernel, Meta, Params } from '../../lang/kernel.ts'
import {
  WorldError,
  type AllocationOptions,
  type Allocator,
  type LaunchArguments,
  type LaunchOptions,
  type PerRank,
  type SymmetricFlags,
  type SymmetricTensor,
  type World,
} from '../../world/world.ts'
import { compile, type Code } from './code.ts'
import { StopRun, type Finding } from './findings.ts'
import type { FlagSet, FlagView } from './flags.ts'
import { Machine, type Scheduler } from './machine.ts'
import { Seen } from './scheduler.ts'
import { Buffer, rowMajor, type Allocation } from './memory.ts'
import type { TensorView } from './views.ts'

export interface CheckWorldOptions {
  readonly ranks: number
  /** Programs that run at once on a rank; undefined is no limit. */
  readonly residency?: number
  /** Which form of the kernels is run. */
  readonly stage?: 'recorded' | 'lowered'
  readonly scheduler: Scheduler
}

/** Programs of a launch with `grid: 'resident'` where nothing limits them. */
const defaultResidency = 2

interface Heap {
  readonly handle: SymmetricTensor | SymmetricFlags
  readonly storage: Allocation | FlagSet
}

/** What one rank asked for, to be compared with the others. */
interface Request {
  readonly text: string
  readonly site: Site
}

const count = (shape: readonly number[]): number => shape.reduce((n, extent) => n * extent, 1)

export class CheckWorld implements World {
  readonly target = 'check'
  readonly ranks: number
  readonly machine: Machine
  readonly #residency: number | undefined
  readonly #stage: 'recorded' | 'lowered'
  readonly #heaps: Heap[] = []
  readonly #storage = new Map<SymmetricTensor | SymmetricFlags, Allocation | FlagSet>()
  readonly #requests: Request[][]
  #stopped: StopRun | Seen | undefined

  constructor(options: CheckWorldOptions) {
    this.ranks = options.ranks
    this.#residency = options.residency
    this.#stage = options.stage ?? 'recorded'
    this.machine = new Machine(options.scheduler, { ranks: options.ranks })
    this.#requests = Array.from({ length: options.ranks }, () => [])
  }

  get findings(): Finding[] {
    return [...this.machine.findings.values()]
  }

  // Allocation

  empty<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    options: AllocationOptions = {},
  ): SymmetricTensor<D> {
    return this.#tensor(this.#everyRank(), dtype, shape, undefined, options)
  }
  full<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    value: number,
    options: AllocationOptions = {},
  ): SymmetricTensor<D> {
    return this.#tensor(this.#everyRank(), dtype, shape, new Float64Array(count(shape)).fill(value), options)
  }
  zeros<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    options: AllocationOptions = {},
  ): SymmetricTensor<D> {
    return this.full(dtype, shape, 0, options)
  }
  from<D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    contents: PerRank<ArrayLike<number>>,
    options: AllocationOptions = {},
  ): SymmetricTensor<D> {
    return this.#tensor(this.#everyRank(), dtype, shape, contents, options)
  }
  flags(
    shape: readonly number[] = [],
    options: AllocationOptions & { readonly arrivals?: number } = {},
  ): SymmetricFlags {
    return this.#flags(this.#everyRank(), shape, options)
  }

  on(rank: number): Allocator {
    this.#expectRank(rank)
    const only = [rank]
    return {
      empty: (dtype, shape, options = {}) => this.#tensor(only, dtype, shape, undefined, options),
      full: (dtype, shape, value, options = {}) =>
        this.#tensor(only, dtype, shape, new Float64Array(count(shape)).fill(value), options),
      zeros: (dtype, shape, options = {}) =>
        this.#tensor(only, dtype, shape, new Float64Array(count(shape)), options),
      from: (dtype, shape, contents, options = {}) => this.#tensor(only, dtype, shape, contents, options),
      flags: (shape = [], options = {}) => this.#flags(only, shape, options),
    }
  }

  #everyRank(): number[] {
    return Array.from({ length: this.ranks }, (_, rank) => rank)
  }

  #expectRank(rank: number): void {
    if (!Number.isInteger(rank) || rank < 0 || rank >= this.ranks)
      throw new WorldError(`there is no rank ${rank} in a world of ${this.ranks}`)
  }

  /** The n-th allocation of every rank is the same one. */
  #heap(ranks: readonly number[], text: string, make: (name: string) => Heap): Heap {
    const site = Site.here()
    let heap: Heap | undefined
    for (const rank of ranks) {
      const at = this.#requests[rank].push({ text, site }) - 1
      heap = this.#heaps[at] ??= make(`x${at}`)
    }
    // What one rank fills must be what all of them allocated.
    this.#expectSymmetric('so far')
    return heap!
  }

  #tensor<D extends StorageDType>(
    ranks: readonly number[],
    dtype: D,
    shape: readonly number[],
    contents: PerRank<ArrayLike<number>> | undefined,
    options: AllocationOptions,
  ): SymmetricTensor<D> {
    if (
      shape.length < 1 ||
      shape.length > 4 ||
      shape.some((extent) => !Number.isInteger(extent) || extent < 0)
    )
      throw new WorldError(`a tensor of shape [${shape.join(', ')}]: one to four extents, whole numbers`)
    const { handle } = this.#heap(ranks, `${dtype}[${shape.join(', ')}]`, (fallback) => {
      const name = options.name ?? fallback
      const buffers = this.#everyRank().map(
        (rank) => new Buffer(name, `${fallback}@${rank}`, rank, shape, count(shape)),
      )
      const made: SymmetricTensor<D> = { kind: 'tensor', name, dtype, shape: [...shape] }
      const storage: Allocation = { name, dtype, shape: [...shape], strides: rowMajor(shape), buffers }
      this.#storage.set(made, storage)
      return { handle: made, storage }
    })
    const tensor = handle as SymmetricTensor<D>
    if (contents)
      for (const rank of ranks)
        this.#fill(tensor, rank, typeof contents === 'function' ? contents(rank) : contents)
    return tensor
  }

  #flags(
    ranks: readonly number[],
    shape: readonly number[],
    options: AllocationOptions & { readonly arrivals?: number },
  ): SymmetricFlags {
    const arrivals = options.arrivals ?? 1
    const { handle } = this.#heap(ranks, `flags[${shape.join(', ')}] of ${arrivals} arrivals`, (fallback) => {
      const name = options.name ?? fallback
      const buffers = this.#everyRank().map(
        (rank) => new Buffer(name, `${fallback}@${rank}`, rank, shape, count(shape)),
      )
      for (const buffer of buffers)
        for (let i = 0; i < buffer.data.length; i++)
          this.machine.memory.write(this.machine.host, buffer, i, 0)
      const made: SymmetricFlags = { kind: 'flags', name, shape: [...shape], arrivals }
      const zeros = (): number[] => this.#everyRank().map(() => 0)
      const storage: FlagSet = {
        name,
        shape: [...shape],
        arrivals,
        buffers,
        signalled: zeros(),
        waited: zeros(),
      }
      this.#storage.set(made, storage)
      return { handle: made, storage }
    })
    return handle as SymmetricFlags
  }

  #fill(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void {
    const { buffers, dtype, shape } = this.#allocation(tensor)
    if (contents.length !== count(shape))
      throw new WorldError(
        `${tensor.name} is [${shape.join(', ')}], ${count(shape)} elements, but ${contents.length} were given for rank ${rank}`,
      )
    for (let i = 0; i < contents.length; i++)
      this.machine.memory.write(this.machine.host, buffers[rank], i, round(dtype, contents[i]))
  }

  #allocation(tensor: SymmetricTensor): Allocation {
    const storage = this.#storage.get(tensor)
    if (!storage) throw new WorldError(`${tensor.name} was not allocated on this world`)
    return storage as Allocation
  }

  /** 'so far': a rank may have allocated less than the others yet. */
  #expectSymmetric(when: 'so far' | 'now' = 'now'): void {
    const texts = this.#requests.map((requests) => requests.map((request) => request.text))
    const longest = Math.max(...texts.map((list) => list.length))
    for (let at = 0; at < longest; at++) {
      const byText = new Map<string, number[]>()
      texts.forEach((list, rank) => {
        if (list[at] === undefined && when === 'so far') return
        const text = list[at] ?? 'nothing'
        byText.set(text, [...(byText.get(text) ?? []), rank])
      })
      if (byText.size < 2) continue
      const parties = [...byText].map(([text, ranks]) => ({
        who: `${ranks.length === 1 ? 'rank' : 'ranks'} ${ranks.join(', ')}`,
        what: `${ranks.length === 1 ? 'allocates' : 'allocate'} ${text}`,
        site: this.#requests[ranks[0]][at]?.site,
      }))
      throw new StopRun({
        kind: 'asymmetric-allocation',
        kernel: 'the host program',
        message: `allocation ${at} differs between ranks: ${parties.map(({ who, what }) => `${who} ${what}`).join('; ')}. Every rank must allocate the same, in the same order`,
        parties,
      })
    }
  }

  // Launches

  launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void {
    this.#remember(() => this.#launch(kernel, args, options))
  }

  #launch<P extends Params, M extends Meta>(
    kernel: Kernel<P, M>,
    args: LaunchArguments<P>,
    options: LaunchOptions<M>,
  ): void {
    this.#expectSymmetric()
    const recorded = kernel.record({ world: this.ranks, meta: options.meta as Meta })
    const ir: KernelIR = this.#stage === 'lowered' ? lower(recorded) : recorded
    const code = compile(ir)
    this.#expectArguments(kernel, args)
    const ranks = options.ranks ?? this.#everyRank()
    const stream = options.stream ?? 0
    for (const rank of ranks) {
      this.#expectRank(rank)
      const grid = this.#grid(options.grid, rank)
      if (code.needsResidency) this.#expectResident(kernel.name, code.needsResidency.site, grid, rank, stream)
      const values = Object.fromEntries(
        Object.keys(kernel.params).map((name) => [name, this.#bind(args[name] as never, rank)]),
      )
      this.#expectOwnEpochs(kernel.name, code, values, rank, stream)
      expectDistinct(kernel.name, code, values)
      this.machine.enqueue({
        kernel: kernel.name,
        code,
        rank,
        stream,
        grid,
        args: values,
      })
    }
  }

  /** Launches that may run at the same time do not share a side of a flag set: it has one epoch counter a rank. */
  #expectOwnEpochs(
    kernel: string,
    code: Code,
    args: Readonly<Record<string, unknown>>,
    rank: number,
    stream: number,
  ): void {
    const flagsOf = (names: ReadonlySet<string>, of: Readonly<Record<string, unknown>>): FlagSet[] =>
      [...names].map((name) => (of[name] as FlagView).flags)
    for (const launch of this.machine.unfinished(rank)) {
      if (launch.stream === stream) continue
      for (const side of ['signals', 'waits'] as const) {
        const theirs = flagsOf(launch.code[side], launch.args)
        const shared = flagsOf(code[side], args).find((flags) => theirs.includes(flags))
        if (!shared) continue
        this.machine.report({
          kind: 'flag-reuse',
          kernel,
          message: `${launch.kernel} (stream ${launch.stream}) and ${kernel} (stream ${stream}) may run at once on rank ${rank}, and both ${side === 'signals' ? 'signal' : 'wait for'} ${shared.name}, whose epochs are counted once a rank: give each launch flags of its own`,
          parties: [],
        })
      }
    }
  }

  /** What ended the run ends it for good, even if the host program catches the error. */
  #remember<T>(act: () => T): T {
    if (this.#stopped) throw this.#stopped
    try {
      return act()
    } catch (error) {
      if (error instanceof StopRun || error instanceof Seen) this.#stopped = error
      throw error
    }
  }

  #grid(grid: PerRank<number> | 'resident', rank: number): number {
    const programs =
      grid === 'resident'
        ? (this.#residency ?? defaultResidency)
        : typeof grid === 'function'
          ? grid(rank)
          : grid
    if (!Number.isInteger(programs) || programs < 0)
      throw new WorldError(`a grid of ${programs} programs on rank ${rank}`)
    return programs
  }

  #expectResident(kernel: string, site: Site | undefined, grid: number, rank: number, stream: number): void {
    if (this.#residency === undefined) return
    // Streams run beside each other; within one, launches follow each other.
    const beside = new Map<number, number>()
    for (const launch of this.machine.unfinished(rank))
      if (launch.code.needsResidency && launch.stream !== stream)
        beside.set(launch.stream, Math.max(beside.get(launch.stream) ?? 0, launch.grid))
    const running = [...beside.values()].reduce((sum, programs) => sum + programs, 0)
    if (grid + running <= this.#residency) return
    const others = running > 0 ? ` beside ${running} that may be waiting` : ''
    throw new StopRun({
      kind: 'residency',
      kernel,
      message: `${grid} programs${others} do not fit: ${this.#residency} run at once on rank ${rank}, and a program that waits for one that has not started waits forever. Launch at most ${Math.max(this.#residency - running, 0)}, or grid: 'resident'`,
      parties: [{ who: `rank ${rank}`, what: 'may wait here', site }],
    })
  }

  #expectArguments(kernel: Kernel, args: Readonly<Record<string, unknown>>): void {
    for (const [name, param] of Object.entries(kernel.params)) {
      const given = args[name]
      const wrong = (what: string): never => {
        throw new WorldError(`${kernel.name}: argument ${name} ${what}`)
      }
      if (given === undefined) wrong('is missing')
      for (const rank of this.#everyRank()) {
        const value = typeof given === 'function' ? (given as (rank: number) => unknown)(rank) : given
        if (param.kind === 'scalar') {
          if (typeof value !== 'number') wrong(`must be a number of dtype ${param.dtype}`)
          continue
        }
        const handle = value as SymmetricTensor | SymmetricFlags
        if (handle?.kind !== param.kind) wrong(`must be ${param.kind === 'tensor' ? 'a tensor' : 'flags'}`)
        if (!this.#storage.has(handle)) wrong('was not allocated on this world')
        if (handle.shape.length !== param.rank)
          wrong(`has ${handle.shape.length} axes, the kernel wants ${param.rank}`)
        if (handle.kind === 'tensor' && param.kind === 'tensor' && handle.dtype !== param.dtype)
          wrong(`holds ${handle.dtype}, the kernel wants ${param.dtype}`)
        if (handle.kind === 'flags' && param.kind === 'flags' && handle.arrivals !== param.arrivals)
          wrong(`counts ${handle.arrivals} arrivals an epoch, the kernel wants ${param.arrivals}`)
      }
    }
    for (const name of Object.keys(args))
      if (!Object.hasOwn(kernel.params, name)) throw new WorldError(`${kernel.name} has no argument ${name}`)
  }

  #bind(given: PerRank<SymmetricTensor> | SymmetricFlags | PerRank<number>, rank: number): unknown {
    const value = typeof given === 'function' ? given(rank) : given
    if (typeof value === 'number') return value
    const storage = this.#storage.get(value)!
    if (value.kind === 'flags') return { flags: storage as FlagSet, rank, index: 0 } satisfies FlagView
    const allocation = storage as Allocation
    return {
      allocation,
      rank,
      offset: 0,
      shape: allocation.shape,
      strides: allocation.strides,
    } satisfies TensorView
  }

  // Waiting and reading

  async synchronize(): Promise<void> {
    this.#remember(() => {
      this.#expectSymmetric()
      this.machine.run()
    })
    return Promise.resolve()
  }
  async barrier(): Promise<void> {
    return this.synchronize()
  }
  async read(tensor: SymmetricTensor, rank: number): Promise<Float64Array> {
    this.#expectRank(rank)
    await this.synchronize()
    return this.#allocation(tensor).buffers[rank].data.slice()
  }
  write(tensor: SymmetricTensor, rank: number, contents: ArrayLike<number>): void {
    this.#expectRank(rank)
    this.#fill(tensor, rank, contents)
  }
  async close(): Promise<void> {
    await this.synchronize()
  }
}

/** Targets take two tensor parameters for two tensors. */
function expectDistinct(kernel: string, code: Code, args: Readonly<Record<string, unknown>>): void {
  const seen = new Map<Allocation, string>()
  for (const [name, value] of Object.entries(args)) {
    const allocation = (value as Partial<TensorView>).allocation
    if (!allocation) continue
    const other = seen.get(allocation)
    if (other && (code.writes.has(name) || code.writes.has(other)))
      throw new WorldError(
        `${kernel}: ${other} and ${name} are the same tensor, and the kernel writes it: pass it once`,
      )
    seen.set(allocation, name)
  }
}
