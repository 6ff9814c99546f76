/** Memory and synchronisation as instructions of the checking machine. */
import type { DType } from '../../ir/dtype.ts'
import { attribute, type Node } from '../../ir/node.ts'
import { ops, type Order, type Scope } from '../../ir/ops/index.ts'
import { elements, type RefType } from '../../ir/type.ts'
import { accessOf, misuse, OUTSIDE, type Places, type WrongView } from './access.ts'
import type { Agent } from './agent.ts'
import { ArrivalBarrier } from './barrier.ts'
import { always, type Instruction } from './code.ts'
import { describeFlag, type FlagView } from './flags.ts'
import { checkOverlap, checkWrites } from './lanes.ts'
import type { Machine } from './machine.ts'
import { Buffer, type Accessor } from './memory.ts'
import { atomicChange } from './strong.ts'

type Run = (agent: Agent, machine: Machine) => void

/** What the kernel around a node says of it. */
export interface Surroundings {
  /** Somebody uses what it yields. */
  readonly isUsed: boolean
  /** Of an arrival: other roles arrive at the same barriers. */
  readonly isContended: boolean
}

export function memoryInstruction(
  node: Node,
  out: number,
  inputs: readonly number[],
  { isUsed, isContended }: Surroundings,
): Instruction {
  switch (node.op) {
    case 'shared':
    case 'barriers':
      return declaration(node, out)
    case 'load':
    case 'store':
      return node.attributes.order === undefined
        ? weakAccess(node, out, inputs)
        : strongAccess(node, out, inputs, isUsed)
    case 'copy':
    case 'copy.async':
    case 'dot':
      return weakAccess(node, out, inputs)
    case 'signal':
    case 'wait':
    case 'reached':
    case 'fence':
      return flagInstruction(node, out, inputs)
    case 'barrier':
    case 'barrier.arrive':
    case 'barrier.wait':
      return barrierInstruction(node, inputs, isContended)
    default:
      if (node.op.startsWith('atomic.')) return strongAccess(node, out, inputs, isUsed)
      throw new Error(`${node.op} cannot be executed`)
  }
}

function declaration(node: Node, out: number): Instruction {
  if (node.op === 'barriers') {
    const count = attribute<number>(node, 'count')
    const arrivals = attribute<number>(node, 'arrivals')
    const make: Run = (agent) => {
      const key = `barrier ${agent.rank}.${agent.stream}.${agent.program}.${out}`
      agent.registers[out] = Array.from(
        { length: count },
        (_, i) => new ArrivalBarrier(arrivals, `${key}.${i}`),
      )
    }
    return { node, sync: false, run: make }
  }
  const { shape } = node.type as RefType
  const count = elements(shape)
  const index = Int32Array.from({ length: count }, (_, i) => i)
  const run: Run = (agent) => {
    const key = `${agent.rank}.${agent.program}.${out}`
    const buffer = new Buffer('shared tile', key, -1, shape, count, ` (declared at ${node.site})`)
    agent.registers[out] = { buffer, index } satisfies Places
  }
  return { node, sync: false, run }
}

// Weak accesses

const optional = (agent: Agent, register: number | undefined): unknown =>
  register === undefined ? undefined : agent.registers[register]
const taking = (mask: unknown, i: number): boolean =>
  mask === undefined || (typeof mask === 'number' ? mask !== 0 : (mask as Float64Array)[i] !== 0)
const element = (data: unknown, i: number): number =>
  typeof data === 'number' ? data : (data as Float64Array)[i]
/** Whether places are single: then data are numbers, not arrays. */
const isScalar = (node: Node): boolean => (node.type as RefType).shape.length === 0

function weakAccess(node: Node, out: number, inputs: readonly number[]): Instruction {
  const [first, second, third] = inputs
  const plain = (run: Run): Instruction => ({ node, sync: false, run })
  switch (node.op) {
    case 'load': {
      const scalar = isScalar(node.inputs[0])
      return plain((agent, machine) => {
        const data = readPlaces(agent, machine, node, first, optional(agent, second), optional(agent, third))
        agent.registers[out] = scalar ? data[0] : data
      })
    }
    case 'store':
      return plain((agent, machine) => {
        const places = agent.registers[first] as Places
        writePlaces(
          accessOf(agent, node),
          agent,
          machine,
          places,
          agent.registers[second],
          optional(agent, third),
        )
      })
    case 'copy':
      return plain((agent, machine) => {
        const [from, to] = [agent.registers[first] as Places, agent.registers[second] as Places]
        copyPlaces(accessOf(agent, node), agent, machine, from, to, optional(agent, third))
      })
    case 'copy.async':
      return plain((agent, machine) => {
        const by = machine.beginCopy(agent, node)
        const [from, to] = [agent.registers[first] as Places, agent.registers[second] as Places]
        copyPlaces(by, agent, machine, from, to, undefined)
        barrierOf(agent, node, third).attach(by)
      })
    default: {
      const inMemory = node.inputs.map((input) => input.type.kind === 'ref')
      return plain((agent, machine) => {
        const { registers } = agent
        const a = inMemory[0] ? readPlaces(agent, machine, node, first) : (registers[first] as Float64Array)
        const b = inMemory[1] ? readPlaces(agent, machine, node, second) : (registers[second] as Float64Array)
        registers[out] = ops.dot.evaluate!(node, [a, b, registers[third] as Float64Array])
      })
    }
  }
}

function readPlaces(
  agent: Agent,
  machine: Machine,
  node: Node,
  register: number,
  mask?: unknown,
  other?: unknown,
): Float64Array {
  const places = agent.registers[register] as Places
  const { buffer, index } = places
  const by = accessOf(agent, node)
  const out = new Float64Array(index.length)
  for (let i = 0; i < out.length; i++) {
    const at = index[i]
    if (mask !== undefined && !taking(mask, i)) out[i] = other === undefined ? 0 : element(other, i)
    else if (at >= 0) out[i] = machine.memory.read(by, buffer, at)
    else if (at === OUTSIDE) machine.memory.outside(by, places, 'reads')
  }
  return out
}

function writePlaces(
  by: Accessor,
  agent: Agent,
  machine: Machine,
  places: Places,
  data: unknown,
  mask: unknown,
): void {
  const { buffer, index } = places
  agent.noteEffect()
  if (places.mayRepeat)
    checkWrites(
      machine.memory,
      by,
      places,
      (i) => taking(mask, i),
      (i) => element(data, i),
    )
  for (let i = 0; i < index.length; i++) {
    const at = index[i]
    if (mask !== undefined && !taking(mask, i)) continue
    if (at >= 0) machine.memory.write(by, buffer, at, element(data, i))
    else if (at === OUTSIDE) machine.memory.outside(by, places, 'writes')
  }
}

/** Shared memory takes zeros where the source is masked; global memory only what lies inside. */
function copyPlaces(
  by: Accessor,
  agent: Agent,
  { memory }: Machine,
  from: Places,
  to: Places,
  mask: unknown,
): void {
  agent.noteEffect()
  if (from.buffer === to.buffer) checkOverlap(memory, by, from, to, (i) => taking(mask, i))
  // Places outside the source are zeros in shared memory and left alone elsewhere.
  if (to.mayRepeat)
    checkWrites(
      memory,
      by,
      to,
      (i) => taking(mask, i) && (from.index[i] >= 0 || to.buffer.rank < 0),
      (i) => (from.index[i] >= 0 ? from.buffer.data[from.index[i]] : 0),
    )
  for (let i = 0; i < to.index.length; i++) {
    if (mask !== undefined && !taking(mask, i)) continue
    const source = from.index[i]
    const target = to.index[i]
    if (source === OUTSIDE) memory.outside(by, from, 'reads')
    else if (target === OUTSIDE) memory.outside(by, to, 'writes')
    else if (target >= 0 && source >= 0)
      memory.write(by, to.buffer, target, memory.read(by, from.buffer, source))
    else if (target >= 0 && to.buffer.rank < 0) memory.write(by, to.buffer, target, 0)
  }
}

// Strong accesses

/** They commute with everything as long as nobody shares the places. */
function strongAccess(node: Node, out: number, inputs: readonly number[], isUsed: boolean): Instruction {
  const [first, second, third] = inputs
  const { order, scope } = node.attributes as { order: Order; scope: Scope }
  const { dtype } = node.inputs[0].type as { dtype: DType }
  const scalar = isScalar(node.inputs[0])
  const maskAt = { load: 1, store: 2, 'atomic.cas': 3 }[node.op as string] ?? 2
  const mask = inputs[maskAt] as number | undefined

  /** Additions commute, unless somebody looks at what was there before; the last exchange stays. */
  const orderTells =
    !['load', 'store'].includes(node.op) && (isUsed || ['atomic.xchg', 'atomic.cas'].includes(node.op))

  const act = (agent: Agent, { strong }: Machine, { buffer }: Places, i: number, at: number): number => {
    const access = { agent, node, buffer, i: at, order, scope }
    if (node.op === 'load') return strong.load(access)
    const value = element(agent.registers[second], i)
    if (node.op === 'store') {
      strong.store(access, value)
      return 0
    }
    const desired = node.op === 'atomic.cas' ? element(agent.registers[third], i) : 0
    return strong.modify(access, atomicChange(node, dtype, value, desired))
  }
  const run: Run = (agent, machine) => {
    const places = agent.registers[first] as Places
    const lanes = optional(agent, mask)
    const other = node.op === 'load' ? optional(agent, third) : undefined
    const data = new Float64Array(places.index.length)
    if (orderTells && doLanesMeet(machine, places, lanes)) machine.cuts.add('lanes')
    if (node.op === 'store' && places.mayRepeat)
      checkWrites(
        machine.memory,
        accessOf(agent, node),
        places,
        (i) => taking(lanes, i),
        (i) => element(agent.registers[second], i),
      )
    places.index.forEach((at, i) => {
      if (!taking(lanes, i)) data[i] = other === undefined ? 0 : element(other, i)
      else if (at >= 0) data[i] = act(agent, machine, places, i, at)
      else if (at === OUTSIDE)
        machine.memory.outside(accessOf(agent, node), places, node.op === 'load' ? 'reads' : 'writes')
    })
    agent.registers[out] = scalar ? data[0] : data
  }
  const commutes = (agent: Agent, machine: Machine): boolean => {
    const { buffer, index } = agent.registers[first] as Places
    return index.every((at) => at < 0 || !machine.strong.isShared(buffer, at))
  }
  return { node, sync: true, run, commutes }
}

/** Whether the lanes meet each other in a place, or several of them other agents: they act in any order, between others' acts. */
function doLanesMeet({ strong }: Machine, { buffer, index }: Places, mask: unknown): boolean {
  const taken = [...index].filter((at, i) => at >= 0 && taking(mask, i))
  if (new Set(taken).size < taken.length) return true
  return taken.filter((at) => strong.isShared(buffer, at)).length > 1
}

// Flags and fences

function flagInstruction(node: Node, out: number, [first]: readonly number[]): Instruction {
  const seen = (agent: Agent): FlagView => agent.registers[first] as FlagView
  const flag = (agent: Agent): FlagView => {
    const view = seen(agent)
    if (view.wrong) throw misuse(accessOf(agent, node), view.wrong)
    return view
  }
  const isAlone = (agent: Agent, machine: Machine): boolean => {
    const { flags, rank, index, wrong } = seen(agent)
    if (wrong) return true
    return !machine.strong.isShared(flags.buffers[rank], index)
  }
  if (node.op === 'fence') {
    const { order, scope } = node.attributes as { order: Order; scope: Scope }
    return {
      node,
      sync: true,
      run: (agent, machine) => machine.strong.fence(agent, order, scope),
      commutes: () => order !== 'seqCst',
    }
  }
  if (node.op === 'signal')
    return {
      node,
      sync: true,
      run: (agent, machine) => machine.flags.signal(agent, node, flag(agent)),
      commutes: isAlone,
    }
  if (node.op === 'reached')
    return {
      node,
      sync: true,
      run(agent, machine) {
        agent.registers[out] = Number(machine.flags.reached(agent, node, flag(agent)))
      },
      commutes: isAlone,
    }
  return {
    node,
    sync: true,
    ready: (agent, machine) =>
      seen(agent).wrong !== undefined || machine.flags.canWait(agent, node, flag(agent)),
    run: (agent, machine) => machine.flags.wait(agent, node, flag(agent)),
    commutes: (agent, machine) => seen(agent).wrong !== undefined || !machine.flags.isMixed(seen(agent)),
    waiting(agent, machine) {
      const { flags, rank, index } = flag(agent)
      const wanted = machine.flags.wantedEpoch(agent, node, flag(agent)) * flags.arrivals
      return `waits for flag ${describeFlag(flag(agent))}: it is ${flags.buffers[rank].data[index]}, wanted ${wanted}`
    },
  }
}

// Barriers inside a program

const isWrong = (view: unknown): view is WrongView => !(view instanceof ArrivalBarrier)

function barrierOf(agent: Agent, node: Node, register: number): ArrivalBarrier {
  const view = agent.registers[register] as ArrivalBarrier | WrongView
  if (isWrong(view)) throw misuse(accessOf(agent, node), view)
  return view
}

function barrierInstruction(
  node: Node,
  [first, second]: readonly number[],
  isContended: boolean,
): Instruction {
  const barrier = (agent: Agent): ArrivalBarrier => barrierOf(agent, node, first)
  const phase = (agent: Agent): number => agent.registers[second] as number
  if (node.op === 'barrier')
    return {
      node,
      sync: true,
      ready: (agent, machine) => machine.canMeet(agent),
      run: (agent, machine) => machine.meet(agent),
      commutes: always,
      waiting: (agent, machine) => `waits at a barrier for ${machine.missing(agent).join(' and ')}`,
    }
  if (node.op === 'barrier.arrive')
    return {
      node,
      // Arrivals of one role come in its order, whatever the others do.
      sync: isContended,
      run: (agent, machine) => barrier(agent).arrive(agent, node, machine),
      commutes: (agent, machine) =>
        isWrong(agent.registers[first]) || !machine.strong.isSharedPlace(barrier(agent).key),
    }
  return {
    node,
    sync: true,
    ready: (agent) => isWrong(agent.registers[first]) || barrier(agent).isReady(phase(agent)),
    run: (agent, machine) => barrier(agent).wait(agent, node, phase(agent), machine),
    commutes: always,
    waiting: (agent) => `waits for phase ${phase(agent)} of a barrier ${barrier(agent).describe()}`,
  }
}
