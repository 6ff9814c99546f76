/** Compiles blocks that a program may skip, and the blocks of roles and teams: an agent executes only its own. */
import { attribute, type Node } from '../../ir/node.ts'
import { always } from './code.ts'
import type { Compiler } from './compiler.ts'
import type { FlagView } from './flags.ts'
import { arriveLast } from './lasts.ts'

export function compileIf(compiler: Compiler, node: Node): void {
  const [yes, no] = node.blocks
  const state = yes.results.map(() => compiler.newRegister())
  compiler.setState(node, state)
  const condition = compiler.register(node.inputs[0])
  const test = compiler.push({ node, sync: false, run: () => undefined })
  compiler.block(yes)
  compiler.assign(
    node,
    state,
    yes.results.map((result) => compiler.register(result)),
  )
  const skip = compiler.push({ node, sync: false, run: () => undefined })
  const otherwise = compiler.end
  compiler.block(no)
  compiler.assign(
    node,
    state,
    no.results.map((result) => compiler.register(result)),
  )
  const end = compiler.end
  compiler.patch(test, {
    node,
    sync: false,
    run: (agent) => void (agent.registers[condition] || (agent.pc = otherwise)),
  })
  compiler.patch(skip, { node, sync: false, run: (agent) => void (agent.pc = end) })
}

/** Skips the block if this agent has already waited for the block's flag. */
export function compileOnce(compiler: Compiler, node: Node): void {
  const [body] = node.blocks
  const flag = compiler.register(body.nodes.find(({ op }) => op === 'wait')!.inputs[0])
  const isSet = attribute<string>(node, 'remembers') === 'set'
  const test = compiler.push({ node, sync: false, run: () => undefined })
  compiler.block(body)
  const end = compiler.end
  compiler.patch(test, {
    node,
    sync: false,
    run(agent) {
      const { rank, index, wrong } = agent.registers[flag] as FlagView
      if (wrong || (isSet && index >= 32)) return
      let awaited = agent.awaited.get(node)
      if (!awaited) agent.awaited.set(node, (awaited = new Set()))
      const key = `${rank}.${index}`
      if (awaited.has(key)) return void (agent.pc = end)
      if (!isSet) awaited.clear()
      awaited.add(key)
    },
  })
}

export function compileRoles(compiler: Compiler, node: Node): void {
  const names = attribute<readonly string[]>(node, 'names')
  const fork = compiler.push({ node, sync: false, run: () => undefined })
  const starts = node.blocks.map((block) => {
    const start = compiler.end
    compiler.block(block)
    compiler.push({ node, sync: false, run: (agent, machine) => machine.endRole(agent) })
    return start
  })
  const join = compiler.push({
    node,
    sync: true,
    ready: (agent) => agent.children === 0,
    run: (agent, machine) => machine.joinRoles(agent),
    commutes: always,
    waiting: () => 'waits for its roles to end',
  })
  compiler.patch(fork, {
    node,
    sync: false,
    run(agent, machine) {
      agent.pc = join
      machine.startRoles(agent, names, starts)
    },
  })
}

export function compileTeams(compiler: Compiler, node: Node): void {
  const names = attribute<readonly string[]>(node, 'names')
  const inputs = node.inputs.map((input) => compiler.register(input))
  const choose = compiler.push({ node, sync: false, run: () => undefined })
  const starts: number[] = []
  const exits: number[] = []
  for (const block of node.blocks) {
    starts.push(compiler.end)
    compiler.block(block)
    exits.push(compiler.push({ node, sync: false, run: () => undefined }))
  }
  const end = compiler.end
  for (const exit of exits) compiler.patch(exit, { node, sync: false, run: (agent) => void (agent.pc = end) })
  const params = node.blocks.map((block) => block.params.map((param) => compiler.register(param)))
  compiler.patch(choose, {
    node,
    sync: false,
    run(agent) {
      const { registers } = agent
      let number = registers[inputs[0]] as number
      for (let team = 0; team < starts.length; team++) {
        const size = registers[inputs[team + 1]] as number
        if (number < size) {
          registers[params[team][0]] = number
          registers[params[team][1]] = size
          agent.record.team = names[team]
          agent.pc = starts[team]
          return
        }
        number -= size
      }
      agent.pc = end
    },
  })
}

export function compileLast(compiler: Compiler, node: Node): void {
  const gate = compiler.push({ node, sync: true, run: () => undefined })
  compiler.block(node.blocks[0])
  const end = compiler.end
  const [arrivals, index] = node.inputs.map((input) => compiler.register(input)) as [number, number?]
  compiler.patch(gate, {
    node,
    sync: true,
    run(agent, machine) {
      const { registers } = agent
      const at = index === undefined ? 0 : (registers[index] as number)
      if (!arriveLast(machine, agent, node, registers[arrivals] as number, at)) agent.pc = end
    },
  })
}
