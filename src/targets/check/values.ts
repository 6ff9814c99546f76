/**
 * Compiles values to instructions: constants, ids, and ops that are evaluated by the `evaluate` function of their
 * record.
 */
import { attribute } from '../../ir/node.ts'
import { opOf, type Datum } from '../../ir/ops/index.ts'
import type { Agent } from './agent.ts'
import { inGroup } from '../../world/members.ts'
import type { Maker } from './code.ts'

export const constant: Maker = (node, out) => {
  const value = attribute<number>(node, 'value')
  return { node, sync: false, run: (agent) => void (agent.registers[out] = value) }
}

export const rank: Maker = (node, out) => ({
  node,
  sync: false,
  run: (agent) => void (agent.registers[out] = inGroup(agent.launch.members, agent.rank)),
})

export const program: Maker = (node, out) => ({
  node,
  sync: false,
  run: (agent) => void (agent.registers[out] = agent.program),
})

export const programs: Maker = (node, out) => ({
  node,
  sync: false,
  run: (agent) => void (agent.registers[out] = agent.launch.grid),
})

export const evaluated: Maker = (node, out, inputs) => {
  const { evaluate } = opOf(node)
  if (!evaluate) throw new Error(`${node.op} cannot be evaluated: its op record has no "evaluate" function`)
  const [a, b] = inputs
  const run =
    inputs.length === 1
      ? (agent: Agent): void => void (agent.registers[out] = evaluate(node, [agent.registers[a] as Datum]))
      : inputs.length === 2
        ? (agent: Agent): void => {
            const { registers } = agent
            registers[out] = evaluate(node, [registers[a] as Datum, registers[b] as Datum])
          }
        : (agent: Agent): void => {
            const { registers } = agent
            const data = inputs.map((register) => registers[register] as Datum)
            registers[out] = evaluate(node, data)
          }
  return { node, sync: false, run }
}
