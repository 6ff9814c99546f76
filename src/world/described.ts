/**
 * A described world stands for a machine that is not present: it has no memory and runs nothing. A described world
 * creates tensors and notes launches, so that the kernels that an operation would launch on that machine can be printed
 * and compared on any computer.
 */
import type { StorageDType } from '../ir/dtype.ts'
import { argumentOf, hostSignals } from './arguments.ts'
import { isCached, type Machine } from './machine.ts'
import {
  launchOf,
  type Allocator,
  type Launch,
  type PackedTensor,
  type Stream,
  type StreamEvent,
  type SymmetricFlags,
  type SymmetricTensor,
  type TensorOptions,
  type World,
} from './world.ts'

export interface DescribedWorld {
  readonly world: World
  /** The launches that the operation requested, in order. */
  readonly launches: readonly Launch[]
}

/** A method that needs memory or running kernels throws an error, because a described world has neither. */
const unavailable = (method: string) => (): never => {
  throw new RangeError(
    `world.${method} needs a machine: this world only describes one, so that the launches of an operation can be listed`,
  )
}

export function describedWorld(machine: Machine): DescribedWorld {
  const launches: Launch[] = []
  const ranks = machine.processors.length
  const allocator = describedAllocator()
  const event: StreamEvent = { kind: 'event', synchronize: () => Promise.resolve(), elapsed: () => 1 }
  const stream: Stream = {
    kind: 'stream',
    id: 0,
    record: () => event,
    wait: () => {},
    synchronize: () => Promise.resolve(),
  }
  const everyRank = Array.from({ length: ranks }, (_, rank) => rank)
  const world: World = {
    ...allocator,
    target: machine.family,
    ranks,
    members: everyRank,
    localRanks: everyRank,
    clockTick: 1,
    machine,
    recordedUnlike: [],
    defaultStream: stream,
    on: () => allocator,
    launch: (...args: Parameters<typeof launchOf>) => void launches.push(launchOf(...args)),
    launchTogether: (together) => void launches.push(...together),
    // On machines that hold tiles in caches, weights are packed; on other machines, weights keep their layout.
    pack: <D extends StorageDType>(source: SymmetricTensor<D>) =>
      Promise.resolve(
        (isCached(machine) ? { ...source, kind: 'packed', source } : source) as PackedTensor<D>,
      ),
    prepare: () => Promise.resolve(),
    stream: () => stream,
    synchronize: () => Promise.resolve(),
    barrier: () => Promise.resolve(),
    reset: () => Promise.resolve(),
    write: () => {},
    free: () => {},
    signal: () => {},
    group: unavailable('group'),
    read: unavailable('read'),
    peek: unavailable('peek'),
    copy: unavailable('copy'),
    broadcast: unavailable('broadcast'),
    timeline: unavailable('timeline'),
    close: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
  return { world, launches }
}

/** Allocates tensors with a name, a dtype and a shape, but without contents. */
function describedAllocator(): Allocator {
  const tensor = <D extends StorageDType>(
    dtype: D,
    shape: readonly number[],
    { name = 'tensor' }: TensorOptions = {},
  ) => ({ kind: 'tensor', name, dtype, shape: [...shape] }) as unknown as SymmetricTensor<D>
  return {
    empty: tensor,
    zeros: tensor,
    arange: tensor,
    rand: tensor,
    randn: tensor,
    full: (dtype, shape, _value, options) => tensor(dtype, shape, options),
    from: (dtype, shape, _contents, options) => tensor(dtype, shape, options),
    flags: (shape = [], { name = 'flags', arrivals = 1, signaller } = {}) =>
      ({ kind: 'flags', name, shape, arrivals, ...(signaller && { signaller }) }) as SymmetricFlags,
  }
}

/** A launch on a described world as plain data: the facts for which its kernel would be specialised. */
export interface LaunchFacts {
  /** The extents of each tensor, by the tensor's name. */
  readonly shapes: Readonly<Record<string, readonly number[]>>
  /** The parameters of the kernel whose tensors are packed. */
  readonly packed: readonly string[]
  /** True if the host signals flags of the kernel. */
  readonly hostSignals: boolean
}

export function launchFacts({ args }: Pick<Launch, 'args'>): LaunchFacts {
  const tensors = Object.entries(args).flatMap(([param, value]) => {
    const { kind, shape } = argumentOf(value, 0) as {
      readonly kind?: string
      readonly shape?: readonly number[]
    }
    return kind === 'tensor' || kind === 'packed' ? [[param, kind, shape!] as const] : []
  })
  return {
    hostSignals: hostSignals(Object.values(args).map((value) => argumentOf(value, 0))),
    shapes: Object.fromEntries(tensors.map(([param, , shape]) => [param, shape])),
    packed: tensors.flatMap(([param, kind]) => (kind === 'packed' ? [param] : [])),
  }
}
