/** Compiles shared tiles, loads, stores, copies and matrix products to instructions of the checking machine. */
import { isStrong, ops } from '../../ir/ops/index.ts'
import { elements, type RefType } from '../../ir/type.ts'
import { accessOf, type Places } from './access.ts'
import type { Agent } from './agent.ts'
import { copyPart } from './clusters.ts'
import type { Maker } from './code.ts'
import { beginInFlight, isByEngine, readByEngine, storeByEngine } from './engines.ts'
import type { Machine } from './machine.ts'
import { Buffer, type Accessor } from './memory.ts'
import { copyPlaces, element, optional, readPlaces, writePlaces } from './places.ts'
import { isScalar, strongAccess } from './strongAccess.ts'
import { barrierOf, signal } from './syncInstructions.ts'

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
 * Builds the instruction for an asynchronous copy. The checker executes an asynchronous copy by threads like an
 * ordinary copy, before the threads arrive at the copy's barrier. An asynchronous copy by an engine is attached to its
 * barrier, whose phase completes only after the copy.
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

/** Builds the instruction for a copy that is in flight until the role executes `quiet`. */
export const copyInFlight: Maker = (node, _, [source, target, mask]) => ({
  node,
  sync: false,
  run(agent, machine) {
    const { reader, writer } = beginInFlight(agent, machine, node)
    const [from, to] = [agent.registers[source] as Places, agent.registers[target] as Places]
    copyPlaces(reader, agent, machine, from, to, optional(agent, mask), writer)
  },
})

/**
 * Builds the instruction for `putSignal`: a copy, followed by a signal that publishes the copy. Only the signal is a
 * scheduling point, because the copy is a weak access.
 */
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
