/** Memory accesses and synchronisation as instructions of the checking machine. */
import { round } from '../../ir/dtype.ts'
import { attribute, type Node } from '../../ir/node.ts'
import { atomicOf, isStrong, opOf, ops, type Order, type Scope } from '../../ir/ops/index.ts'
import { elements, type RefType } from '../../ir/type.ts'
import { accessOf, misuse, OUTSIDE, type Places, type WrongView } from './access.ts'
import type { Agent } from './agent.ts'
import { ArrivalBarrier } from './barrier.ts'
import type { Instruction, Maker } from './code.ts'
import { barriersOf, copyPart } from './clusters.ts'
import { beginInFlight, isByEngine, readByEngine, storeByEngine } from './engines.ts'
import { describeFlag, type FlagView, type Wanted } from './flags.ts'
import { checkOverlap, checkWrites } from './lanes.ts'
import type { Machine } from './machine.ts'
import { Buffer, type Accessor } from './memory.ts'
import type { StrongAccess } from './strong.ts'

const always = (): boolean => true

// Declarations

export const barriers: Maker = (node, out) => {
  const count = attribute<number>(node, 'count')
  const arrivals = attribute<number>(node, 'arrivals')
  return {
    node,
    sync: false,
    run(agent) {
      const key = `barrier ${agent.rank}.${agent.stream}.${agent.program}.${out}`
      const made = Array.from({ length: count }, (_, i) => new ArrivalBarrier(arrivals, `${key}.${i}`))
      agent.instance.barriers.push(made)
      agent.registers[out] = made
    },
  }
}

export const shared: Maker = (node, out) => {
  const { shape } = node.type as RefType
  const count = elements(shape)
  const index = Int32Array.from({ length: count }, (_, i) => i)
  return {
    node,
    sync: false,
    run(agent) {
      const key = `${agent.rank}.${agent.program}.${out}`
      const buffer = new Buffer('shared tile', key, -1, shape, count, ` (declared at ${node.site})`)
      agent.instance.tiles.push(buffer)
      agent.registers[out] = { buffer, index } satisfies Places
    },
  }
}

// Weak accesses

const optional = (agent: Agent, register: number | undefined): unknown =>
  register === undefined ? undefined : agent.registers[register]
const taking = (mask: unknown, i: number): boolean =>
  mask === undefined || (typeof mask === 'number' ? mask !== 0 : (mask as Float64Array)[i] !== 0)
const element = (data: unknown, i: number): number =>
  typeof data === 'number' ? data : (data as Float64Array)[i]
/** True if the node refers to a single element. Its data are then numbers, not arrays. */
const isScalar = (node: Node): boolean => (node.type as RefType).shape.length === 0

/** The register of the mask of an op's first access, as named by the op's record. */
const maskOf = (node: Node, inputs: readonly number[]): number | undefined =>
  inputs[opOf(node).accesses[0].mask!]

export const load: Maker = (node, out, inputs) => {
  const [from, mask, other] = inputs
  const scalar = isScalar(node.inputs[0])
  if (isStrong(node))
    return strongAccess(node, out, inputs, {
      verb: 'reads',
      other,
      orderTells: false,
      act: (access, _, { strong }) => strong.load(access),
    })
  return {
    node,
    sync: false,
    run(agent, machine) {
      const by = accessOf(agent, node)
      const data = readPlaces(agent, machine, by, from, optional(agent, mask), optional(agent, other))
      agent.registers[out] = scalar ? data[0] : data
    },
  }
}

export const store: Maker = (node, out, inputs) => {
  const [to, value, mask] = inputs
  if (isStrong(node))
    return strongAccess(node, out, inputs, {
      verb: 'writes',
      stored: value,
      orderTells: false,
      act(access, agent, { strong }, i) {
        strong.store(access, element(agent.registers[value], i))
        return 0
      },
    })
  const isEngine = isByEngine(node)
  return {
    node,
    sync: false,
    run(agent, machine) {
      const places = agent.registers[to] as Places
      writePlaces(
        isEngine ? storeByEngine(agent, machine, node) : accessOf(agent, node),
        agent,
        machine,
        places,
        agent.registers[value],
        optional(agent, mask),
      )
    },
  }
}

export const copy: Maker = (node, _, [source, target, mask]) => ({
  node,
  sync: false,
  run(agent, machine) {
    const [from, to] = [agent.registers[source] as Places, agent.registers[target] as Places]
    machine.multicasts.note(agent, machine, node, from)
    copyPlaces(accessOf(agent, node), agent, machine, from, to, optional(agent, mask))
  },
})

/**
 * An asynchronous copy. A copy by threads is complete when the threads arrive at the barrier. A copy in flight is
 * attached to its barrier, which completes only after the copy.
 */
export const copyAsync: Maker = (node, out, inputs, around) => {
  const [source, target, barrier] = inputs
  if (node.attributes.by === 'threads') return copy(node, out, [source, target], around)
  const isEngine = isByEngine(node)
  const copyBy = (agent: Agent, machine: Machine, by: Accessor, from: Places, to: Places): void => {
    if (!isEngine) return copyPlaces(by, agent, machine, from, to, undefined)
    const [reader, writer] = (['all', 'shared'] as const).map((space) =>
      machine.engines.access(by, agent, space),
    )
    copyPlaces(reader, agent, machine, from, to, undefined, writer)
  }
  if (node.attributes.parts !== undefined)
    return {
      node,
      sync: false,
      run(agent, machine) {
        const [from, to] = [agent.registers[source] as Places, agent.registers[target] as Places]
        machine.multicasts.note(agent, machine, node, from)
        copyPart(agent, machine, node, { from, to, barrier: barrierOf(agent, node, barrier) }, copyBy)
      },
    }
  return {
    node,
    sync: false,
    run(agent, machine) {
      const by = machine.beginCopy(agent, node)
      const [from, to] = [agent.registers[source] as Places, agent.registers[target] as Places]
      machine.multicasts.note(agent, machine, node, from)
      copyBy(agent, machine, by, from, to)
      barrierOf(agent, node, barrier).attach(by)
    },
  }
}

/** A copy in flight until `quiet`. */
export const copyInFlight: Maker = (node, _, [source, target, mask]) => ({
  node,
  sync: false,
  run(agent, machine) {
    const { reader, writer } = beginInFlight(agent, machine, node)
    const [from, to] = [agent.registers[source] as Places, agent.registers[target] as Places]
    copyPlaces(reader, agent, machine, from, to, optional(agent, mask), writer)
  },
})

/** A put, then a signal that covers it. Only the signal is a scheduling point: the copy is a weak access. */
export const putSignal: Maker = (node, out, [flag, ...copied], around) => {
  const put = copy(node, out, copied, around)
  const told = signal(node, out, [flag], around)
  return {
    ...told,
    run(agent, machine) {
      put.run(agent, machine)
      told.run(agent, machine)
    },
  }
}

export const dot: Maker = (node, out, [first, second, third, staged]) => {
  const inMemory = node.inputs.map((input) => input.type.kind === 'ref')
  const evaluate = ops.dot.evaluate!
  return {
    node,
    sync: false,
    run(agent, machine) {
      const { registers } = agent
      const by = readByEngine(agent, machine, node)
      if (node.inputs.length > 3) readPlaces(agent, machine, by, staged)
      const [a, b] = [first, second].map((register, i) =>
        inMemory[i] ? readPlaces(agent, machine, by, register) : (registers[register] as Float64Array),
      )
      registers[out] = evaluate(node, [a, b, registers[third] as Float64Array])
    },
  }
}

function readPlaces(
  agent: Agent,
  machine: Machine,
  by: Accessor,
  register: number,
  mask?: unknown,
  other?: unknown,
): Float64Array {
  const places = agent.registers[register] as Places
  const { buffer, index } = places
  const out = new Float64Array(index.length)
  for (let i = 0; i < out.length; i++) {
    const at = index[i]
    if (mask !== undefined && !taking(mask, i)) out[i] = other === undefined ? 0 : element(other, i)
    else if (at >= 0) out[i] = machine.memory.read(by, buffer, at)
    else if (at === OUTSIDE) machine.memory.outside(by, places, 'reads')
  }
  return out
}

export function writePlaces(
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

/**
 * Copies element by element. Elements masked in the source become zeros in shared memory and are left unchanged in
 * global memory.
 */
function copyPlaces(
  by: Accessor,
  agent: Agent,
  { memory }: Machine,
  from: Places,
  to: Places,
  mask: unknown,
  writer = by,
): void {
  agent.noteEffect()
  if (from.buffer === to.buffer) checkOverlap(memory, by, from, to, (i) => taking(mask, i))
  // Elements outside the source become zeros in shared memory and are left unchanged in global memory.
  if (to.mayRepeat)
    checkWrites(
      memory,
      writer,
      to,
      (i) => taking(mask, i) && (from.index[i] >= 0 || to.buffer.rank < 0),
      (i) => (from.index[i] >= 0 ? from.buffer.data[from.index[i]] : 0),
    )
  for (let i = 0; i < to.index.length; i++) {
    if (mask !== undefined && !taking(mask, i)) continue
    const source = from.index[i]
    const target = to.index[i]
    if (source === OUTSIDE) memory.outside(by, from, 'reads')
    else if (target === OUTSIDE) memory.outside(writer, to, 'writes')
    else if (target >= 0 && source >= 0)
      memory.write(writer, to.buffer, target, memory.read(by, from.buffer, source))
    else if (target >= 0 && to.buffer.rank < 0) memory.write(writer, to.buffer, target, 0)
  }
}

// Strong accesses

/** The parts of a strong access that depend on the op. */
interface StrongOp {
  /** Performs the access of one element and returns the lane's result. */
  readonly act: (access: StrongAccess, agent: Agent, machine: Machine, i: number) => number
  readonly verb: 'reads' | 'writes'
  /** True if the order in which the lanes act is observable. */
  readonly orderTells: boolean
  /** The register of the stored values. Two lanes that store to one element must store the same value. */
  readonly stored?: number
  /** The register of the result of masked-out lanes, or undefined for zero. */
  readonly other?: number
}

/**
 * Makes the instruction of a strong access. The access commutes with everything as long as no other agent shares its
 * elements.
 */
export function strongAccess(
  node: Node,
  out: number,
  inputs: readonly number[],
  { act, verb, orderTells, stored, other }: StrongOp,
): Instruction {
  const [first] = inputs
  const { order, scope } = node.attributes as { order: Order; scope: Scope }
  const scalar = isScalar(node.inputs[0])
  const mask = maskOf(node, inputs)
  return {
    node,
    sync: true,
    run(agent, machine) {
      const places = agent.registers[first] as Places
      const lanes = optional(agent, mask)
      const masked = optional(agent, other)
      const data = new Float64Array(places.index.length)
      if (orderTells && doLanesMeet(machine, places, lanes)) machine.cuts.add('lanes')
      if (stored !== undefined && places.mayRepeat)
        checkWrites(
          machine.memory,
          accessOf(agent, node),
          places,
          (i) => taking(lanes, i),
          (i) => element(agent.registers[stored], i),
        )
      const { buffer } = places
      places.index.forEach((at, i) => {
        if (!taking(lanes, i)) data[i] = masked === undefined ? 0 : element(masked, i)
        else if (at >= 0) data[i] = act({ agent, node, buffer, i: at, order, scope }, agent, machine, i)
        else if (at === OUTSIDE) machine.memory.outside(accessOf(agent, node), places, verb)
      })
      agent.registers[out] = scalar ? data[0] : data
    },
    commutes(agent, machine) {
      const { buffer, index } = agent.registers[first] as Places
      return index.every((at) => at < 0 || !machine.strong.isShared(buffer, at))
    },
  }
}

/**
 * An atomic read-modify-write. Additions commute unless the kernel uses their results. Exchanges do not commute,
 * because the last one determines the value.
 */
export const atomic: Maker = (node, out, inputs, { isUsed }) => {
  const { dtype } = node.inputs[0].type as RefType
  const { commutes, change } = atomicOf(node)
  const changed = change((x) => round(dtype, x))
  const [value, desired] = opOf(node).accesses[0].values!.map((at) => inputs[at])
  return strongAccess(node, out, inputs, {
    verb: 'writes',
    orderTells: isUsed || !commutes,
    act(access, { registers }, { strong }, i) {
      const x = element(registers[value], i)
      const y = desired === undefined ? 0 : element(registers[desired], i)
      return strong.modify(access, (old) => changed(old, x, y))
    },
  })
}

/**
 * True if the order of the lanes is observable: two lanes access the same element, or several lanes access elements
 * shared with other agents. The lanes act in any order, interleaved with the accesses of other agents.
 */
function doLanesMeet({ strong }: Machine, { buffer, index }: Places, mask: unknown): boolean {
  const taken = [...index].filter((at, i) => at >= 0 && taking(mask, i))
  if (new Set(taken).size < taken.length) return true
  return taken.filter((at) => strong.isShared(buffer, at)).length > 1
}

// Flags and fences

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

/** The flag of a `wait` or `reached`, and the value that it must have. */
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

// Barriers inside a program

const isWrong = (view: unknown): view is WrongView => !(view instanceof ArrivalBarrier)

function barrierOf(agent: Agent, node: Node, register: number): ArrivalBarrier {
  const view = agent.registers[register] as ArrivalBarrier | WrongView
  if (isWrong(view)) throw misuse(accessOf(agent, node), view)
  return view
}

/** A barrier of all roles of the program. */
export const barrier: Maker = (node) => ({
  node,
  sync: true,
  ready: (agent, machine) => machine.canMeet(agent),
  run: (agent, machine) => machine.meet(agent),
  commutes: always,
  waiting: (agent, machine) => `waits at a barrier for ${machine.missing(agent).join(' and ')}`,
})

export const arrive: Maker = (node, _, [first], { isContended }) => ({
  node,
  // Arrivals of a single role are ordered by the role itself, so only contended arrivals are scheduling points.
  sync: isContended || node.attributes.multicast !== undefined,
  run(agent, machine) {
    for (const one of barriersOf(agent, machine, node, barrierOf(agent, node, first)))
      one.arrive(agent, node, machine)
  },
  commutes: (agent, machine) =>
    isWrong(agent.registers[first]) || !machine.strong.isSharedPlace(barrierOf(agent, node, first).key),
})

export const waitPhase: Maker = (node, _, [first, phase]) => ({
  node,
  sync: true,
  ready: (agent) =>
    isWrong(agent.registers[first]) ||
    barrierOf(agent, node, first).isReady(agent.registers[phase] as number),
  run: (agent, machine) =>
    barrierOf(agent, node, first).wait(agent, node, agent.registers[phase] as number, machine),
  commutes: always,
  waiting: (agent) =>
    `waits for phase ${agent.registers[phase] as number} of a barrier ${barrierOf(agent, node, first).describe()}`,
})
