/**
 * Validates the arguments, grid and stream of a launch, in the same way on every target. An error about a launch names
 * the source line of the launch.
 */
import { sizeOf, wholeClusters } from '../ir/clusters.ts'
import { dtypes, round, type DType } from '../ir/dtype.ts'
import type { KernelIR } from '../ir/node.ts'
import type { Kernel } from '../lang/kernel.ts'
import { expectPlace, groupName, inWorld, type Members } from './members.ts'
import {
  misuse,
  type LaunchOptions,
  type PackedTensor,
  type PerRank,
  type Stream,
  type SymmetricFlags,
  type SymmetricTensor,
} from './world.ts'

export type Handle = SymmetricTensor | SymmetricFlags | PackedTensor

/** The argument of a launch on one rank: the given value, or the result of the given function for that rank. */
export const argumentOf = (given: unknown, rank: number): unknown =>
  typeof given === 'function' ? (given as (rank: number) => unknown)(rank) : given

/**
 * True if the arguments of a rank include flags that the host signals. In a launch with flags that the host signals, a
 * GPU accesses flags at system scope, which includes the host.
 */
export const hostSignals = (args: readonly unknown[]): boolean =>
  (args as readonly (Partial<SymmetricFlags> | number)[]).some(
    (one) => typeof one === 'object' && one.kind === 'flags' && one.signaller === 'host',
  )

/**
 * Throws an error unless the arguments of a launch match the parameters of the kernel. The function `wrongHandle`
 * describes the problem with a tensor or flag handle, or returns undefined if the handle is valid.
 */
export function expectArguments(
  kernel: Kernel,
  args: Readonly<Record<string, unknown>>,
  ranks: readonly number[],
  wrongHandle: (handle: Handle) => string | undefined,
): void {
  for (const [name, param] of Object.entries(kernel.params)) {
    const given = args[name]
    const wrong = (what: string): never => {
      throw misuse(`${kernel.name}: argument ${name} ${what}`)
    }
    if (given === undefined) wrong('is missing')
    const packed = new Set<boolean>()
    for (const rank of typeof given === 'function' ? ranks : ranks.slice(0, 1)) {
      const value = argumentOf(given, rank)
      if (param.kind === 'scalar') {
        const problem = scalarProblem(param.dtype, value)
        if (problem) wrong(problem)
        continue
      }
      const handle = value as Handle
      const kind = handle?.kind === 'packed' ? 'tensor' : handle?.kind
      if (kind !== param.kind) wrong(`must be ${param.kind === 'tensor' ? 'a tensor' : 'flags'}`)
      if (packed.add(handle.kind === 'packed').size > 1) wrong('is packed on some ranks only')
      const problem = wrongHandle(handle)
      if (problem) wrong(problem)
      const problems: string[] = []
      if (handle.shape.length !== param.rank)
        problems.push(`has ${handle.shape.length} axes, the kernel wants ${param.rank}`)
      if (handle.kind !== 'flags' && param.kind === 'tensor' && handle.dtype !== param.dtype)
        problems.push(`holds ${handle.dtype}, the kernel wants ${param.dtype}`)
      if (problems.length > 0) wrong(problems.join('; it '))
      if (handle.kind === 'flags' && param.kind === 'flags' && handle.arrivals !== param.arrivals)
        wrong(`counts ${handle.arrivals} arrivals per epoch, the kernel wants ${param.arrivals}`)
    }
  }
  for (const name of Object.keys(args))
    if (!Object.hasOwn(kernel.params, name)) throw misuse(`${kernel.name} has no argument ${name}`)
}

/**
 * Throws an error if the kernel signals flags that only the host signals, or replaces their waits by flag-in-data
 * words. The argument `flags` holds the flag sets that the kernel was given, by parameter.
 */
export function expectSignallers(
  { name: kernel, carried }: KernelIR,
  signals: ReadonlySet<string>,
  flags: Readonly<Record<string, SymmetricFlags>>,
): void {
  for (const [param, { name, signaller }] of Object.entries(flags)) {
    if (signaller !== 'host') continue
    if (signals.has(param))
      throw misuse(
        `${kernel} signals ${name}, which only the host signals: allocate it without signaller: 'host'`,
      )
    if (Object.values(carried ?? {}).includes(param))
      throw misuse(
        `${kernel} declares that a tensor carries the flags ${name}, which only the host signals: remove the option carries`,
      )
  }
}

/**
 * Describes the problem with the value of a scalar argument, or returns undefined if the dtype can hold the value. A
 * number passed as a float argument is rounded to the dtype; infinities and NaN are allowed. A number passed as an
 * integer argument must be exact, because targets would truncate or wrap it differently.
 */
export function scalarProblem(dtype: DType, value: unknown): string | undefined {
  if (typeof value !== 'number') return `must be a number of dtype ${dtype}`
  const { kind, min, max } = dtypes[dtype]
  if (kind === 'float') {
    const isHeld = !Number.isFinite(value) || Number.isFinite(round(dtype, value))
    return isHeld ? undefined : `is ${value}, which is too large for ${dtype}: the largest is ${max}`
  }
  return Number.isInteger(value) && value >= min && value <= max
    ? undefined
    : `is ${value}, but ${dtype} holds whole numbers from ${min} to ${max}`
}

/**
 * Throws an error if two parameters refer to the same memory and the kernel writes it, because targets assume that
 * parameters do not alias. The function `memory` maps each argument to its storage, or to a number for scalars.
 */
export function expectDistinct(
  kernel: string,
  writes: ReadonlySet<string>,
  memory: Iterable<readonly [name: string, memory: unknown]>,
): void {
  const seen = new Map<unknown, string>()
  for (const [name, storage] of memory) {
    if (typeof storage !== 'object') continue
    const other = seen.get(storage)
    if (other && (writes.has(name) || writes.has(other)))
      throw misuse(
        `${kernel}: ${other} and ${name} are the same tensor, and the kernel writes it: pass it once`,
      )
    seen.set(storage, name)
  }
}

/**
 * The number of programs of a launch on a rank. The number of programs of a kernel with clusters is rounded down to
 * whole clusters.
 */
export function gridOf(
  grid: PerRank<number> | 'resident',
  rank: number,
  resident: number,
  cluster: readonly number[] = [],
): number {
  const size = sizeOf(cluster)
  if (grid === 'resident') return wholeClusters(resident, size)
  const programs = typeof grid === 'function' ? grid(rank) : grid
  if (programs === undefined)
    throw misuse(`the grid is missing: pass { grid: programs } as the last argument of launch`)
  if (!Number.isInteger(programs) || programs < 0)
    throw misuse(`a grid of ${programs} programs on rank ${rank}: it must be a whole number, 0 or more`)
  if (programs % size !== 0)
    throw misuse(
      `a grid of ${programs} programs on rank ${rank}, in clusters of ${cluster.join(' x ')}: it must be a multiple of ${size}`,
    )
  return programs
}

/**
 * Checks the list of ranks in the options of a launch. The function `expectLocal` checks a rank by its number in the
 * world.
 */
export function expectLaunchRanks(
  ranks: readonly number[] = [],
  members: Members,
  expectLocal: (rank: number) => void,
): void {
  for (const [at, rank] of ranks.entries()) {
    expectPlace(members, rank)
    expectLocal(inWorld(members, rank))
    if (ranks.indexOf(rank) !== at)
      throw misuse(`a launch on ranks [${ranks.join(', ')}]: rank ${rank} occurs more than once`)
  }
}

export const streamNumber = (stream: LaunchOptions['stream']): number =>
  stream === undefined ? 0 : typeof stream === 'number' ? stream : stream.id

/**
 * Describes the problem if a flag set is passed to a launch on another group than the one on which the set was
 * allocated. The result is undefined if the groups are the same. A flag set counts epochs only for the ranks of one
 * group.
 */
export function wrongGroup(handle: Handle, members: Members): string | undefined {
  if (handle.kind !== 'flags' || handle.members === members) return undefined
  const name = (of: Members): string => (of ? groupName(of) : 'the whole world')
  return `belongs to ${name(handle.members)}, and the launch is on ${name(members)}: allocate flags on the group that uses them`
}

/**
 * Throws an error if two launches of a co-launch set are on the same stream of the same rank, because one would wait
 * for the other to end.
 */
export function expectApart(
  launches: readonly { readonly kernel: { readonly name: string }; readonly options: LaunchOptions }[],
  everyRank: readonly number[],
): void {
  const taken = new Map<string, string>()
  for (const { kernel, options } of launches) {
    const members = options.group?.members ?? everyRank
    for (const rank of options.ranks?.map((one) => members[one]) ?? members) {
      const place = `stream ${streamNumber(options.stream)} of rank ${rank}`
      const other = taken.get(place)
      if (other !== undefined)
        throw misuse(
          `${other} and ${kernel.name} are launched together on ${place}, where one would wait for the other: give each its own stream`,
        )
      taken.set(place, kernel.name)
    }
  }
}

export function expectStream(stream: Stream | number | undefined): void {
  const number = streamNumber(stream)
  if (!Number.isInteger(number) || number < 0)
    throw misuse(`there is no stream ${number}: it must be a whole number, 0 or more`)
}
