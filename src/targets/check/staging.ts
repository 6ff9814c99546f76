/**
 * Models fragments that pass to an engine through shared memory, called staging memory (src/ir/ops/staging.ts). In the
 * checker, one staging buffer is a single element, because its box (tile of a TMA store) is always written and read as
 * a whole. The value of the element is the box that the buffer holds.
 */
import { isInBox } from '../../ir/ops/index.ts'
import type { ValueType } from '../../ir/type.ts'
import { accessOf, type Places } from './access.ts'
import type { Maker } from './code.ts'
import { storeByEngine } from './engines.ts'
import { writePlaces } from './places.ts'

export const operands: Maker = (node, _, [staging]) => ({
  node,
  sync: false,
  run(agent, machine) {
    writePlaces(accessOf(agent, node), agent, machine, agent.registers[staging] as Places, 0, undefined)
  },
})

export const place: Maker = (node, out, [staging, box]) => ({
  node,
  sync: false,
  run({ registers }) {
    const { buffer, index } = registers[staging] as Places
    const at = (registers[box] as number) % index.length
    registers[out] = { buffer, index: index.slice(at, at + 1) } satisfies Places
  },
})

export const stage: Maker = (node, _, [place, , box]) => ({
  node,
  sync: false,
  run(agent, machine) {
    const places = agent.registers[place] as Places
    writePlaces(accessOf(agent, node), agent, machine, places, agent.registers[box], undefined)
  },
})

export const storeBox: Maker = (node, _, [target, value, place, box]) => {
  const { count } = node.attributes as { count: number }
  const [rows, columns] = (node.inputs[1].type as ValueType).shape
  const masks = Array.from({ length: count }, (_, number) => {
    const isIn = isInBox(node, number)
    return Float64Array.from({ length: rows * columns }, (_, i) => Number(isIn(i)))
  })
  return {
    node,
    sync: false,
    run(agent, machine) {
      const { registers } = agent
      const { buffer, index } = registers[place] as Places
      const reader = machine.beginCopy(agent, node)
      agent.inFlight.reads.push(reader)
      machine.memory.read(machine.engines.access(reader, agent, 'shared'), buffer, index[0])
      const writer = storeByEngine(agent, machine, node)
      const mask = masks[registers[box] as number]
      writePlaces(writer, agent, machine, registers[target] as Places, registers[value], mask)
    },
  }
}
