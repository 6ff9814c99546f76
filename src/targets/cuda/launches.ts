/**
 * Launches of a cuda world. What was asked for on a rank is checked once and becomes a part, laid out for the driver; a launch that
 * asks for the same tensors, grid, meta-parameters and stream takes it, whatever its numbers, and costs one call of the driver.
 */
import type { KernelIR } from '../../ir/node.ts'
import type { Kernel, Meta } from '../../lang/kernel.ts'
import {
  argumentOf,
  expectArguments,
  expectDistinct,
  expectStream,
  gridOf,
  streamNumber,
  type Handle,
} from '../../world/arguments.ts'
import { givenTo } from '../../world/launchTraffic.ts'
import { usesOf } from '../../world/uses.ts'
import { WorldError, type Launch, type LaunchOptions, type SymmetricFlags } from '../../world/world.ts'
import {
  kernelArgument,
  type HeapFlags,
  type HeapTensor,
  type LaunchArgument,
  type RankMemory,
} from './arguments.ts'
import { executableOf, type Executable } from './executables.ts'
import type { Machine } from './machine.ts'
import type { Part } from './queue.ts'

/** What launches ask of the world's tensors. */
export interface Tensors {
  readonly everyRank: readonly number[]
  /** What is wrong with a handle. */
  wrongHandle(handle: Handle): string | undefined
  expectLocal(rank: number): void
  /** Where it lies: the same object for the same memory. */
  stored(handle: Handle): HeapTensor | HeapFlags
}

interface Scalar {
  readonly name: string
  readonly position: number
}

/** A part, and what was asked for on its rank. */
interface Asked {
  readonly part: Part
  readonly stream: number
  readonly grid: number | 'resident'
  readonly meta: Meta | undefined
  readonly handles: readonly (readonly [name: string, handle: unknown])[]
  readonly scalars: readonly Scalar[]
  readonly numbers: number[]
  readonly memory: RankMemory
}

/** What was launched last, on all ranks with the same arguments: a launch that asks for the same again looks nothing up. */
interface Last {
  readonly kernel: Kernel
  readonly stream: LaunchOptions['stream']
  readonly grid: number | 'resident'
  readonly meta: Meta | undefined
  readonly handles: Asked['handles']
  readonly scalars: readonly Scalar[]
  readonly numbers: readonly number[]
  readonly parts: readonly Part[]
}

/** Of a kernel on a rank; those that were not asked for for longest are forgotten. */
const mostAsked = 16

export class Launches {
  readonly #machine: Machine
  readonly #tensors: Tensors
  /** By kernel and rank, the one that was asked for last in front. */
  readonly #asked = new Map<Kernel, Asked[][]>()
  /** Tensors whose words carry epochs: those are reset with flags. */
  readonly #carrying = new WeakSet<object>()
  #last: Last | undefined
  /** One more than the largest number of a stream that was used. */
  streams = 1

  constructor(machine: Machine, tensors: Tensors) {
    this.#machine = machine
    this.#tensors = tensors
  }

  isCarrying(stored: object): boolean {
    return this.#carrying.has(stored)
  }

  /** Some tensor is no longer there: every launch is checked again. */
  forget(): void {
    for (const ofRanks of this.#asked.values()) for (const { part } of ofRanks.flat()) part.launch.close()
    this.#asked.clear()
    this.#last = undefined
  }

  /** One for each rank that has programs to run. */
  parts(kernel: Kernel, args: Launch['args'], options: LaunchOptions): readonly Part[] {
    this.#machine.expectRunning()
    const last = this.#last
    const parts =
      last && isLast(last, kernel, args, options) ? last.parts : this.#parts(kernel, args, options)
    if (this.#machine.recorder && parts.length > 0) {
      const ranks = parts.map(({ queue }) => queue.rank)
      const grids = parts.map(({ grid }) => grid)
      const given = givenTo(parts[0].executable.ir, args, ranks, grids)
      for (const part of parts) part.given = given
    }
    return parts
  }

  #parts(kernel: Kernel, args: Launch['args'], options: LaunchOptions): readonly Part[] {
    this.#last = undefined
    const parts: Part[] = []
    for (const rank of options.ranks ?? this.#tensors.everyRank) {
      const part = this.#part(kernel, args, options, rank)
      if (part.grid > 0) parts.push(part)
    }
    const { stream, grid, ranks } = options
    const meta = options.meta as Meta | undefined
    if (
      ranks ||
      typeof grid === 'function' ||
      Object.values(args).some((given) => typeof given === 'function')
    )
      return parts
    const { handles, scalars, numbers } = this.#asked.get(kernel)![this.#tensors.everyRank[0]][0]
    this.#last = { kernel, stream, grid, meta: meta && { ...meta }, handles, scalars, numbers, parts }
    return parts
  }

  /** Launches that may wait for each other fit their rank together. */
  expectTogether(parts: readonly Part[]): void {
    for (const rank of this.#tensors.everyRank) {
      const here = parts.filter(({ queue }) => queue.rank === rank)
      if (here.length < 2) continue
      const { sms } = this.#machine.place(rank)
      // Programs spread over the multiprocessors; those of which each has one to itself take turns instead.
      const spread = here.reduce((sum, part) => sum + Math.ceil(part.grid / sms) / part.programsPerSm, 0)
      const apart = here.reduce((sum, part) => sum + part.grid, 0)
      if (spread <= 1 || apart <= sms) continue
      const names = here.map(({ kernel, grid }) => `${grid} of ${kernel.name}`).join(' and ')
      throw new WorldError(
        `programs that are launched together do not fit: ${names} on the ${sms} multiprocessors of rank ${rank}. Together at most ${sms} programs always fit`,
      )
    }
  }

  recorded(kernel: Kernel, meta: Meta | undefined): KernelIR {
    return kernel.record({ world: this.#machine.ranks, meta })
  }

  #part(kernel: Kernel, args: Launch['args'], options: LaunchOptions, rank: number): Part {
    const stream = streamNumber(options.stream)
    const grid = typeof options.grid === 'function' ? options.grid(rank) : options.grid
    const meta = options.meta as Meta | undefined
    const asked = this.#known(kernel, args, rank, stream, grid, meta)
    if (!asked) return this.#ask(kernel, args, { ...options, grid }, rank)
    const { scalars, numbers, part } = asked
    for (let n = 0; n < scalars.length; n++) {
      const { name, position } = scalars[n]
      const value = argumentOf(args[name], rank)
      if (value === numbers[n]) continue
      if (typeof value !== 'number') return this.#ask(kernel, args, { ...options, grid }, rank)
      numbers[n] = value
      const recipe = part.executable.emitted.params[position]
      part.launch.setArgument(position, kernelArgument(recipe, { [name]: value }, asked.memory))
    }
    return part
  }

  #known(
    kernel: Kernel,
    args: Launch['args'],
    rank: number,
    stream: number,
    grid: number | 'resident',
    meta: Meta | undefined,
  ): Asked | undefined {
    const ofRank = this.#asked.get(kernel)?.[rank]
    if (!ofRank) return undefined
    for (let n = 0; n < ofRank.length; n++) {
      const asked = ofRank[n]
      if (asked.stream !== stream || asked.grid !== grid || !isSame(asked.meta, meta)) continue
      if (!hasHandles(asked, args, rank)) continue
      if (n > 0) {
        ofRank.splice(n, 1)
        ofRank.unshift(asked)
      }
      return asked
    }
    return undefined
  }

  #ask(
    kernel: Kernel,
    args: Launch['args'],
    options: LaunchOptions & { readonly grid: number | 'resident' },
    rank: number,
  ): Part {
    const [machine, tensors] = [this.#machine, this.#tensors]
    const meta = options.meta as Meta | undefined
    const ir = this.recorded(kernel, meta)
    if (options.ranks) tensors.expectLocal(rank)
    expectArguments(kernel, args, [rank], (handle) => tensors.wrongHandle(handle))
    expectStream(options.stream)
    const given = Object.keys(kernel.params).map((name) => [name, argumentOf(args[name], rank)] as const)
    const values = Object.fromEntries(given.map(([name, value]) => [name, this.#stored(value)]))
    expectDistinct(
      kernel.name,
      usesOf(ir).writes,
      Object.entries(values).map(([name, value]) => [name, typeof value === 'object' ? value : undefined]),
    )
    const stream = streamNumber(options.stream)
    this.streams = Math.max(this.streams, stream + 1)
    const queue = machine.queue(rank, stream)
    const { device } = machine.place(rank)
    if (machine.facts.words)
      for (const name of Object.keys(ir.carried ?? {})) this.#carrying.add(values[name] as object)
    const executable = executableOf(ir, values, machine.facts)
    const { block, sharedBytes, params } = executable.emitted
    const loaded = machine.kernel(executable, rank)
    const programsPerSm = loaded.programsPerSm({ block, sharedBytes })
    const resident = machine.resident(programsPerSm, rank)
    const grid = gridOf(options.grid, rank, resident)
    if (executable.waiting) expectResident(kernel, executable, rank, grid, resident)
    const { heap, stride } = machine.placement
    const counters = machine.counters(queue, executable)
    const log = machine.recorder?.address(queue)
    const memory = { device, rank, ranks: machine.ranks, heap, stride, counters, control: 0n, log }
    // One program is resident or it is not.
    const cooperative = executable.waiting !== undefined && grid > 1
    const launch = loaded.prepare(
      { grid, block, sharedBytes, cooperative },
      params.map((param) => kernelArgument(param, values, memory)),
    )
    const memoryOf = (name: string): object => values[name] as HeapTensor
    const early = params.flatMap((param) =>
      param.kind === 'settled' ? param.groups.map((group) => group.map(memoryOf)) : [],
    )
    const part: Part = {
      queue,
      kernel,
      meta,
      executable,
      grid,
      programsPerSm,
      flags: Object.fromEntries(
        given.filter((entry): entry is readonly [string, SymmetricFlags] => isFlags(entry[1])),
      ),
      launch,
      controlAt: params.findIndex(({ kind }) => kind === 'control'),
      early,
      writes: executable.emitted.writes.map(memoryOf),
      writesElsewhere: executable.writesElsewhere.map(memoryOf),
      settledAt: params.findIndex(({ kind }) => kind === 'settled'),
      settled: 0,
    }
    const scalars = params.flatMap((param, position) =>
      param.kind === 'scalar' ? [{ name: param.name, position }] : [],
    )
    this.#remember(kernel, rank, {
      part,
      stream,
      grid: options.grid,
      meta: meta && { ...meta },
      handles: given.filter(([, value]) => typeof value !== 'number'),
      scalars,
      numbers: scalars.map(({ name }) => values[name] as number),
      memory,
    })
    return part
  }

  #stored(value: unknown): LaunchArgument {
    return typeof value === 'number' ? value : this.#tensors.stored(value as Handle)
  }

  #remember(kernel: Kernel, rank: number, asked: Asked): void {
    let ofKernel = this.#asked.get(kernel)
    if (!ofKernel) this.#asked.set(kernel, (ofKernel = []))
    const ofRank = (ofKernel[rank] ??= [])
    ofRank.unshift(asked)
    if (ofRank.length > mostAsked) ofRank.pop()!.part.launch.close()
  }
}

function isLast(last: Last, kernel: Kernel, args: Launch['args'], options: LaunchOptions): boolean {
  if (last.kernel !== kernel || last.grid !== options.grid || last.stream !== options.stream) return false
  if (options.ranks !== undefined || !isSame(last.meta, options.meta as Meta | undefined)) return false
  const { handles, scalars, numbers } = last
  for (let n = 0; n < handles.length; n++) if (args[handles[n][0]] !== handles[n][1]) return false
  for (let n = 0; n < scalars.length; n++) if (args[scalars[n].name] !== numbers[n]) return false
  return true
}

function hasHandles({ handles }: Asked, args: Launch['args'], rank: number): boolean {
  for (let n = 0; n < handles.length; n++)
    if (argumentOf(args[handles[n][0]], rank) !== handles[n][1]) return false
  return true
}

const isFlags = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && (value as Handle).kind === 'flags'

function isSame(a: Meta | undefined, b: Meta | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  let [left, right] = [0, 0]
  for (const name in a) {
    if (a[name] !== b[name]) return false
    left++
  }
  for (const _ in b) right++
  return left === right
}

function expectResident(
  kernel: Kernel,
  { waiting }: Executable,
  rank: number,
  grid: number,
  resident: number,
): void {
  if (grid <= resident) return
  const site = waiting?.site
  throw new WorldError(
    `${kernel.name}: ${grid} programs do not fit: ${resident} run at once on rank ${rank}, and a program that waits for one that has not started waits forever${site ? ` (it may wait at ${site})` : ''}. Launch at most ${resident}, or grid: 'resident'`,
  )
}
