/**
 * A world without memory that runs nothing. It returns tensor handles and records the launches. All properties that can
 * influence the choice of a kernel are fixed, so the launches are the same on every machine.
 */
import { oneEach, type Machine } from '../../src/world/machine.ts'
import { cpuMachine, h200 } from '../../src/world/machines.ts'
import type { Launch, Stream, StreamEvent, World } from '../../src/world/world.ts'
import { launchOf } from '../../src/world/world.ts'

export interface PaperWorld {
  readonly world: World
  readonly launches: Launch[]
}

/** A machine whose name is in no table of tiles. Ranks share the multiprocessors of an H200, but no memory. */
export function paperMachine(target: 'cuda' | 'native' | 'wasm', ranks: number): Machine {
  if (target !== 'cuda') return cpuMachine(target, ranks, target === 'wasm' ? { panelSteps: 512 } : {})
  return oneEach({ ...h200, name: 'paper', processors: Math.floor(h200.processors / ranks) }, ranks)
}

export function paperWorld(target: 'cuda' | 'native' | 'wasm', ranks: number): PaperWorld {
  const launches: Launch[] = []
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
    target,
    ranks,
    localRanks: Array.from({ length: ranks }, (_, rank) => rank),
    clockTick: 1,
    machine: paperMachine(target, ranks),
    empty: tensor,
    zeros: tensor,
    full: tensor,
    flags: (shape: readonly number[] = [], { name = 'flags', arrivals = 1 } = {}) => ({
      kind: 'flags',
      name,
      shape,
      arrivals,
    }),
    launch: (...args: Parameters<typeof launchOf>) => void launches.push(launchOf(...args)),
    launchTogether: (together: readonly Launch[]) => void launches.push(...together),
    pack: (source: World extends { pack(tensor: infer T): unknown } ? T : never) =>
      Promise.resolve(target === 'cuda' ? source : { ...(source as object), kind: 'packed', source }),
    stream: () => stream,
    synchronize: () => Promise.resolve(),
    write: () => {},
    free: () => {},
  }
  return { world: world as unknown as World, launches }
}
