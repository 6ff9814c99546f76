/**
 * A world of a machine that is only described: it has no memory and runs nothing. It hands out tensors and notes the launches, so that
 * the kernels an operation would launch there can be printed and compared on any computer.
 */
import { argumentOf, hostSignals } from './arguments.ts'
import { isCached, type Machine } from './machine.ts'
import {
  launchOf,
  type Launch,
  type Stream,
  type StreamEvent,
  type SymmetricFlags,
  type World,
} from './world.ts'

export interface DescribedWorld {
  readonly world: World
  /** In the order in which they were launched. */
  readonly launches: readonly Launch[]
}

export function describedWorld(machine: Machine): DescribedWorld {
  const launches: Launch[] = []
  const ranks = machine.processors.length
  const tensor = (dtype: string, shape: readonly number[], ...rest: unknown[]): unknown => {
    const { name = 'tensor' } = (rest.at(-1) ?? {}) as { name?: string }
    return { kind: 'tensor', name, dtype, shape: [...shape] }
  }
  const event: StreamEvent = { kind: 'event', synchronize: () => Promise.resolve(), elapsed: () => 1 }
  const stream: Stream = {
    kind: 'stream',
    id: 0,
    record: () => event,
    wait: () => {},
    synchronize: () => Promise.resolve(),
  }
  const world = {
    target: machine.family,
    ranks,
    localRanks: Array.from({ length: ranks }, (_, rank) => rank),
    clockTick: 1,
    machine,
    empty: tensor,
    zeros: tensor,
    full: tensor,
    flags: (
      shape: readonly number[] = [],
      { name = 'flags', arrivals = 1, signaller }: Partial<SymmetricFlags> = {},
    ) => ({ kind: 'flags', name, shape, arrivals, ...(signaller && { signaller }) }),
    launch: (...args: Parameters<typeof launchOf>) => void launches.push(launchOf(...args)),
    launchTogether: (together: readonly Launch[]) => void launches.push(...together),
    // Where tiles are in caches, weights are packed; elsewhere they stay as they are.
    pack: (source: object) =>
      Promise.resolve(isCached(machine) ? { ...source, kind: 'packed', source } : source),
    stream: () => stream,
    synchronize: () => Promise.resolve(),
    write: () => {},
    free: () => {},
  }
  return { world: world as unknown as World, launches }
}

/** A launch as data: what specialises its kernel. */
export interface LaunchFacts {
  /** Extents by the name of a tensor. */
  readonly shapes: Readonly<Record<string, readonly number[]>>
  /** Parameters whose tensors are packed. */
  readonly packed: readonly string[]
  /** The host signals flags of the kernel. */
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
