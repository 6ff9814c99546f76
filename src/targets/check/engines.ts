/**
 * Models asynchronous engines: the bulk copy engine (TMA) and the matrix unit, which access memory on behalf of a role.
 * The accesses of an engine are separate from the role's own loads and stores. Only the last IR stage for a GPU marks
 * accesses by engines (`by` is `engine`), and asynchronous copies that threads have started (`by` is `threads`). In all
 * compiler stages before the last, an asynchronous copy is ordered as if the role itself had made it.
 *
 * An access by a role is ordered before a later access by an engine only if a `fence.async` is executed between the
 * two. The role itself may execute the `fence.async`, or another agent may, if the role synchronises with that agent
 * after the fence. Earlier accesses by engines are ordered before a new engine access if the role knows that they are
 * complete. The start of a launch counts as a `fence.async`. Loads from a tensor are ordered before an engine's store
 * even without a fence, because the stored data were computed from the loads.
 */
import type { Node } from '../../ir/node.ts'
import { opOf } from '../../ir/ops/index.ts'
import { accessOf } from './access.ts'
import type { Agent } from './agent.ts'
import type { Clock } from './clock.ts'
import type { Maker } from './code.ts'
import type { Machine } from './machine.ts'
import type { Accessor } from './memory.ts'

export type Space = 'shared' | 'all'

interface Fence {
  /** The logical time at which the agent executed the fence. */
  readonly time: number
  readonly clock: Clock
}

export class Engines {
  /** The fences that each component has executed for each memory space, oldest first. */
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

  /** The record of an access that an engine makes on behalf of a role, in the given memory space. */
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

/** True if an asynchronous engine (the copy engine or the matrix unit) performs the node's accesses. */
export const isByEngine = ({ attributes }: Node): boolean => attributes.by === 'engine'

/** A read of shared memory by the matrix unit is in flight until the role executes `dot.wait`. */
export function readByEngine(agent: Agent, machine: Machine, node: Node): Accessor {
  if (!isByEngine(node)) return accessOf(agent, node)
  const by = machine.beginCopy(agent, node)
  agent.inFlight.products.push(by)
  return machine.engines.access(by, agent, 'shared')
}

/** `dot.wait` completes the matrix products that the role has started, except the newest `pending` products. */
export const dotWait: Maker = (node) => {
  const pending = (node.attributes.pending ?? 0) as number
  return {
    node,
    sync: false,
    run(agent, machine) {
      const { products } = agent.inFlight
      join(agent, products.splice(0, Math.max(0, products.length - pending)))
      machine.strong.noteClock(agent)
    },
  }
}

/**
 * An asynchronous store by an engine. An asynchronous store is in flight until the role executes `drain` or `quiet`.
 */
export function storeByEngine(agent: Agent, machine: Machine, node: Node): Accessor {
  const by = machine.beginCopy(agent, node)
  agent.inFlight.writes.push(by)
  return { ...machine.engines.access(by, agent, 'all'), afterReads: agent.clock }
}

/**
 * A barrier between the threads of one role has no effect in the checker, because the checker executes a role as one
 * agent.
 */
export const meet: Maker = (node) => ({ node, sync: false, run: () => undefined })

export const fenceAsync: Maker = (node) => {
  const space = node.attributes.space as Space
  return { node, sync: false, run: (agent, machine) => machine.engines.fence(agent, space) }
}

/** Orders completed asynchronous accesses before everything that the role does next. */
function join(agent: Agent, completed: readonly Accessor[]): void {
  for (const { identity, time } of completed) agent.clock.set(identity.component, time)
}

/**
 * The end of a role completes its asynchronous copies, except in the last stage for a GPU, which contains a `drain` for
 * them.
 */
export function completeAtEnd(agent: Agent): void {
  const { reads, writes } = agent.inFlight
  join(
    agent,
    [...reads, ...writes].filter(({ node }) => node!.attributes.by === undefined),
  )
}

/**
 * `quiet` completes the asynchronous copies of the role, or only their reads. A `drain` completes only the copies by
 * engines, or only the copies by threads. A `drain` that leaves the newest boxes (tiles of a TMA store) pending
 * completes the reads of all older boxes, and no other accesses.
 */
export const complete: Maker = (node) => {
  const onlyReads = node.attributes.of === 'reads'
  const pending = (node.attributes.pending ?? 0) as number
  const { by = node.op === 'drain' ? 'engine' : undefined } = node.attributes
  const isOther = ({ node: copy }: Accessor): boolean => by !== undefined && copy!.attributes.by !== by
  return {
    node,
    sync: false,
    run(agent, machine) {
      const { reads, writes } = agent.inFlight
      const boxes = pending > 0 ? reads.filter(({ node }) => node && opOf(node).completes === 'at drain') : []
      const isLeft = (one: Accessor): boolean =>
        pending > 0 ? !boxes.slice(0, -pending).includes(one) : isOther(one)
      const done = reads.filter((one) => !isLeft(one))
      reads.splice(0, reads.length, ...reads.filter(isLeft))
      const written = onlyReads ? [] : writes.filter((one) => !isOther(one))
      writes.splice(0, writes.length, ...writes.filter((one) => !written.includes(one)))
      join(agent, [...done, ...written])
      machine.strong.noteClock(agent)
    },
  }
}

/**
 * An asynchronous copy that is in flight until the role executes `quiet`. The reads and the writes of an asynchronous
 * copy are two separate agents, because a `quiet` may complete only the reads.
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
