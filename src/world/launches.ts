/**
 * Validates and prepares the launches of a world, for any target. The arguments of a launch are validated once per
 * rank, and the target prepares them for the device. A later launch with the same handles, grid, meta-parameters and
 * stream reuses the prepared launch; scalar arguments may differ. A launch that repeats the last launch of its kernel
 * exactly, as in a loop, does not even look up the prepared launch.
 */
import { clusterOf } from '../ir/clusters.ts'
import type { KernelIR } from '../ir/node.ts'
import type { Kernel, Meta } from '../lang/kernel.ts'
import {
  argumentOf,
  expectArguments,
  expectDistinct,
  expectLaunchRanks,
  expectSignallers,
  expectStream,
  gridOf,
  scalarProblem,
  streamNumber,
  type Handle,
} from './arguments.ts'
import type { Backend, Part, Stored, Wanted } from './backend.ts'
import { givenTo } from './launchTraffic.ts'
import { inGroup, inWorld, type Members } from './members.ts'
import { expectResident } from './residency.ts'
import { usesOf } from './uses.ts'
import type { Launch, LaunchOptions, SymmetricFlags, World } from './world.ts'

/** The functions of a world that the code for launches calls. */
export interface Tensors {
  readonly everyRank: readonly number[]
  /** True if the world records its launches. In a world that records, each per-rank launch stores its arguments. */
  readonly records: boolean
  /** Describes the problem with a handle in a launch on this group, or returns undefined if the handle is valid. */
  wrongHandle(handle: Handle, members: Members): string | undefined
  /** The group on which a launch runs. */
  membersOf(options: Pick<LaunchOptions, 'group'>): Members
  expectLocal(rank: number): void
  stored(handle: Handle): Stored
  /** The arguments for the print buffer of a kernel that prints. */
  printedBy(recorded: KernelIR): Readonly<Record<string, Stored>>
}

/** A prepared launch on one rank, and the arguments for which it was prepared. */
interface Asked<P> {
  readonly part: P
  readonly ir: KernelIR
  readonly members: Members
  readonly stream: number
  readonly grid: number | 'resident'
  readonly meta: Meta | undefined
  readonly handles: readonly (readonly [name: string, handle: unknown])[]
  readonly scalars: readonly string[]
  readonly numbers: number[]
}

/**
 * The last launch of a kernel, if it covered all ranks and neither its grid nor its arguments were functions of the
 * rank.
 */
interface Last<P> {
  readonly parts: readonly P[]
  readonly group: World | undefined
  readonly stream: number
  readonly grid: number | 'resident'
  readonly meta: Meta | undefined
  readonly names: readonly string[]
  readonly values: readonly unknown[]
}

/**
 * The maximum number of prepared launches kept per kernel and rank. If there are more prepared launches, the least
 * recently used one is dropped.
 */
const mostAsked = 16

export class Launches<P extends Part> {
  readonly #backend: Pick<Backend<P, unknown>, 'load'>
  readonly #tensors: Tensors
  /** The prepared launches by kernel and rank, the most recently used first. */
  readonly #asked = new Map<Kernel, Asked<P>[][]>()
  readonly #last = new Map<Kernel, Last<P>>()
  /** The highest stream number in use, plus one. */
  streams = 1

  constructor(backend: Pick<Backend<P, unknown>, 'load'>, tensors: Tensors) {
    this.#backend = backend
    this.#tensors = tensors
  }

  /** Drops all prepared launches after a tensor was freed, so that every later launch is validated again. */
  forget(): void {
    for (const ofRanks of this.#asked.values()) for (const { part } of ofRanks.flat()) part.close()
    this.#asked.clear()
    this.#last.clear()
  }

  /** All ranks of the group on which a launch runs. */
  ranksOf(members: Members): readonly number[] {
    return members ? [...members.keys()] : this.#tensors.everyRank
  }

  /** The per-rank launches into which a launch is divided, one for each rank with at least one program. */
  parts(kernel: Kernel, args: Launch['args'], options: LaunchOptions): readonly P[] {
    const last = this.#last.get(kernel)
    return last && isSameAs(last, args, options) ? last.parts : this.#parts(kernel, args, options)
  }

  /** The IR of the kernel, recorded for the number of ranks of this group. */
  recorded(kernel: Kernel, meta: Meta | undefined, members: Members): KernelIR {
    return kernel.record({ world: (members ?? this.#tensors.everyRank).length, meta })
  }

  /** The compiled code that these ranks of a group need for a launch. */
  wanted(
    kernel: Kernel,
    ir: KernelIR,
    args: Launch['args'],
    members: Members,
    ranks: readonly number[],
    stream = 0,
  ): readonly Wanted[] {
    const tensors = this.#tensors
    expectArguments(kernel, args, ranks, (handle) => tensors.wrongHandle(handle, members))
    const { writes, signals } = usesOf(ir)
    const prints = this.#tensors.printedBy(ir)
    return ranks.map((rank) => {
      const given: Record<string, Handle | number> = {}
      const values: Record<string, Stored | number> = {}
      const flags: Record<string, SymmetricFlags> = {}
      for (const name of Object.keys(kernel.params)) {
        const value = (given[name] = argumentOf(args[name], rank) as Handle | number)
        values[name] = typeof value === 'number' ? value : tensors.stored(value)
        if (typeof value !== 'number' && value.kind === 'flags') flags[name] = value
      }
      expectDistinct(kernel.name, writes, Object.entries(values))
      expectSignallers(ir, signals, flags)
      const all = { ...values, ...prints }
      return { kernel, ir, rank: inWorld(members, rank), members, stream, given, values: all, flags }
    })
  }

  #parts(kernel: Kernel, args: Launch['args'], options: LaunchOptions): readonly P[] {
    // This function may change the scalar arguments of prepared launches that the remembered last launch uses, so the
    // last launch is forgotten first.
    this.#last.delete(kernel)
    const members = this.#tensors.membersOf(options)
    expectLaunchRanks(options.ranks, members, (rank) => this.#tensors.expectLocal(rank))
    const ranks = options.ranks ?? this.ranksOf(members)
    const all = ranks.map((rank) => this.#known(kernel, args, options, members, rank))
    if (all.includes(undefined)) this.#ask(kernel, args, options, members, ranks, all)
    const asked = (all as Asked<P>[]).filter(({ part }) => part.grid > 0)
    const parts = asked.map(({ part }) => part)
    if (this.#tensors.records && asked.length > 0) {
      const of = asked.map(({ part }) => inGroup(members, part.rank))
      const grids = asked.map(({ part }) => part.grid)
      const given = givenTo(asked[0].ir, args, of, grids, members)
      for (const part of parts) part.given = given
    }
    this.#remember(kernel, args, options, parts)
    return parts
  }

  /** Remembers a launch unless its arguments are functions of the rank, which may return another value next time. */
  #remember(kernel: Kernel, args: Launch['args'], options: LaunchOptions, parts: readonly P[]): void {
    const { grid, ranks, group } = options
    const names = Object.keys(kernel.params)
    const values = names.map((name) => args[name])
    if (ranks || typeof grid === 'function' || values.some((value) => typeof value === 'function')) return
    const meta = options.meta && ({ ...options.meta } as Meta)
    const stream = streamNumber(options.stream)
    this.#last.set(kernel, { parts, group, stream, grid, meta, names, values })
  }

  /** Returns an earlier prepared launch with the scalars of this launch, or undefined if there is none. */
  #known(
    kernel: Kernel,
    args: Launch['args'],
    options: LaunchOptions,
    members: Members,
    rank: number,
  ): Asked<P> | undefined {
    const ofRank = this.#asked.get(kernel)?.[inWorld(members, rank)]
    if (!ofRank) return undefined
    const stream = streamNumber(options.stream)
    const grid = gridAsked(options, rank)
    const meta = options.meta as Meta | undefined
    for (let at = 0; at < ofRank.length; at++) {
      const asked = ofRank[at]
      if (
        asked.members !== members ||
        asked.stream !== stream ||
        asked.grid !== grid ||
        !isSame(asked.meta, meta)
      )
        continue
      if (!hasHandles(asked, args, rank) || !takeNumbers(kernel, asked, args, rank)) continue
      if (at > 0) {
        ofRank.splice(at, 1)
        ofRank.unshift(asked)
      }
      return asked
    }
    return undefined
  }

  /** Validates the launch, and prepares the per-rank launches that have not been prepared yet. */
  #ask(
    kernel: Kernel,
    args: Launch['args'],
    options: LaunchOptions,
    members: Members,
    ranks: readonly number[],
    all: (Asked<P> | undefined)[],
  ): void {
    const meta = options.meta as Meta | undefined
    const ir = this.recorded(kernel, meta, members)
    expectStream(options.stream)
    const stream = streamNumber(options.stream)
    const wanted = this.wanted(kernel, ir, args, members, ranks, stream)
    this.streams = Math.max(this.streams, stream + 1)
    const made = wanted.map((one, at) => {
      if (all[at]) return undefined
      const loaded = this.#backend.load(one)
      const grid = gridOf(options.grid, ranks[at], loaded.resident, clusterOf(ir))
      expectResident(kernel.name, loaded.waiting, one.rank, grid, loaded.resident, members)
      return { loaded, grid }
    })
    made.forEach((one, at) => {
      if (!one) return
      const { given, rank } = wanted[at]
      const entries = Object.entries(given)
      const scalars = entries.filter(([, value]) => typeof value === 'number')
      all[at] = {
        part: one.loaded.part(one.grid),
        ...{ ir, members, stream },
        grid: gridAsked(options, ranks[at]),
        meta: meta && { ...meta },
        handles: entries.filter(([, value]) => typeof value !== 'number'),
        scalars: scalars.map(([name]) => name),
        numbers: scalars.map(([, value]) => value as number),
      }
      this.#keep(kernel, rank, all[at])
    })
  }

  #keep(kernel: Kernel, rank: number, asked: Asked<P>): void {
    let ofKernel = this.#asked.get(kernel)
    if (!ofKernel) this.#asked.set(kernel, (ofKernel = []))
    const ofRank = (ofKernel[rank] ??= [])
    ofRank.unshift(asked)
    if (ofRank.length > mostAsked) ofRank.pop()!.part.close()
  }
}

const gridAsked = ({ grid }: LaunchOptions, rank: number): number | 'resident' =>
  typeof grid === 'function' ? grid(rank) : grid

/** True if the arguments have the same names and the same tensors and flags as in an earlier launch. */
function hasHandles({ handles, scalars }: Asked<Part>, args: Launch['args'], rank: number): boolean {
  let given = 0
  for (const _ in args) given++
  if (given !== handles.length + scalars.length) return false
  for (let n = 0; n < handles.length; n++)
    if (argumentOf(args[handles[n][0]], rank) !== handles[n][1]) return false
  return true
}

/**
 * Passes the scalar arguments of this launch to the prepared launch. Returns false if an argument is not a number that
 * its dtype can hold.
 */
function takeNumbers(
  { params }: Kernel,
  { part, scalars, numbers }: Asked<Part>,
  args: Launch['args'],
  rank: number,
): boolean {
  for (let n = 0; n < scalars.length; n++) {
    const value = argumentOf(args[scalars[n]], rank)
    if (value === numbers[n]) continue
    const param = params[scalars[n]]
    if (param.kind !== 'scalar' || scalarProblem(param.dtype, value)) return false
    part.setNumber(scalars[n], (numbers[n] = value as number))
  }
  return true
}

function isSameAs<P>(last: Last<P>, args: Launch['args'], options: LaunchOptions): boolean {
  const { names, values } = last
  if (
    options.grid !== last.grid ||
    options.ranks !== undefined ||
    options.group !== last.group ||
    streamNumber(options.stream) !== last.stream ||
    !isSame(last.meta, options.meta as Meta | undefined)
  )
    return false
  let given = 0
  for (const _ in args) given++
  if (given !== names.length) return false
  for (let n = 0; n < names.length; n++) if (args[names[n]] !== values[n]) return false
  return true
}

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
