/** What is checked of a launch on every target: that the arguments are those the kernel wants, and the grid a number. */
import type { Kernel } from '../lang/kernel.ts'
import {
  WorldError,
  type LaunchOptions,
  type PackedTensor,
  type PerRank,
  type Stream,
  type SymmetricFlags,
  type SymmetricTensor,
} from './world.ts'

export type Handle = SymmetricTensor | SymmetricFlags | PackedTensor

/** What a rank passes. */
export const argumentOf = (given: unknown, rank: number): unknown =>
  typeof given === 'function' ? (given as (rank: number) => unknown)(rank) : given

/** `wrongHandle` says what is wrong with a handle that is not one of the world's. */
export function expectArguments(
  kernel: Kernel,
  args: Readonly<Record<string, unknown>>,
  ranks: readonly number[],
  wrongHandle: (handle: Handle) => string | undefined,
): void {
  for (const [name, param] of Object.entries(kernel.params)) {
    const given = args[name]
    const wrong = (what: string): never => {
      throw new WorldError(`${kernel.name}: argument ${name} ${what}`)
    }
    if (given === undefined) wrong('is missing')
    const packed = new Set<boolean>()
    for (const rank of typeof given === 'function' ? ranks : ranks.slice(0, 1)) {
      const value = argumentOf(given, rank)
      if (param.kind === 'scalar') {
        if (typeof value !== 'number') wrong(`must be a number of dtype ${param.dtype}`)
        continue
      }
      const handle = value as Handle
      const kind = handle?.kind === 'packed' ? 'tensor' : handle?.kind
      if (kind !== param.kind) wrong(`must be ${param.kind === 'tensor' ? 'a tensor' : 'flags'}`)
      if (packed.add(handle.kind === 'packed').size > 1) wrong('is packed on some ranks only')
      const problem = wrongHandle(handle)
      if (problem) wrong(problem)
      if (handle.shape.length !== param.rank)
        wrong(`has ${handle.shape.length} axes, the kernel wants ${param.rank}`)
      if (handle.kind !== 'flags' && param.kind === 'tensor' && handle.dtype !== param.dtype)
        wrong(`holds ${handle.dtype}, the kernel wants ${param.dtype}`)
      if (handle.kind === 'flags' && param.kind === 'flags' && handle.arrivals !== param.arrivals)
        wrong(`counts ${handle.arrivals} arrivals an epoch, the kernel wants ${param.arrivals}`)
    }
  }
  for (const name of Object.keys(args))
    if (!Object.hasOwn(kernel.params, name)) throw new WorldError(`${kernel.name} has no argument ${name}`)
}

/** Targets take two tensor parameters for two tensors. `memory` is what an argument is stored in, or a number. */
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
      throw new WorldError(
        `${kernel}: ${other} and ${name} are the same tensor, and the kernel writes it: pass it once`,
      )
    seen.set(storage, name)
  }
}

/** Programs on a rank. */
export function gridOf(grid: PerRank<number> | 'resident', rank: number, resident: number): number {
  const programs = grid === 'resident' ? resident : typeof grid === 'function' ? grid(rank) : grid
  if (!Number.isInteger(programs) || programs < 0)
    throw new WorldError(`a grid of ${programs} programs on rank ${rank}`)
  return programs
}

export const streamNumber = (stream: LaunchOptions['stream']): number =>
  stream === undefined ? 0 : typeof stream === 'number' ? stream : stream.id

/** Launches that may wait for each other do not queue up behind each other. */
export function expectApart(
  launches: readonly { readonly kernel: { readonly name: string }; readonly options: LaunchOptions }[],
  everyRank: readonly number[],
): void {
  const taken = new Map<string, string>()
  for (const { kernel, options } of launches)
    for (const rank of options.ranks ?? everyRank) {
      const place = `stream ${streamNumber(options.stream)} of rank ${rank}`
      const other = taken.get(place)
      if (other !== undefined)
        throw new WorldError(
          `${other} and ${kernel.name} are launched together on ${place}, where one follows the other: give each its own stream`,
        )
      taken.set(place, kernel.name)
    }
}

export function expectStream(stream: Stream | number | undefined): void {
  const number = streamNumber(stream)
  if (!Number.isInteger(number) || number < 0) throw new WorldError(`there is no stream ${number}`)
}
