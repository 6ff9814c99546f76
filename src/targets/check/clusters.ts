/**
 * Models clusters, whose programs use one another's shared memory in the last compiler stages for a GPU. A program may
 * copy into the tiles of several programs and arrive at the barriers of several programs, and one barrier synchronises
 * all threads of the cluster.
 */
import { alongOf, extentsOf, sizeOf } from '../../ir/clusters.ts'
import { attribute, type Node } from '../../ir/node.ts'
import type { Places } from './access.ts'
import { describe, type Agent } from './agent.ts'
import type { ArrivalBarrier } from './barrier.ts'
import { Clock } from './clock.ts'
import type { Maker } from './code.ts'
import type { ProgramInstance } from './launch.ts'
import type { Machine } from './machine.ts'
import type { Accessor } from './memory.ts'

/** All programs of an agent's cluster, in the order of their positions in the cluster. */
function clusterAround({ launch, program }: Agent, cluster: readonly number[]): ProgramInstance[] {
  const size = sizeOf(cluster)
  const first = program - (program % size)
  return launch.programs.slice(first, first + size)
}

/**
 * The agent's own program, followed by the programs of the cluster whose positions differ from its position along
 * exactly one of the given axes.
 */
function programsAlong(agent: Agent, node: Node, axes: readonly number[]): ProgramInstance[] {
  const cluster = extentsOf(node)
  const all = clusterAround(agent, cluster)
  const place = agent.program % sizeOf(cluster)
  return [...new Set([place, ...axes.flatMap((axis) => alongOf(cluster, axis, place))])].map((at) => all[at])
}

/** The barriers at which an agent arrives: its own, and the corresponding barriers of other programs of the cluster. */
export function barriersOf(
  agent: Agent,
  machine: Machine,
  node: Node,
  own: ArrivalBarrier,
): ArrivalBarrier[] {
  const axes = (node.attributes.multicast ?? []) as readonly number[]
  if (axes.length === 0) return [own]
  return programsAlong(agent, node, axes).map((program) => barrierIn(program, agent, machine, node, own))
}

/**
 * Reports an agent that uses the shared memory of a program that has ended or, as far as the agent knows, not started.
 */
function expectPresent({ main, started }: ProgramInstance, agent: Agent, machine: Machine, node: Node): void {
  if (main === undefined || main === agent.instance.main) return
  const isKnown = agent.clock.get(main.component) >= started
  if (isKnown && !main.done) return
  const state = main.done ? 'has ended' : 'may not have started'
  machine.report({
    kind: 'race',
    kernel: agent.launch.kernel,
    message: `${describe(agent)} uses the shared memory of ${describe(main)}, which ${state}: the programs of a cluster must synchronise before the first and after the last use of shared memory of other programs`,
    parties: [{ who: describe(agent), what: `executes ${node.op}`, site: node.site }],
  })
}

/** The barrier of another program that corresponds to the agent's own barrier. */
function barrierIn(
  program: ProgramInstance,
  agent: Agent,
  machine: Machine,
  node: Node,
  own: ArrivalBarrier,
): ArrivalBarrier {
  const { instance } = agent
  expectPresent(program, agent, machine, node)
  const at = instance.barriers.findIndex((some) => some.includes(own))
  return program.barriers[at][instance.barriers[at].indexOf(own)]
}

interface PartedCopy {
  readonly from: Places
  readonly to: Places
  readonly barrier: ArrivalBarrier
}

type CopyBy = (agent: Agent, machine: Machine, by: Accessor, from: Places, to: Places) => void

/**
 * Copies the agent's section of a tile into the tiles of all programs along the copy's axis (multicast). The copy into
 * a program's tile is in flight until that program's barrier completes. The barrier of the agent's own program expects
 * a copy from each program along the axis.
 */
export function copyPart(
  agent: Agent,
  machine: Machine,
  node: Node,
  { from, to, barrier }: PartedCopy,
  copyBy: CopyBy,
): void {
  const axis = attribute<number>(node, 'multicast')
  const parts = attribute<number>(node, 'parts')
  const cluster = extentsOf(node)
  const line = alongOf(cluster, axis, agent.program % sizeOf(cluster))
  const size = from.index.length / parts
  const first = line.indexOf(agent.program % sizeOf(cluster)) * size
  const partOf = (places: Places): Places => ({
    ...places,
    index: places.index.subarray(first, first + size),
  })
  barrier.expectParts(parts)
  const tile = agent.instance.tiles.indexOf(to.buffer)
  for (const program of programsAlong(agent, node, [axis])) {
    const by = machine.beginCopy(agent, node)
    copyBy(agent, machine, by, partOf(from), { ...partOf(to), buffer: program.tiles[tile] })
    barrierIn(program, agent, machine, node, barrier).attachPart(by, agent, node, machine)
  }
}

/** A barrier that synchronises all programs of the cluster. */
export const clusterMeet: Maker = (node) => {
  const cluster = extentsOf(node)
  const isHere = ({ main }: ProgramInstance): boolean =>
    main !== undefined && !main.done && main.code.instructions[main.pc].node === node
  const missing = (agent: Agent): ProgramInstance[] =>
    clusterAround(agent, cluster).filter((program) => !isHere(program))
  const isReleased = (agent: Agent): boolean => agent.instance.released.has(agent)
  return {
    node,
    sync: true,
    ready: (agent) => isReleased(agent) || missing(agent).length === 0,
    run(agent, machine) {
      if (agent.instance.released.delete(agent)) return
      const agents = clusterAround(agent, cluster).map(({ main }) => main!)
      const all = new Clock()
      for (const one of agents) one.release(all)
      for (const one of agents) {
        one.clock.join(all)
        machine.strong.noteClock(one)
        if (one !== agent) one.instance.released.add(one)
      }
    },
    commutes: () => true,
    waiting: (agent) =>
      `waits for the programs of its cluster: ${missing(agent)
        .map(({ program }) => `program ${program}`)
        .join(', ')}`,
  }
}
