/**
 * Engines: the copy engine and the matrix unit, which access memory for a role beside its own loads and stores. A kernel says that in
 * its last stage for a GPU (`by` is `engine`); before that, a copy in flight is ordered as if the role had made it.
 *
 * What a role has accessed comes before what an engine accesses for it only if a `fence.async` stands between them, of the role or of
 * one that it has heard of since; what engines have done comes before it if the role knows of that at all. A launch starts behind such
 * a fence. Loads of a tensor come before a store by an engine without one: it stores what was computed from them.
 */
import type { Node } from '../../ir/node.ts'
import { accessOf } from './access.ts'
import type { Agent } from './agent.ts'
import type { Clock } from './clock.ts'
import type { Maker } from './code.ts'
import type { Machine } from './machine.ts'
import type { Accessor } from './memory.ts'

export type Space = 'shared' | 'all'

interface Fence {
  /** Of the agent that made it. */
  readonly time: number
  readonly clock: Clock
}

export class Engines {
  /** By space and component, in the order of time. */
  readonly #fences: Readonly<Record<Space, Map<number, Fence[]>>> = { shared: new Map(), all: new Map() }
  readonly #components = new Set<number>()

  fence(agent: Agent, space: Space): void {
    const fence = { time: agent.time, clock: agent.snapshot() }
    for (const fenced of space === 'all' ? (['shared', 'all'] as const) : ([space] as const)) {
      const known = this.#fences[fenced].get(agent.component)
      if (known) known.push(fence)
      else this.#fences[fenced].set(agent.component, [fence])
    }
  }

  /** An access that an engine makes for a role, in memory of a space. */
  access(by: Accessor, agent: Agent, space: Space): Accessor {
    this.#components.add(by.identity.component)
    const clock = agent.launch.start.copy()
    for (const [component, fences] of this.#fences[space]) {
      const heard = agent.clock.get(component)
      const latest = fences.findLast(({ time }) => time <= heard)
      if (latest) clock.join(latest.clock)
    }
    for (const component of this.#components)
      clock.set(component, Math.max(clock.get(component), agent.clock.get(component)))
    return { ...by, clock }
  }
}

/** Whether a node's accesses are those of an engine. */
export const isByEngine = ({ attributes }: Node): boolean => attributes.by === 'engine'

/** A read of shared memory by the matrix unit, which is complete when the node is. */
export function readByEngine(agent: Agent, machine: Machine, node: Node): Accessor {
  if (!isByEngine(node)) return accessOf(agent, node)
  const by = machine.beginCopy(agent, node)
  agent.clock.set(by.identity.component, by.time)
  return machine.engines.access(by, agent, 'shared')
}

/** A store that is under way until the role drains it. */
export function storeByEngine(agent: Agent, machine: Machine, node: Node): Accessor {
  const by = machine.beginCopy(agent, node)
  agent.stores.push(by)
  return { ...machine.engines.access(by, agent, 'all'), afterReads: agent.clock }
}

/** To others, a role is one agent, whose threads need not meet. */
export const meet: Maker = (node) => ({ node, sync: false, run: () => undefined })

export const fenceAsync: Maker = (node) => {
  const space = node.attributes.space as Space
  return { node, sync: false, run: (agent, machine) => machine.engines.fence(agent, space) }
}

export const drain: Maker = (node) => ({
  node,
  sync: false,
  run(agent, machine) {
    for (const { identity, time } of agent.stores.splice(0)) agent.clock.set(identity.component, time)
    machine.strong.noteClock(agent)
  },
})
