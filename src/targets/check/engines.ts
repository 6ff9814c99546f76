/**
 * Asynchronous engines: the bulk copy engine (TMA) and the matrix unit, which access memory on behalf of a role.
 * Their accesses are separate from the role's own loads and stores. Only the last IR stage for a GPU marks such
 * accesses (`by` is `engine`). In earlier stages a copy in flight is ordered as if the role itself had made it.
 *
 * An access by a role is ordered before a later access by an engine only if a `fence.async` is executed between the
 * two. The role itself may execute the fence, or another agent with which the role has synchronised since. Accesses
 * by engines are ordered before a new engine access if the role knows that they are complete. The start of a launch
 * counts as such a fence. Loads from a tensor are ordered before an engine's store even without a fence, because the
 * stored data were computed from the loads.
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
  /** The time of the agent that executed the fence. */
  readonly time: number
  readonly clock: Clock
}

export class Engines {
  /** For each space and component, its fences in the order of time. */
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

  /** The accessor for an access that an engine makes on behalf of a role, in the given memory space. */
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

/** True if an engine performs the node's accesses. */
export const isByEngine = ({ attributes }: Node): boolean => attributes.by === 'engine'

/** A read of shared memory by the matrix unit. The read is complete when the node is. */
export function readByEngine(agent: Agent, machine: Machine, node: Node): Accessor {
  if (!isByEngine(node)) return accessOf(agent, node)
  const by = machine.beginCopy(agent, node)
  agent.clock.set(by.identity.component, by.time)
  return machine.engines.access(by, agent, 'shared')
}

/** An asynchronous store by an engine. The store is in flight until the role executes `drain` or `quiet`. */
export function storeByEngine(agent: Agent, machine: Machine, node: Node): Accessor {
  const by = machine.beginCopy(agent, node)
  agent.inFlight.writes.push(by)
  return { ...machine.engines.access(by, agent, 'all'), afterReads: agent.clock }
}

/**
 * The barrier between the threads of one role does nothing here, because the checker executes a role as one agent.
 */
export const meet: Maker = (node) => ({ node, sync: false, run: () => undefined })

export const fenceAsync: Maker = (node) => {
  const space = node.attributes.space as Space
  return { node, sync: false, run: (agent, machine) => machine.engines.fence(agent, space) }
}

/** Orders accesses in flight before everything that the role does next. */
function join(agent: Agent, completed: readonly Accessor[]): void {
  for (const { identity, time } of completed) agent.clock.set(identity.component, time)
}

/** The end of a role completes its copies, except those by engines: the last stage contains a `drain` for them. */
export function completeAtEnd(agent: Agent): void {
  const { reads, writes } = agent.inFlight
  join(
    agent,
    [...reads, ...writes].filter(({ node }) => !isByEngine(node!)),
  )
}

/**
 * `quiet` and `drain` complete the copies that the role has in flight, or only their reads. A `drain` that leaves boxes
 * pending completes the reads of all earlier boxes, and nothing else.
 */
export const complete: Maker = (node) => {
  const onlyReads = node.attributes.of === 'reads'
  const pending = (node.attributes.pending ?? 0) as number
  return {
    node,
    sync: false,
    run(agent, machine) {
      const { reads, writes } = agent.inFlight
      const boxes = pending > 0 ? reads.filter((one) => one.node?.op === 'store.box') : []
      const left = new Set(pending > 0 ? reads.filter((one) => !boxes.slice(0, -pending).includes(one)) : [])
      const done = reads.filter((one) => !left.has(one))
      reads.splice(0, reads.length, ...left)
      join(agent, [...done, ...(onlyReads ? [] : writes.splice(0))])
      machine.strong.noteClock(agent)
    },
  }
}

/**
 * A copy in flight until the role executes `quiet`. Its reads and its writes are two separate agents, because a `quiet`
 * may complete only the reads.
 */
export function beginInFlight(
  agent: Agent,
  machine: Machine,
  node: Node,
): { readonly reader: Accessor; readonly writer: Accessor } {
  const reader = machine.beginCopy(agent, node)
  agent.inFlight.reads.push(reader)
  if (isByEngine(node))
    return {
      reader: machine.engines.access(reader, agent, 'shared'),
      writer: storeByEngine(agent, machine, node),
    }
  const writer = machine.beginCopy(agent, node)
  agent.inFlight.writes.push(writer)
  return { reader, writer }
}
