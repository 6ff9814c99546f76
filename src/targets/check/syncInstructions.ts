/** Compiles fences, flags and barriers to instructions of the checking machine. */
import { attribute, type Node } from '../../ir/node.ts'
import type { Order, Scope } from '../../ir/ops/index.ts'
import { accessOf, misuse, type WrongView } from './access.ts'
import { describe, type Agent } from './agent.ts'
import { ArrivalBarrier } from './barrier.ts'
import { barriersOf } from './clusters.ts'
import { always, type Maker } from './code.ts'
import { StopRun } from './findings.ts'
import { describeFlag, type FlagView, type Wanted } from './flags.ts'
import type { Machine } from './machine.ts'
import { canMeet, meet, missing } from './meeting.ts'
import { optional } from './places.ts'

// Instructions for flags and fences

const seen = (agent: Agent, register: number): FlagView => agent.registers[register] as FlagView

function flagOf(agent: Agent, node: Node, register: number): FlagView {
  const view = seen(agent, register)
  if (view.wrong) throw misuse(accessOf(agent, node), view.wrong)
  return view
}

function isAlone(agent: Agent, machine: Machine, register: number): boolean {
  const { flags, rank, index, wrong } = seen(agent, register)
  if (wrong) return true
  return !machine.strong.isShared(flags.buffers[rank], index)
}

export const fence: Maker = (node) => {
  const { order, scope } = node.attributes as { order: Order; scope: Scope }
  return {
    node,
    sync: true,
    run: (agent, machine) => machine.strong.fence(agent, order, scope),
    commutes: () => order !== 'seqCst',
  }
}

export const signal: Maker = (node, _, [flag]) => ({
  node,
  sync: true,
  run: (agent, machine) => machine.flags.signal(agent, node, flagOf(agent, node, flag)),
  commutes: (agent, machine) => isAlone(agent, machine, flag),
})

/** The flag for which a `wait` waits or which a `reached` polls, and the value that the flag must reach. */
function awaitedBy(
  agent: Agent,
  { flags }: Machine,
  node: Node,
  flag: number,
  count?: number,
): [FlagView, Wanted] {
  const view = flagOf(agent, node, flag)
  return [view, flags.wanted(agent, node, view, optional(agent, count) as number | undefined)]
}

export const reached: Maker = (node, out, [flag, count]) => ({
  node,
  sync: true,
  run(agent, machine) {
    const awaited = awaitedBy(agent, machine, node, flag, count)
    agent.registers[out] = Number(machine.flags.reached(agent, node, ...awaited))
  },
  commutes: (agent, machine) => isAlone(agent, machine, flag),
})

export const wait: Maker = (node, _, [flag, count]) => ({
  node,
  sync: true,
  ready: (agent, machine) =>
    seen(agent, flag).wrong !== undefined ||
    machine.flags.canWait(agent, ...awaitedBy(agent, machine, node, flag, count)),
  run: (agent, machine) => machine.flags.wait(agent, node, ...awaitedBy(agent, machine, node, flag, count)),
  commutes: (agent, machine) =>
    seen(agent, flag).wrong !== undefined || !machine.flags.isMixed(seen(agent, flag)),
  awaited: (agent) => flagOf(agent, node, flag).flags,
  waiting(agent, machine) {
    const [view, { value, count: part }] = awaitedBy(agent, machine, node, flag, count)
    const { flags, rank, index } = view
    const which = part === undefined ? '' : ` (${part} of the ${flags.arrivals} signals of this epoch)`
    return `waits for flag ${describeFlag(view)}: it is ${flags.buffers[rank].data[index]}, wanted ${value}${which}`
  },
})

// Instructions for barriers inside a program

export const barriers: Maker = (node, out, _, { startsExplicitly }) => {
  const count = attribute<number>(node, 'count')
  const arrivals = attribute<number>(node, 'arrivals')
  return {
    node,
    sync: false,
    run(agent) {
      const key = `barrier ${agent.rank}.${agent.stream}.${agent.program}.${out}`
      const state = startsExplicitly ? 'declared' : 'ready'
      const made = Array.from({ length: count }, (_, i) => new ArrivalBarrier(arrivals, `${key}.${i}`, state))
      agent.instance.barriers.push(made)
      agent.registers[out] = made
    },
  }
}

/**
 * The error that ends the run because a role uses a barrier that the ops at the start of the program have not made
 * ready.
 */
function tooEarly(agent: Agent, node: Node, state: 'declared' | 'initialised'): StopRun {
  const why =
    state === 'declared'
      ? 'which no thread has initialised'
      : 'which one thread has initialised, but the threads have not synchronised since'
  return new StopRun({
    kind: 'race',
    kernel: agent.launch.kernel,
    message: `a role uses a barrier ${why}`,
    parties: [{ who: describe(agent), what: `executes ${node.op}`, site: node.site }],
  })
}

const isWrong = (view: unknown): view is WrongView => !(view instanceof ArrivalBarrier)

/** True if the barrier cannot be used, so that using it would end the run. */
const isUnusable = (view: unknown): boolean => !(view instanceof ArrivalBarrier) || view.state !== 'ready'

export function barrierOf(agent: Agent, node: Node, register: number): ArrivalBarrier {
  const view = agent.registers[register] as ArrivalBarrier | WrongView
  if (isWrong(view)) throw misuse(accessOf(agent, node), view)
  if (view.state !== 'ready') throw tooEarly(agent, node, view.state)
  return view
}

/** A barrier that synchronises all roles of the program. */
export const barrier: Maker = (node) => ({
  node,
  sync: true,
  ready: (agent) => canMeet(agent),
  run: (agent, machine) => meet(agent, machine.strong),
  commutes: always,
  waiting: (agent) => `waits at a barrier for ${missing(agent).join(' and ')}`,
})

/** Stores the barrier in the register of the node `held`, so that a later `arrive.held` arrives at this barrier. */
const hold: Maker = (node, _, [barrier, held]) => ({
  node,
  sync: false,
  run: ({ registers }) => void (registers[held] = registers[barrier]),
})

export const arrive: Maker = (node, out, inputs, around) =>
  inputs.length > 1 ? hold(node, out, inputs, around) : arriveNow(node, out, inputs, around)

const arriveNow: Maker = (node, _, [first], { isContended }) => ({
  node,
  // Arrivals of a single role are ordered by the sequential execution of the role, so only arrivals of several roles
  // are scheduling points.
  sync: isContended || node.attributes.multicast !== undefined,
  run(agent, machine) {
    for (const one of barriersOf(agent, machine, node, barrierOf(agent, node, first)))
      one.arrive(agent, node, machine)
  },
  commutes: (agent, machine) =>
    isUnusable(agent.registers[first]) || !machine.strong.isSharedPlace(barrierOf(agent, node, first).key),
})

/**
 * The register of a `held` node contains the barrier at which the next `arrive.held` arrives, or undefined for none.
 */
export const held: Maker = (node, out) => ({
  node,
  sync: false,
  run: ({ registers }) => void (registers[out] = undefined),
})

export const arriveHeld: Maker = (node, out, [held], around) => {
  const arrival = arriveNow(node, out, [held], around)
  const isHeld = ({ registers }: Agent): boolean => registers[held] !== undefined
  return {
    ...arrival,
    run(agent, machine) {
      if (!isHeld(agent)) return
      arrival.run(agent, machine)
      agent.registers[held] = undefined
    },
    commutes: (agent, machine) => !isHeld(agent) || arrival.commutes!(agent, machine),
  }
}

export const waitPhase: Maker = (node, _, [first, phase]) => ({
  node,
  sync: true,
  ready: (agent) =>
    isUnusable(agent.registers[first]) ||
    barrierOf(agent, node, first).isReady(agent.registers[phase] as number),
  run: (agent, machine) =>
    barrierOf(agent, node, first).wait(agent, node, agent.registers[phase] as number, machine),
  commutes: always,
  waiting: (agent) =>
    `waits for phase ${agent.registers[phase] as number} of a barrier ${barrierOf(agent, node, first).describe()}`,
})
