/** Compiles assertions and prints to instructions. */
import { attribute } from '../../ir/node.ts'
import { accessOf, partyOf } from './access.ts'
import { printed } from '../../world/prints.ts'
import type { Maker } from './code.ts'
import { StopRun } from './findings.ts'

/** A failed assertion ends the run, because results computed after a failed assertion would be meaningless. */
export const assert: Maker = (node, _, [condition]) => ({
  node,
  sync: false,
  run(agent) {
    if (agent.registers[condition]) return
    const by = accessOf(agent, node)
    const message = attribute<string>(node, 'message')
    throw new StopRun({
      kind: 'assertion',
      kernel: by.kernel,
      message,
      parties: [partyOf(by, 'fails the assertion')],
    })
  },
})

export const print: Maker = (node, _, inputs) => ({
  node,
  sync: false,
  run(agent, machine) {
    const { rank, program, launch } = agent
    const numbers = inputs.map((register) => agent.registers[register] as number)
    if (machine.prints) machine.prints.push(printed(node, launch.kernel, rank, program, numbers))
  },
})
